//! New versions: replicas that are replaced one after the other, and a schema that is ahead of them.

use handbill_pages::ports::random::Random;
use handbill_store_scylla::schema::{MIGRATIONS, Migration, Phase, SchemaState, check};
use handbill_store_scylla::{LockTimes, builder, migrate_with};
use scylla::value::Row;

use super::calls::{delete, publish, read, rewrite};
use super::service::{Service, Settings};
use crate::linearizability::histories::workload::{Plan, run};

#[tokio::test(flavor = "multi_thread")]
async fn replicas_are_replaced_in_turn_and_no_request_fails() {
    let mut service = Service::start(Settings::unlimited()).await;
    // Operators call a replica by its address, and one that is being replaced answers nobody.
    let plan = Plan { seed: 11, calls: 0, groups: 4, clients: 4, burst: 8, has_operators: false };
    let outcome = run(&service.transport(), plan, async |mut progress| {
        for number in 1..=3 {
            progress.more(100).await;
            let old = service.replicas.remove(0);
            assert!(old.stop().0.success(), "it finished what it had begun");
            let new = service.replica(number);
            new.ready();
            service.replicas.push(new);
        }
        progress.more(100).await;
    })
    .await;
    println!("{outcome}");
    outcome.assert_no_failures();
    outcome.assert_linearizable();
}

/// An expansion that a later version might add.
const ADDS_A_COLUMN: Migration =
    Migration { number: 9999, phase: Phase::Expand, name: "motto", cql: "ALTER TABLE pages ADD motto text" };

#[tokio::test(flavor = "multi_thread")]
async fn replicas_from_before_and_after_an_expansion_work_together() {
    let service = Service::start_apart("expansion", Settings::unlimited()).await;
    let old = service.replicas[0].address;
    let before = publish(old).await;

    let settings = service.store_settings();
    let session = builder(&settings).unwrap().build().await.unwrap();
    let datacenter = session.get_cluster_state().get_nodes_info()[0].datacenter.clone().unwrap();
    let migrations = [MIGRATIONS, &[ADDS_A_COLUMN]].concat();
    let random = Random::System;
    migrate_with(&session, &settings, Some(&datacenter), &migrations, LockTimes::default(), &random).await.unwrap();
    let keyspace = &settings.keyspace;
    assert_eq!(check(&session, keyspace, MIGRATIONS).await.unwrap(), SchemaState::NewerExpanded);

    // This is one more replica, which finds the schema ahead of it as soon as it starts.
    let new = service.another_replica();
    new.ready();
    let after = publish(new.address).await;
    for page in [&before, &after] {
        // A later version writes to its new column.
        let motto = format!("UPDATE {keyspace}.pages SET motto = 'kept' WHERE slug = ? IF EXISTS");
        session.query_unpaged(motto, (&page.slug,)).await.unwrap();
        for (replica, content) in [(old, "by the old"), (new.address, "by the new")] {
            rewrite(replica, page, content).await.expect_status(200);
            for reader in [old, new.address] {
                assert_eq!(read(reader, page).await.expect_status(200).text("content"), content);
            }
        }
        let motto = format!("SELECT motto FROM {keyspace}.pages WHERE slug = ?");
        let row = session.query_unpaged(motto, (&page.slug,)).await.unwrap().into_rows_result().unwrap();
        let row: Row = row.first_row().unwrap();
        assert_eq!(row.columns[0].as_ref().and_then(|motto| motto.as_text().cloned()).as_deref(), Some("kept"));
    }
    delete(old, &after).await.expect_status(204);
    read(new.address, &after).await.expect_status(410);
    delete(new.address, &before).await.expect_status(204);
    read(old, &before).await.expect_status(410);
    assert!(new.stop().0.success());
}

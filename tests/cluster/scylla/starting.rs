//! Connecting to the cluster: what the store waits for, and what ends the wait immediately.

use std::sync::Arc;
use std::time::Duration;

use handbill_pages::ports::page_store::{Expected, PageStore, PutResult, StoreError};
use handbill_pages::ports::random::Random;
use handbill_pages::values::record::Record;
use handbill_store_scylla::schema::{MIGRATIONS, Migration, Phase, SchemaError, SchemaState};
use handbill_store_scylla::{
    ConnectError, LOCK_WAIT, Limits, MigrateError, Progress, ScyllaSettings, ScyllaStore, SettingsError, findings,
    migrate, migrate_with,
};
use handbill_test_support::pages::{insert, page};
use scylla_proxy::{Condition, RequestRule};
use tokio::sync::mpsc::unbounded_channel;

use super::server::{
    PATIENT, change_schema, datacenter, drop_keyspace, fresh_keyspace, migrated_settings, proxied_session, session,
    settings, unconnected,
};
use super::shapes::{TEXTS, answering, one_row, texts};
use crate::deployment::Addresses;

async fn connecting(settings: &ScyllaSettings) -> Result<ScyllaStore, ConnectError> {
    let store = unconnected(PATIENT);
    store.connect(settings, |_| {}).await.map(|()| store)
}

/// The settings of a program that waits so long for the cluster and its schema.
fn waiting(schema_wait: Duration, keyspace: &str) -> ScyllaSettings {
    ScyllaSettings { schema_wait, ..settings(keyspace, &[]) }
}

#[tokio::test]
async fn a_store_waits_for_its_schema_and_then_serves() {
    let session = session().await;
    let keyspace = fresh_keyspace();
    let settings = waiting(Duration::from_hours(1), &keyspace);
    let (tell, mut told) = unbounded_channel();
    let awaited = Arc::new(unconnected(PATIENT));
    let (waiting, serving) = (settings.clone(), awaited.clone());
    let connecting = tokio::spawn(async move {
        let connecting = serving.connect(&waiting, move |progress| {
            tell.send(progress.clone()).expect("the test listens");
        });
        connecting.await.unwrap();
    });
    while told.recv().await.unwrap() != Progress::Schema(SchemaState::Missing) {}
    let early = awaited.put(Expected::Absent, Record::Active(Arc::new(page("text"))), None).await;
    assert!(matches!(early, Err(StoreError::Unavailable(_))), "{early:?}");

    migrate(&settings, &Random::System).await.unwrap();
    while told.recv().await.unwrap() != Progress::Connected {}
    connecting.await.unwrap();
    assert_eq!(insert(&*awaited, Arc::new(page("text"))).await, PutResult::Done);
    drop_keyspace(&session, &keyspace).await;
}

#[tokio::test]
async fn a_schema_that_stays_missing_ends_the_wait() {
    let refused = connecting(&waiting(Duration::ZERO, &fresh_keyspace())).await.err().unwrap();
    assert!(matches!(refused, ConnectError::SchemaWait { state: SchemaState::Missing }), "{refused}");
}

#[tokio::test]
async fn a_store_serves_on_an_expanded_schema_and_not_a_contracted() {
    const NEXT: i32 = MIGRATIONS[MIGRATIONS.len() - 1].number + 1;
    const EXPANDED: Migration =
        Migration { number: NEXT, phase: Phase::Expand, name: "note", cql: "ALTER TABLE pages ADD note text" };
    const CONTRACTED: Migration =
        Migration { number: NEXT + 1, phase: Phase::Contract, name: "no_text", cql: "ALTER TABLE pages DROP text" };
    let session = session().await;
    let keyspace = fresh_keyspace();
    let settings = waiting(Duration::ZERO, &keyspace);
    let center = datacenter(&session);
    let newer = [MIGRATIONS, &[EXPANDED]].concat();
    migrate_with(&session, &settings, Some(&center), &newer, LOCK_WAIT, &Random::System).await.unwrap();
    let store = connecting(&settings).await.unwrap();
    assert_eq!(insert(&store, Arc::new(page("text"))).await, PutResult::Done);
    let own = async || migrate_with(&session, &settings, Some(&center), MIGRATIONS, LOCK_WAIT, &Random::System).await;
    assert!(own().await.unwrap().applied.is_empty());

    let newest = [&newer[..], &[CONTRACTED]].concat();
    migrate_with(&session, &settings, Some(&center), &newest, LOCK_WAIT, &Random::System).await.unwrap();
    let refused = own().await.unwrap_err();
    assert!(matches!(refused, MigrateError::Schema(SchemaError::TooNew)), "{refused}");
    let refused = connecting(&settings).await.err().unwrap();
    assert!(matches!(refused, ConnectError::Schema(SchemaError::TooNew)), "{refused}");
    drop_keyspace(&session, &keyspace).await;
}

#[tokio::test]
async fn a_cluster_that_is_out_of_reach_is_named_and_waited_for() {
    let mut settings = settings("handbill", &[]);
    // Nothing listens on the discard port of this address.
    settings.nodes = vec!["127.255.255.254:9".to_owned()];
    let (tell, mut told) = unbounded_channel();
    let store = unconnected(Limits::OF_REQUESTS);
    let connecting = store.connect(&settings, move |progress| {
        tell.send(progress.clone()).expect("the test listens");
    });
    tokio::select! {
        _ = connecting => panic!("there is nothing to connect to"),
        progress = told.recv() => assert!(matches!(progress, Some(Progress::OutOfReach(_))), "{progress:?}"),
    }
}

#[tokio::test]
async fn a_migration_waits_for_a_cluster_that_is_out_of_reach() {
    let mut settings = waiting(Duration::ZERO, "handbill");
    let nodes = std::mem::replace(&mut settings.nodes, vec!["127.255.255.254:9".to_owned()]);
    let refused = migrate(&settings, &Random::System).await.unwrap_err();
    assert!(matches!(refused, MigrateError::Settings(SettingsError::OutOfReach(_))), "{refused}");

    // A relay to the cluster that closes the first connection. It has the cluster's port, because the driver expects the same
    // port on all nodes.
    let port = nodes[0].rsplit(':').next().unwrap().parse().unwrap();
    let listener = tokio::net::TcpListener::bind(Addresses::draw().proxy(port)).await.unwrap();
    let keyspace = fresh_keyspace();
    settings = waiting(Duration::from_hours(1), &keyspace);
    settings.nodes = vec![listener.local_addr().unwrap().to_string()];
    let relay = tokio::spawn(async move {
        drop(listener.accept().await.unwrap());
        loop {
            let (mut client, _) = listener.accept().await.unwrap();
            let mut server = tokio::net::TcpStream::connect(&nodes[0]).await.unwrap();
            tokio::spawn(async move { tokio::io::copy_bidirectional(&mut client, &mut server).await });
        }
    });
    assert!(migrate(&settings, &Random::System).await.unwrap().made_keyspace);
    relay.abort();
    drop_keyspace(&*session().await, &keyspace).await;
}

#[tokio::test]
async fn a_datacentre_that_is_not_there_is_refused_at_once() {
    let mut settings = settings("handbill", &[]);
    settings.datacenter = Some("nowhere".to_owned());
    let refused = connecting(&settings).await.err().unwrap();
    assert!(matches!(refused, ConnectError::Settings(SettingsError::NoSuchDatacenter { .. })), "{refused}");
}

#[tokio::test]
async fn copies_in_another_datacentre_come_after_migrate_has_recorded_where_the_pages_live() {
    let settings = migrated_settings().await;
    // A server that knows one datacentre makes no such keyspace, so its answer is forged.
    let (session, mut proxy) = proxied_session(&settings).await;
    let here = datacenter(&session);
    let asks = Condition::BodyContainsCaseSensitive(Box::from(*b"SELECT replication FROM system_schema.keyspaces"));
    let replication = [("class", "NetworkTopologyStrategy"), ("east", "3"), (&here, "3")];
    let answer = answering(one_row(&[("replication", TEXTS, Some(&texts(&replication)))]));
    proxy.running_nodes[0].change_request_rules(Some(vec![RequestRule(asks, answer)]));
    let migrating = async |recorded: Option<&str>| {
        if let Some(recorded) = recorded {
            let cql = format!("UPDATE settings SET value = '{recorded}' WHERE name = 'datacenter' IF EXISTS");
            session.query_unpaged(cql, ()).await.unwrap();
        }
        migrate_with(&session, &settings, Some(&here), MIGRATIONS, LOCK_WAIT, &Random::System).await
    };
    migrating(None).await.unwrap();
    let elsewhere = migrating(Some("east")).await.unwrap_err();
    assert!(matches!(elsewhere, MigrateError::Settings(SettingsError::OtherDatacenter { .. })), "{elsewhere}");
    let refused = connecting(&settings).await.err().unwrap();
    assert!(matches!(refused, ConnectError::Settings(SettingsError::OtherDatacenter { .. })), "{refused}");
    let nowhere = migrating(Some("")).await.unwrap_err();
    assert!(matches!(nowhere, MigrateError::Settings(SettingsError::SeveralDatacenters { .. })), "{nowhere}");
    drop_keyspace(&session, &settings.keyspace).await;
    proxy.finish().await.unwrap();
}

#[tokio::test]
async fn a_table_that_repairs_its_copies_late_is_refused() {
    let settings = migrated_settings().await;
    let session = session().await;
    // ScyllaDB has no such option.
    if session.get_cluster_state().get_nodes_info().iter().any(|node| node.sharder().is_some()) {
        return;
    }
    change_schema(&session, format!("ALTER TABLE {}.pages WITH read_repair = 'NONE'", settings.keyspace)).await;
    let refused = connecting(&settings).await.err().unwrap();
    assert!(matches!(refused, ConnectError::Settings(SettingsError::ReadRepair { .. })), "{refused}");
    drop_keyspace(&session, &settings.keyspace).await;
}

#[tokio::test]
async fn a_server_whose_settings_fit_gets_no_warning() {
    let session = session().await;
    let settings = migrated_settings().await;
    let mut found = findings(&session, &settings.keyspace).await;
    // A server alone has no other copies.
    found.retain(|finding| settings.replication_factor >= 3 || !finding.contains("no node may fail"));
    assert_eq!(found, Vec::<String>::new());
    let cql = "SELECT value FROM system_views.settings WHERE name IN ('commitlog_sync', 'paxos_variant', 'paxos_state_purging')";
    // ScyllaDB has no such settings.
    if session.get_cluster_state().get_nodes_info().iter().all(|node| node.sharder().is_none()) {
        let rows = session.query_unpaged(cql, ()).await.unwrap().into_rows_result().unwrap();
        let mut values: Vec<String> = rows.rows::<(String,)>().unwrap().map(|row| row.unwrap().0).collect();
        values.sort();
        assert_eq!(values, ["batch", "repaired", "v2"], "the server has the settings under the names that are read");
    }
}

//! New versions: replicas that are replaced one after the other, and a field that only some of them know.

use std::time::Duration;

use handbill_pages::values::details::{DetailsPatch, Patch};
use handbill_pages::values::head::{Head, State};
use handbill_pages::values::timestamp::UnixMillis;
use handbill_pages::values::title::Title;
use handbill_test_support::environment::in_time;
use handbill_test_support::histories::workload::{Plan, run};
use handbill_test_support::pages::new_key;
use scylla::client::session::Session;
use scylla::statement::{Consistency, SerialConsistency, Statement};
use serde_json::{Value, json};

use super::calls::{Published, Reply, delete, publish, read, rewrite};
use super::nodes::Held;
use super::service::{Service, Settings};

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
    outcome.assert_no_failures();
    outcome.assert_linearizable();
}

/// What a write of the newer version leaves in `details`: the numbers of all its writes, so that none is lost unseen.
const SERIES: &str = "series";

#[tokio::test(flavor = "multi_thread")]
async fn replicas_that_know_one_more_field_and_others_work_together_while_a_copy_misses_writes() {
    let service = Service::start(Settings::unlimited()).await;
    let session = service.session().await;
    let page = publish(service.balancer).await;
    let stranger = Published { key: new_key(), ..page.clone() };
    let mut series = Vec::new();
    for missing in 1..=3_usize {
        let old = service.replicas[missing - 1].address;
        let content = format!("without {missing}");
        service.nodes.isolate(missing);
        for number in [2 * missing, 2 * missing + 1] {
            write_as_the_newer_version(&session, &page.slug, number).await;
            series.push(number);
            answered(200, async || rewrite(old, &page, &content).await).await;
        }
        service.nodes.end(Held::Lost);

        // Now each quorum has the copy that missed the writes.
        service.nodes.isolate(missing % 3 + 1);
        answered(401, async || rewrite(old, &stranger, "another").await).await;
        for replica in &service.replicas {
            let reply = answered(200, async || read(replica.address, &page).await).await;
            let expected = (title(2 * missing + 1), content.clone());
            assert_eq!((reply.text("title"), reply.text("content")), (&*expected.0, &*expected.1));
        }
        let (_, _, (_, head), _) = row(&session, &page.slug).await;
        assert_eq!(serde_json::from_str::<Value>(&head).unwrap()["details"][SERIES], json!(series));
        service.nodes.end(Held::Lost);
    }
    answered(204, async || delete(service.balancer, &page).await).await;
    let (_, _, (_, head), _) = row(&session, &page.slug).await;
    assert!(!head.contains(SERIES), "nothing of a deleted page stays: {head}");
}

/// Calls until the answer has this status: a replica needs a moment to notice that a node is gone.
async fn answered(status: u16, call: impl AsyncFn() -> Reply) -> Reply {
    let calling = async {
        loop {
            match call().await {
                reply if reply.status == 503 => tokio::time::sleep(Duration::from_millis(50)).await,
                reply => return reply.expect_status(status),
            }
        }
    };
    in_time("the replica goes on without the node", calling).await
}

type PageRow = (i64, Vec<u8>, (i64, String), (i64, Vec<u8>));

/// The row as the last write left it, also if nobody was told of that write.
async fn row(session: &Session, slug: &str) -> PageRow {
    let mut select = Statement::new("SELECT revision, write_ids, head, text FROM pages WHERE slug = ?");
    select.set_consistency(Consistency::Serial);
    let reading = async {
        loop {
            // A node that is cut off may be asked first.
            if let Ok(answer) = session.query_unpaged(select.clone(), (slug,)).await {
                return answer.into_rows_result().unwrap().single_row().unwrap();
            }
        }
    };
    in_time("the row is read", reading).await
}

fn title(number: usize) -> String {
    format!("Newer {number}")
}

/// Changes the title, and adds `number` to the field that the replicas do not know.
async fn write_as_the_newer_version(session: &Session, slug: &str, number: usize) {
    let mut update = Statement::new(
        "UPDATE pages SET revision = ?, write_ids = ?, head = ?, text = ? WHERE slug = ? IF revision = ? AND write_ids = ?",
    );
    update.set_consistency(Consistency::Quorum);
    update.set_serial_consistency(Some(SerialConsistency::Serial));
    let writing = async {
        loop {
            let (revision, ids, (_, head), (_, text)) = row(session, slug).await;
            let head = Head::from_json(head.as_bytes()).unwrap();
            let live = head.live().unwrap().clone();
            let patch = DetailsPatch { title: Patch::Set(Title::parse(&title(number)).unwrap()) };
            let mut head = head.map_state(|_| live).updated(&patch, UnixMillis::new(0));
            let series = head.state.details.unknown.entry(SERIES).or_insert_with(|| json!([])).as_array_mut().unwrap();
            if series.contains(&json!(number)) {
                return;
            }
            series.push(json!(number));
            let (next, id) = (revision + 1, [u8::try_from(number).unwrap(); 16]);
            let head = (next, head.map_state(State::Active).to_json());
            let values = (next, [&id, &ids[..]].concat(), head, (next, text), slug, revision, &ids);
            // The next round sees whether it was done.
            let _ = session.query_unpaged(update.clone(), values).await;
        }
    };
    in_time("the newer version's write is done", writing).await;
}

//! Timestamps from the future, as a server with a wrong clock leaves them in the table.

use std::sync::Arc;
use std::time::Duration;

use handbill_core::ports::clock::SystemClock;
use handbill_core::ports::page_store::{InsertResult, PageStore};
use handbill_core::ports::random::Random;
use handbill_store_cql::CqlStore;
use handbill_store_cql::metrics::{ClockLabels, ClusterMetrics};

use super::server::{PATIENT, migrated_keyspace, session, settings};
use crate::support::pages::page;

#[tokio::test]
async fn each_read_of_a_head_that_a_server_wrote_with_a_clock_ahead_is_counted_and_no_other_is() {
    let (session, keyspace) = (session().await, migrated_keyspace().await);
    let store = CqlStore::connect(&settings(keyspace, &[]), PATIENT, Random::System, |_| {}).await.unwrap();
    let metrics = ClusterMetrics::default();
    let store = store.observed_by(&metrics);
    let counted = || metrics.future_times.get_or_create(&ClockLabels { clock: "database" }).get();

    let page = Arc::new(page("text"));
    assert_eq!(store.insert_if_absent(page.clone(), None).await.unwrap(), InsertResult::Inserted);
    store.head(&page.head.slug).await.unwrap();
    assert_eq!(counted(), 0);

    let an_hour_ahead =
        SystemClock::wall_time().get() * 1000 + i64::try_from(Duration::from_hours(1).as_micros()).unwrap();
    let cql = format!("UPDATE {keyspace}.pages USING TIMESTAMP ? SET version = 1 WHERE slug = ?");
    session.query_unpaged(cql, (an_hour_ahead, page.head.slug.as_str())).await.unwrap();
    store.head(&page.head.slug).await.unwrap();
    store.lookup(&page.head.slug).await.unwrap();
    assert_eq!(counted(), 2);
}

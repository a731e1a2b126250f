//! The check of a keyspace.

use std::num::NonZero;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use handbill_core::domain::page::Page;
use handbill_core::domain::timestamp::UnixMillis;
use handbill_core::ports::page_store::{PageStore, Record};
use handbill_store_cql::{CheckReport, CqlStore, Share, SweepPlan, SweepReport};

use super::server::{drop_keyspace, fresh_store};
use crate::support::pages::{CREATED, page};

async fn inserted(store: &CqlStore, content: &str) -> Arc<Page> {
    let page = Arc::new(page(content));
    store.insert_if_absent(page.clone(), None).await.unwrap();
    page
}

#[tokio::test]
async fn a_check_names_pages_without_text_and_rows_of_the_ledger_without_their_end_and_changes_nothing() {
    let (store, session, keyspace) = fresh_store().await;
    let [kept, textless, deleted, entered] = [
        inserted(&store, "kept").await,
        inserted(&store, "textless").await,
        inserted(&store, "deleted").await,
        inserted(&store, "entered").await,
    ];
    for page in [&deleted, &entered] {
        let tombstone = page.head.tombstone(UnixMillis::new(CREATED + 5));
        store.compare_and_set(page.head.version, Record::Deleted(tombstone), None).await.unwrap();
    }
    let plan = SweepPlan {
        dry_run: false,
        min_age: Duration::from_hours(24),
        share: Share::WHOLE,
        rows_per_second: NonZero::new(1_000_000).unwrap(),
        now: UnixMillis::new(CREATED + 7 * 24 * 3_600_000),
    };
    let faults = Mutex::new(Vec::new());
    let note = |fault: &str| faults.lock().unwrap().push(fault.to_owned());
    // Their heads, and the texts of the two that are there.
    let swept = SweepReport { read: 6, dry_run: true, ..SweepReport::default() };
    let whole = CheckReport { swept, unended: 0 };
    assert_eq!(store.check(&keyspace, plan, note).await.unwrap(), whole);
    assert!(whole.is_whole());

    let lose = format!("DELETE FROM {keyspace}.texts WHERE slug = ?");
    session.query_unpaged(lose, (textless.head.slug.as_str(),)).await.unwrap();
    // As if the process had ended after the page's head was written.
    let forget = format!(
        "DELETE version, created_at, deleted_at, takedown_reason, takedown_by FROM {keyspace}.deletions WHERE slug = ?"
    );
    session.query_unpaged(forget, (deleted.head.slug.as_str(),)).await.unwrap();
    // As if one had ended before that: the page is there.
    let begin = format!("INSERT INTO {keyspace}.deletions (slug, begun_at) VALUES (?, 0)");
    session.query_unpaged(begin, (kept.head.slug.as_str(),)).await.unwrap();
    let named = [
        format!("the text is missing: {}", textless.head.slug),
        format!("the ledger lacks what was done: {}", deleted.head.slug),
    ];
    for _ in 0..2 {
        faults.lock().unwrap().clear();
        let found = store.check(&keyspace, plan, note).await.unwrap();
        let swept = SweepReport { read: 5, without_text: 1, ..swept };
        assert_eq!(found, CheckReport { swept, unended: 1 });
        assert_eq!(*faults.lock().unwrap(), named);
    }
    drop_keyspace(&session, &keyspace).await;
}

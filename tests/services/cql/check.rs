//! The check of a keyspace.

use std::num::NonZero;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use handbill_core::domain::page::Page;
use handbill_core::domain::timestamp::UnixMillis;
use handbill_core::ports::page_store::{PageStore, Record};
use handbill_store_cql::{CheckReport, CqlStore, CqlTimeouts, Share, SweepError, SweepPlan, SweepReport};
use scylla_proxy::{Condition, RequestOpcode, RequestReaction, RequestRule, example_db_errors};

use super::server::{
    Proxied, drop_keyspace, fresh_store, migrated_settings, proxied_session, session as session_of_tests, store_in,
};
use crate::support::pages::{CREATED, page};

async fn inserted(store: &CqlStore, content: &str) -> Arc<Page> {
    let page = Arc::new(page(content));
    store.insert_if_absent(page.clone(), None).await.unwrap();
    page
}

fn plan(dry_run: bool) -> SweepPlan {
    let now = UnixMillis::new(CREATED + 7 * 24 * 3_600_000);
    let rows_per_second = NonZero::new(1_000_000).unwrap();
    SweepPlan { dry_run, min_age: Duration::from_hours(24), share: Share::WHOLE, rows_per_second, now }
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
    let plan = plan(false);
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

#[tokio::test]
async fn a_part_that_cannot_be_read_is_left_out_of_a_sweep_and_of_a_check_and_the_rest_is_done() {
    let settings = migrated_settings().await;
    let (session, proxy) = proxied_session(&settings, 1).await;
    let store = store_in(session, &settings.keyspace, CqlTimeouts::default()).await;
    // Their tokens are in different parts.
    let orphans = ["orphan-22222222", "orphan-33333333", "orphan-44444444"];
    let direct = session_of_tests().await;
    for orphan in orphans {
        let insert = format!(
            "INSERT INTO {}.texts (slug, text_version, text_nonce, content, html, inserted_at) \
             VALUES (?, 1, 0x00112233445566778899aabbccddeeff, 'orphan', '', 0) USING TIMESTAMP 1",
            settings.keyspace
        );
        direct.query_unpaged(insert, (orphan,)).await.unwrap();
    }
    let mut proxied = Proxied { store, proxy };
    proxied.cannot_read(orphans[1]);
    let checked = proxied.store.check(&settings.keyspace, plan(false), |fault| panic!("{fault}")).await.unwrap();
    let swept = SweepReport { read: 2, headless: 2, unread: 1, dry_run: true, ..SweepReport::default() };
    assert_eq!(checked, CheckReport { swept, unended: 0 });
    assert!(!checked.is_whole() && checked.to_string().starts_with("not known, "), "{checked}");
    let swept = proxied.store.sweep(&settings.keyspace, plan(false), |_, _| {}).await.unwrap();
    assert_eq!(swept, SweepReport { dry_run: false, ..checked.swept });
    let left = format!("SELECT slug FROM {}.texts", settings.keyspace);
    let left = direct.query_unpaged(left, ()).await.unwrap().into_rows_result().unwrap();
    assert_eq!(left.single_row::<(String,)>().unwrap().0, orphans[1]);

    // If nothing can be read, it ends with an error.
    let refuse = RequestReaction::forge_with_error(example_db_errors::read_failure());
    proxied.rules(vec![RequestRule(Condition::RequestOpcode(RequestOpcode::Execute), refuse)], Vec::new());
    let swept = proxied.store.sweep(&settings.keyspace, plan(false), |_, _| {}).await;
    assert!(matches!(swept, Err(SweepError::Database(_))), "{swept:?}");
    drop_keyspace(&direct, &settings.keyspace).await;
}

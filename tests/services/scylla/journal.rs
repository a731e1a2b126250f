//! The journal and the switch of creates on a real server.

use std::sync::Arc;

use futures_util::future::join_all;
use handbill_pages::ports::page_store::{CreatesSwitch, Expected, PageStore, PutResult, StoreError};
use handbill_pages::values::page::Page;
use handbill_pages::values::record::{Lookup, Record};
use handbill_pages::values::timestamp::UnixMillis;
use handbill_store_scylla::ScyllaStore;
use scylla_proxy::{Condition, RequestReaction, RequestRule, example_db_errors};

use super::faults::requests_with;
use super::server::{PATIENT, Proxied, drop_keyspace, fresh_store, migrated_settings, proxied_session, store_in};
use crate::support::journal::lines;
use crate::support::pages::{CREATED, insert, page, replace};

async fn inserted(store: &ScyllaStore) -> Arc<Page> {
    let page = Arc::new(page("a text"));
    insert(store, page.clone()).await;
    page
}

async fn put(store: &ScyllaStore, page: &Page, next: Record) {
    let swapped = store.put(Expected::page(&page.head), next, None).await;
    assert_eq!(swapped.unwrap(), PutResult::Done);
}

/// Many delete one page at once. The journal then has the one deletion that was done, also if others of the same version and
/// millisecond were refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_act_that_was_refused_is_void_and_takes_back_no_other() {
    let (store, session, keyspace) = fresh_store().await;
    for _ in 0..10 {
        let page = inserted(&store).await;
        let tombstone = page.head.tombstone(UnixMillis::new(CREATED + 5));
        let deleting = (0..4).map(|_| {
            let (store, head, next) = (Arc::clone(&store), page.head.clone(), Record::Deleted(tombstone.clone()));
            tokio::spawn(async move { replace(&*store, &head, next).await })
        });
        let done = join_all(deleting).await.into_iter().map(Result::unwrap);
        assert_eq!(done.filter(|done| *done == PutResult::Done).count(), 1);
    }
    assert_eq!(lines(&*store).await.len(), 10);
    drop_keyspace(&session, &keyspace).await;
}

#[tokio::test]
async fn nothing_is_deleted_while_the_journal_cannot_be_written() {
    let settings = migrated_settings().await;
    let (session, proxy) = proxied_session(&settings).await;
    let store = store_in(Arc::clone(&session), &settings.keyspace, PATIENT).await;
    let page = inserted(&store).await;
    let mut proxied = Proxied { store: Arc::clone(&store), proxy };
    // Only the journal's row has this word alone.
    let rows = requests_with(page.head.slug.as_str())
        .and(requests_with("delete"))
        .and(Condition::not(requests_with("deleted")));
    let refuse = RequestReaction::forge_with_error(example_db_errors::write_failure());
    proxied.rules(vec![RequestRule(rows, refuse)], Vec::new());
    let deleted = Record::Deleted(page.head.tombstone(UnixMillis::new(CREATED + 5)));
    let refused = store.put(Expected::page(&page.head), deleted.clone(), None).await;
    assert!(matches!(refused, Err(StoreError::Unavailable(_))), "{refused:?}");
    proxied.be_honest();
    assert_eq!(store.lookup(&page.head.slug).await.unwrap(), Lookup::Active(Arc::clone(&page)));
    put(&store, &page, deleted).await;
    assert_eq!(lines(&*store).await.len(), 1);
    drop_keyspace(&session, &settings.keyspace).await;
    proxied.proxy.finish().await.unwrap();
}

#[tokio::test]
async fn the_switch_is_what_was_saved_last_by_any_process() {
    let (store, session, keyspace) = fresh_store().await;
    let other = store_in(session.clone(), &keyspace, PATIENT).await;
    assert!(!store.paused().await.unwrap());
    for (writing, reading, paused) in [(&store, &other, true), (&other, &store, true), (&store, &other, false)] {
        writing.set_paused(paused).await.unwrap();
        assert_eq!(reading.paused().await.unwrap(), paused);
    }
    drop_keyspace(&session, &keyspace).await;
}

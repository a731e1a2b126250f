//! The journal and the switch of creates on a real server.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures_util::TryStreamExt;
use futures_util::future::join_all;
use handbill_pages::ports::page_store::CreatesSwitch;
use handbill_pages::ports::page_store::{Expected, Lookup, PageStore, PutResult, Record, StoreError};
use handbill_pages::values::journal::{Kind, Line};
use handbill_pages::values::page::Page;
use handbill_pages::values::takedown::{Takedown, TakedownReason};
use handbill_pages::values::timestamp::UnixMillis;
use handbill_store_scylla::ScyllaStore;
use scylla_proxy::{Condition, RequestReaction, RequestRule, example_db_errors};

use super::faults::requests_with;
use super::server::{
    PATIENT, Proxied, change_schema, drop_keyspace, fresh_store, migrated_settings, proxied_session, store_in,
};
use crate::support::pages::{CREATED, edited, insert, page, replace, with_head};

fn takedown() -> Takedown {
    Takedown::new(TakedownReason::Phishing, "abuse desk").unwrap()
}

fn at(millis: i64) -> UnixMillis {
    UnixMillis::new(CREATED + millis)
}

async fn inserted(store: &ScyllaStore) -> Arc<Page> {
    let page = Arc::new(page("a text"));
    insert(store, page.clone()).await;
    page
}

async fn put(store: &ScyllaStore, page: &Page, next: Record) {
    let swapped = store.put(Expected::Version(page.head.version), next, None).await;
    assert_eq!(swapped.unwrap(), PutResult::Done);
}

/// The journal, as kinds, slugs, versions and times.
async fn acts(store: &ScyllaStore) -> BTreeSet<(&'static str, String, u64, String)> {
    let lines: Vec<Line> = store.journal().await.unwrap().try_collect().await.unwrap();
    let acts: BTreeSet<_> =
        lines.iter().map(|line| (line.kind.name(), line.slug.clone(), line.version, line.at.clone())).collect();
    assert_eq!(acts.len(), lines.len());
    acts
}

#[tokio::test]
async fn the_journal_has_each_act_and_no_other_change() {
    let (store, session, keyspace) = fresh_store().await;
    let [deleted, taken, turned, kept] =
        [inserted(&store).await, inserted(&store).await, inserted(&store).await, inserted(&store).await];
    put(&store, &kept, Record::Active(edited(&kept, "another text"))).await;
    put(&store, &deleted, Record::Deleted(deleted.head.tombstone(at(5)))).await;
    put(&store, &taken, Record::Deleted(taken.head.taken_down(takedown(), at(6)))).await;
    let hidden = with_head(&turned, |head| head.with_hidden(Some(takedown()), at(7)));
    put(&store, &turned, Record::Active(Arc::clone(&hidden))).await;
    put(&store, &hidden, Record::Active(with_head(&hidden, |head| head.with_hidden(None, at(8))))).await;
    let imported = page("never here").head.tombstone(at(9));
    let imported_now = store.put(Expected::Absent, Record::Deleted(imported.clone()), None).await;
    assert_eq!(imported_now.unwrap(), PutResult::Done);

    let act = |kind, slug: &_, version, millis| (kind, ToString::to_string(slug), version, at(millis).to_string());
    let expected = BTreeSet::from([
        act("delete", &deleted.head.slug, 2, 5),
        act("takedown", &taken.head.slug, 2, 6),
        act("hide", &turned.head.slug, 2, 7),
        act("show", &turned.head.slug, 3, 8),
        act("delete", &imported.slug, 2, 9),
    ]);
    assert_eq!(acts(&store).await, expected);
    let lines: Vec<Line> = store.journal().await.unwrap().try_collect().await.unwrap();
    let mut reasons: Vec<_> = lines.into_iter().filter_map(|line| Some((line.kind, line.reason?, line.by))).collect();
    reasons.sort_by_key(|(kind, ..)| kind.name());
    let by = Some("abuse desk".to_owned());
    assert_eq!(
        reasons,
        [(Kind::Hide, TakedownReason::Phishing, by.clone()), (Kind::Takedown, TakedownReason::Phishing, by)]
    );
    // A restore takes the pages back in time, and not the journal.
    change_schema(&session, format!("TRUNCATE {keyspace}.pages")).await;
    assert_eq!(acts(&store).await, expected);
    drop_keyspace(&session, &keyspace).await;
}

/// Many delete one page at once. The journal then has the one deletion that was done, also if others of the same version and
/// millisecond were refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_act_that_was_refused_is_void_and_takes_back_no_other() {
    let (store, session, keyspace) = fresh_store().await;
    for _ in 0..10 {
        let page = inserted(&store).await;
        let tombstone = page.head.tombstone(at(5));
        let deleting = (0..4).map(|_| {
            let (store, version, next) = (Arc::clone(&store), page.head.version, Record::Deleted(tombstone.clone()));
            tokio::spawn(async move { replace(&*store, version, next).await })
        });
        let done = join_all(deleting).await.into_iter().map(Result::unwrap);
        assert_eq!(done.filter(|done| *done == PutResult::Done).count(), 1);
    }
    assert_eq!(acts(&store).await.len(), 10);
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
    let lines = requests_with(page.head.slug.as_str())
        .and(requests_with("delete"))
        .and(Condition::not(requests_with("deleted")));
    let refuse = RequestReaction::forge_with_error(example_db_errors::write_failure());
    proxied.rules(vec![RequestRule(lines, refuse)], Vec::new());
    let deleted = Record::Deleted(page.head.tombstone(at(5)));
    let refused = store.put(Expected::Version(page.head.version), deleted.clone(), None).await;
    assert!(matches!(refused, Err(StoreError::Unavailable(_))), "{refused:?}");
    proxied.be_honest();
    assert_eq!(store.lookup(&page.head.slug).await.unwrap(), Lookup::Active(Arc::clone(&page)));
    put(&store, &page, deleted).await;
    assert_eq!(acts(&store).await.len(), 1);
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

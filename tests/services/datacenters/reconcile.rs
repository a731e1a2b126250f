//! `handbill reconcile` settles what both sides of a forced move did.

use std::sync::Arc;

use handbill_core::domain::audit::{AuditAction, AuditEntry};
use handbill_core::domain::page::{HeadChanges, Page};
use handbill_core::domain::timestamp::UnixMillis;
use handbill_core::domain::title::Title;
use handbill_core::ports::audit_log::AuditLog;
use handbill_core::ports::page_store::{CasResult, Lookup, PageStore, Record, StoreError};
use handbill_store_cql::CqlStore;

use super::moves::{insert, until};
use super::ring::{EAST, Ring, WEST};
use crate::support::pages::{CREATED, edited, page, with_head};

async fn swap(store: &CqlStore, page: &Page, next: Record) {
    assert_eq!(store.compare_and_set(page.head.version, next, None).await.unwrap(), CasResult::Swapped);
}

async fn note(store: &CqlStore, by: &str) {
    let action = AuditAction::Creates { paused: true, hourly_budget: None };
    store.append(AuditEntry { at: UnixMillis::new(CREATED), by: by.to_owned(), action }).await.unwrap();
}

/// `page` under another title, with its text.
fn renamed(page: &Page) -> Arc<Page> {
    let changes = HeadChanges { title: Some(Title::parse("Another title").ok()) };
    with_head(page, |head| head.updated(changes, UnixMillis::new(CREATED + 2000)))
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_forced_move_confirmed_deletions_win_lost_texts_are_listed_and_both_audits_stay() {
    let ring = Ring::migrated().await;
    let west = ring.store(WEST).await;
    let pages = ["deleted in the west", "edited in both", "left alone"].map(|content| Arc::new(page(content)));
    let [deleted, torn, alone] = &pages;
    for page in &pages {
        insert(&west, page).await.unwrap();
    }
    ring.repair().await;

    ring.cut();
    swap(&west, deleted, Record::Deleted(deleted.head.tombstone(UnixMillis::new(CREATED + 500)))).await;
    swap(&west, torn, Record::Active(edited(torn, "edited in the west"))).await;
    note(&west, "west").await;
    drop(west);
    // The two cannot reach each other, and the operator reaches both.
    let forced = ring.failover(EAST, &["--force", "--yes", "--force-answers"]).await;
    assert_eq!(forced.code, Some(0), "{forced:?}");
    let east = ring.store(EAST).await;
    until(&east, true).await;
    // The east does not know that the west deleted the one page, and the text of the other.
    swap(&east, deleted, Record::Active(edited(deleted, "edited in the east"))).await;
    assert_eq!(east.lookup(&torn.head.slug).await.unwrap(), Lookup::Active(Arc::clone(torn)));
    swap(&east, torn, Record::Active(renamed(torn))).await;
    note(&east, "east").await;

    ring.heal().await;
    assert_eq!(ring.failover(EAST, &[]).await.code, Some(0));
    ring.repair().await;
    let revived = east.lookup(&deleted.head.slug).await;
    assert!(matches!(revived, Ok(Lookup::Active(_))), "otherwise nothing is to be settled: {revived:?}");
    let elsewhere = ring.command("reconcile", &["--scylla-datacenter", WEST]).await;
    assert!(elsewhere.code == Some(2) && elsewhere.errors.contains(EAST), "{elsewhere:?}");
    let settled = ring.command("reconcile", &["--scylla-datacenter", EAST]).await;
    let (deleted, torn) = (&deleted.head.slug, &torn.head.slug);
    let lines = [
        format!("deleted again: {deleted}"),
        format!("the text is missing: {torn}"),
        "Deleted 1 pages and hid 0 again. The text of 1 pages is missing.".to_owned(),
    ];
    assert!(settled.code == Some(1) && settled.output.lines().eq(&lines), "{settled:?}");

    assert!(matches!(east.lookup(deleted).await, Ok(Lookup::Deleted(_))));
    let unreadable = east.lookup(torn).await;
    assert!(matches!(unreadable, Err(StoreError::Unreadable(_))), "{unreadable:?}");
    assert_eq!(east.lookup(&alone.head.slug).await.unwrap(), Lookup::Active(Arc::clone(alone)));
    let entries: Vec<_> = east.list(0, 10).await.unwrap();
    let entries: Vec<_> =
        entries.iter().map(|found| (found.number, found.datacenter.as_deref(), found.entry.by.as_str())).collect();
    assert_eq!(entries, [(1, Some(EAST), "east"), (1, Some(WEST), "west")]);
}

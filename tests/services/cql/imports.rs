//! Records of archives in a table that others write too.

use std::sync::Arc;

use handbill_core::domain::page::{PageHead, PageVersion, Tombstone};
use handbill_core::domain::slug::Slug;
use handbill_core::domain::timestamp::UnixMillis;
use handbill_core::ports::page_import::PageImport;
use handbill_core::ports::page_store::{CasResult, InsertResult, Lookup, PageStore, Record, StoreError};

use super::server::{PATIENT, migrated_keyspace, proxied, session, store};
use super::texts::{insert_text, texts};
use crate::support::pages::{CREATED, edited, page, slug, with_head};

const DAY: i64 = 24 * 3_600_000;

/// A tombstone of the time at which the pages of these tests were made.
fn old(slug: Slug) -> Tombstone {
    Tombstone {
        slug,
        version: PageVersion::new(9),
        created_at: UnixMillis::new(CREATED),
        deleted_at: UnixMillis::new(CREATED + 5),
        takedown: None,
    }
}

#[tokio::test]
async fn no_text_can_be_read_after_the_import_of_a_tombstone_that_is_days_older_than_it() {
    let (store, session, keyspace) = (store().await, session().await, migrated_keyspace().await);
    let changed = with_head(&page("changed days later"), |head| PageHead {
        updated_at: UnixMillis::new(CREATED + 5 * DAY),
        ..head
    });
    store.insert_if_absent(changed.clone(), None).await.unwrap();
    let now = UnixMillis::new(CREATED + 7 * DAY);
    let deleted =
        store.replace(changed.head.state(), Record::Deleted(old(changed.head.slug.clone())), now).await.unwrap();
    assert_eq!(deleted, CasResult::Swapped);
    assert_eq!(texts(&session, keyspace, &changed.head.slug).await, []);

    let free = slug();
    insert_text(&session, keyspace, &free, "left by a crash", (CREATED + 5 * DAY) * 1000).await;
    assert!(store.insert_tombstone_if_absent(old(free.clone()), now).await.unwrap());
    for slug in [&changed.head.slug, &free] {
        insert_text(&session, keyspace, slug, "late", now.get() * 1000).await;
        assert_eq!(texts(&session, keyspace, slug).await, []);
    }
}

#[tokio::test]
async fn no_text_can_be_read_after_the_import_of_a_tombstone_by_a_clock_that_is_days_behind_the_page() {
    let (store, session, keyspace) = (store().await, session().await, migrated_keyspace().await);
    let changed = with_head(&page("changed days later"), |head| PageHead {
        updated_at: UnixMillis::new(CREATED + 5 * DAY),
        ..head
    });
    store.insert_if_absent(changed.clone(), None).await.unwrap();
    let behind = UnixMillis::new(CREATED + 6);
    let deleted =
        store.replace(changed.head.state(), Record::Deleted(old(changed.head.slug.clone())), behind).await.unwrap();
    assert_eq!(deleted, CasResult::Swapped);
    assert_eq!(texts(&session, keyspace, &changed.head.slug).await, []);
}

#[tokio::test]
async fn an_import_that_has_seen_an_older_record_of_the_same_version_does_not_replace_a_later_one() {
    let (remembers, reads, other) = (store().await, store().await, store().await);
    let first = Arc::new(page("first text"));
    remembers.insert_if_absent(first.clone(), None).await.unwrap();
    let at = |content: &str, millis| {
        let updated_at = UnixMillis::new(first.head.updated_at.get() + millis);
        with_head(&edited(&first, content), |head| PageHead { version: first.head.version, updated_at, ..head })
    };
    let (earlier, later) = (at("earlier record", 1), at("later record", 2));
    let replaced =
        other.replace(first.head.state(), Record::Active(later.clone()), later.head.updated_at).await.unwrap();
    assert_eq!(replaced, CasResult::Swapped);
    // One of the two has the first head in memory, and the other finds that of the later record.
    for store in [remembers, reads] {
        let replaced =
            store.replace(first.head.state(), Record::Active(earlier.clone()), later.head.updated_at).await.unwrap();
        assert_eq!(replaced, CasResult::Stale);
        assert_eq!(other.lookup(&first.head.slug).await.unwrap(), Lookup::Active(later.clone()));
    }
}

#[tokio::test]
async fn an_import_of_unknown_outcome_is_not_taken_for_another_import_of_its_page() {
    let (mut proxied, other) = (proxied(PATIENT).await, store().await);
    let older = Arc::new(page("older record"));
    let newer = with_head(&edited(&older, "newer record"), |head| PageHead { version: PageVersion::new(3), ..head });
    let mut looked = proxied.swallow_the_next_write(&newer.head.slug, "newer record").await;
    let (store, importing) = (proxied.store.clone(), newer.clone());
    let importing = tokio::spawn(async move { store.insert_if_absent(importing, None).await });
    looked.recv().await.unwrap();
    assert_eq!(other.insert_if_absent(older.clone(), None).await.unwrap(), InsertResult::Inserted);
    proxied.be_honest();
    let taken = InsertResult::SlugTaken(Record::Active(older.clone()));
    assert_eq!(importing.await.unwrap().unwrap(), taken, "the import compares again");
    assert_eq!(other.lookup(&older.head.slug).await.unwrap(), Lookup::Active(older.clone()));
    let replaced =
        other.replace(older.head.state(), Record::Active(newer.clone()), newer.head.updated_at).await.unwrap();
    assert_eq!(replaced, CasResult::Swapped);
    let session = session().await;
    let left = texts(&session, migrated_keyspace().await, &newer.head.slug).await;
    assert_eq!(left, [(3, "newer record".to_owned())]);
}

#[tokio::test]
async fn a_write_of_unknown_outcome_that_an_import_of_its_version_replaced_is_not_denied() {
    let (mut proxied, other) = (proxied(PATIENT).await, store().await);
    let first = Arc::new(page("first text"));
    other.insert_if_absent(first.clone(), None).await.unwrap();
    let ours = edited(&first, "our text");
    let mut looked = proxied.apply_the_next_write_in_secret(&first.head.slug, "our text").await;
    let (store, expected, next) = (proxied.store.clone(), first.head.version, Record::Active(ours.clone()));
    let setting = tokio::spawn(async move { store.compare_and_set(expected, next, None).await });
    looked.recv().await.unwrap();
    let later = UnixMillis::new(ours.head.updated_at.get() + 1);
    let imported = with_head(&edited(&first, "imported text"), |head| PageHead { updated_at: later, ..head });
    let replaced = other.replace(ours.head.state(), Record::Active(imported.clone()), later).await.unwrap();
    assert_eq!(replaced, CasResult::Swapped, "ours was done");
    proxied.be_honest();
    let outcome = setting.await.unwrap();
    assert!(matches!(outcome, Err(StoreError::OutcomeUnknown(_))), "{outcome:?}");
    let next = edited(&imported, "next text");
    let swapped = other.compare_and_set(imported.head.version, Record::Active(next.clone()), None).await.unwrap();
    assert_eq!(swapped, CasResult::Swapped, "the page is written as any other");
    assert_eq!(other.lookup(&first.head.slug).await.unwrap(), Lookup::Active(next));
}

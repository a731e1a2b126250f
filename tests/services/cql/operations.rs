//! The contract of `PageStore` on a real server.

use std::sync::Arc;

use futures_util::future::join_all;
use handbill::domain::language::Language;
use handbill::domain::page::PageVersion;
use handbill::domain::timestamp::UnixMillis;
use handbill::ports::page_store::{CasResult, InsertResult, Lookup, PageStore, Record};

use super::server::store;
use crate::support::pages::{CREATED, edited, page, page_at, slug};

#[tokio::test]
async fn a_slug_that_was_never_inserted_is_absent_and_cannot_be_replaced() {
    let store = store().await;
    let page = page("text");
    assert_eq!(store.lookup(&page.slug).await.unwrap(), Lookup::Absent);
    let next = Record::Active(edited(&page, "next"));
    assert_eq!(store.compare_and_set(page.version, next).await.unwrap(), CasResult::Stale);
    let tombstone = Record::Deleted(page.tombstone(UnixMillis::new(CREATED)));
    assert_eq!(store.compare_and_set(page.version, tombstone).await.unwrap(), CasResult::Stale);
    // A condition that also holds without a row would have created one.
    assert_eq!(store.lookup(&page.slug).await.unwrap(), Lookup::Absent);
    assert_eq!(store.insert_if_absent(Arc::new(page)).await.unwrap(), InsertResult::Inserted);
}

#[tokio::test]
async fn every_field_is_kept_and_content_byte_for_byte() {
    let store = store().await;
    let unusual =
        "\u{0}\r\n\t \u{feff}e\u{301}é 👩\u{200d}👩\u{200d}👧 \u{202e}abc\u{202c} \u{10ffff}\u{fffd} مرحبا \n ";
    for content in ["0123456789abcdef".repeat(6400), unusual.to_owned(), " ".to_owned(), "👍".repeat(25_600)] {
        let mut page = page(&content);
        page.title = None;
        page.rendered.link_origins = vec!["https://a.example".to_owned(), "https://b.example".to_owned()];
        page.rendered.language = Language::from_code("de");
        page.rendered.renderer_version = u16::MAX;
        page.version = PageVersion::new(1 << 40);
        page.updated_at = UnixMillis::new(CREATED + 1);
        let page = Arc::new(page);
        assert_eq!(store.insert_if_absent(page.clone()).await.unwrap(), InsertResult::Inserted);
        assert_eq!(store.lookup(&page.slug).await.unwrap(), Lookup::Active(page));
    }
}

#[tokio::test]
async fn a_taken_slug_is_refused_and_its_page_stays() {
    let store = store().await;
    let first = Arc::new(page("first"));
    let second = Arc::new(page_at(first.slug.clone(), "second"));
    store.insert_if_absent(first.clone()).await.unwrap();
    assert_eq!(store.insert_if_absent(second).await.unwrap(), InsertResult::SlugTaken);
    assert_eq!(store.lookup(&first.slug).await.unwrap(), Lookup::Active(first));
}

#[tokio::test]
async fn a_page_of_the_expected_version_is_replaced_and_a_stale_one_is_not() {
    let store = store().await;
    let first = Arc::new(page("first"));
    store.insert_if_absent(first.clone()).await.unwrap();
    let mut page = first.clone();
    for round in 0..20 {
        let next = edited(&page, &format!("edit {round}"));
        let swapped = store.compare_and_set(page.version, Record::Active(next.clone())).await.unwrap();
        assert_eq!(swapped, CasResult::Swapped);
        assert_eq!(store.lookup(&next.slug).await.unwrap(), Lookup::Active(next.clone()));
        page = next;
    }
    for stale in [first.version, page.version.next()] {
        let late = Record::Active(edited(&first, "late"));
        assert_eq!(store.compare_and_set(stale, late).await.unwrap(), CasResult::Stale);
        let tombstone = Record::Deleted(first.tombstone(UnixMillis::new(CREATED)));
        assert_eq!(store.compare_and_set(stale, tombstone).await.unwrap(), CasResult::Stale);
    }
    assert_eq!(store.lookup(&first.slug).await.unwrap(), Lookup::Active(page));
}

#[tokio::test]
async fn a_title_that_is_cleared_and_links_that_are_gone_leave_nothing() {
    let store = store().await;
    let mut first = page("first");
    first.rendered.link_origins = vec!["https://a.example".to_owned()];
    first.rendered.language = Language::from_code("de");
    let mut next = (*edited(&first, "next")).clone();
    next.title = None;
    let (first, next) = (Arc::new(first), Arc::new(next));
    store.insert_if_absent(first.clone()).await.unwrap();
    store.compare_and_set(first.version, Record::Active(next.clone())).await.unwrap();
    assert_eq!(store.lookup(&first.slug).await.unwrap(), Lookup::Active(next));
}

#[tokio::test]
async fn a_deleted_page_leaves_a_tombstone_that_nothing_replaces() {
    let store = store().await;
    let page = Arc::new(page("text"));
    let tombstone = page.tombstone(UnixMillis::new(CREATED + 5));
    let deleted = Record::Deleted(tombstone.clone());
    store.insert_if_absent(page.clone()).await.unwrap();
    assert_eq!(store.compare_and_set(page.version, deleted.clone()).await.unwrap(), CasResult::Swapped);

    let again = Arc::new(page_at(page.slug.clone(), "again"));
    assert_eq!(store.insert_if_absent(again).await.unwrap(), InsertResult::SlugTaken);
    for version in [page.version, tombstone.version] {
        let revived = Record::Active(edited(&page, "revived"));
        assert_eq!(store.compare_and_set(version, revived).await.unwrap(), CasResult::Stale);
        assert_eq!(store.compare_and_set(version, deleted.clone()).await.unwrap(), CasResult::Stale);
    }
    assert_eq!(store.lookup(&page.slug).await.unwrap(), Lookup::Deleted(tombstone));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_racing_inserts_of_one_slug_one_wins_and_is_what_is_found() {
    let store = store().await;
    let slug = slug();
    let racing = (0..16).map(|racer| {
        let (store, page) = (store.clone(), Arc::new(page_at(slug.clone(), &format!("racer {racer}"))));
        tokio::spawn(async move { (store.insert_if_absent(page.clone()).await.unwrap(), page) })
    });
    let finished = join_all(racing).await.into_iter().map(Result::unwrap);
    let winners: Vec<_> = finished.filter(|(inserted, _)| *inserted == InsertResult::Inserted).collect();
    assert_eq!(winners.len(), 1);
    assert_eq!(store.lookup(&slug).await.unwrap(), Lookup::Active(winners[0].1.clone()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_racing_changes_to_one_version_one_wins_and_is_what_is_found() {
    let store = store().await;
    let first = Arc::new(page("first"));
    store.insert_if_absent(first.clone()).await.unwrap();
    let racing = (0..16).map(|racer| {
        let (store, expected) = (store.clone(), first.version);
        let next = if racer % 4 == 0 {
            Record::Deleted(first.tombstone(UnixMillis::new(CREATED + racer)))
        } else {
            Record::Active(edited(&first, &format!("racer {racer}")))
        };
        tokio::spawn(async move { (store.compare_and_set(expected, next.clone()).await.unwrap(), next) })
    });
    let finished = join_all(racing).await.into_iter().map(Result::unwrap);
    let winners: Vec<_> = finished.filter(|(swapped, _)| *swapped == CasResult::Swapped).collect();
    assert_eq!(winners.len(), 1);
    let expected = match winners[0].1.clone() {
        Record::Active(page) => Lookup::Active(page),
        Record::Deleted(tombstone) => Lookup::Deleted(tombstone),
    };
    assert_eq!(store.lookup(&first.slug).await.unwrap(), expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_writers_that_read_and_set_no_update_is_lost() {
    const WRITERS: u64 = 8;
    const WRITES: u64 = 20;
    // Two sessions, like those of two replicas.
    let stores = [store().await, store().await];
    let first = Arc::new(page("0"));
    stores[0].insert_if_absent(first.clone()).await.unwrap();
    let writers = (0..WRITERS).map(|writer| {
        let (store, slug) = (stores[usize::try_from(writer % 2).unwrap()].clone(), first.slug.clone());
        tokio::spawn(async move {
            let mut written = 0;
            while written < WRITES {
                let Lookup::Active(page) = store.lookup(&slug).await.unwrap() else { panic!("the page is there") };
                let count: u64 = page.content.as_str().parse().unwrap();
                let next = edited(&page, &(count + 1).to_string());
                if store.compare_and_set(page.version, Record::Active(next)).await.unwrap() == CasResult::Swapped {
                    written += 1;
                }
            }
        })
    });
    for writer in join_all(writers).await {
        writer.unwrap();
    }
    let Lookup::Active(page) = stores[1].lookup(&first.slug).await.unwrap() else { panic!("the page is there") };
    assert_eq!(page.content.as_str(), (WRITERS * WRITES).to_string());
    assert_eq!(page.version, PageVersion::new(1 + WRITERS * WRITES));
}

#[tokio::test]
async fn a_write_is_seen_at_once_through_another_session() {
    let (writing, reading) = (store().await, store().await);
    for round in 0..20 {
        let page = Arc::new(page(&format!("round {round}")));
        writing.insert_if_absent(page.clone()).await.unwrap();
        assert_eq!(reading.lookup(&page.slug).await.unwrap(), Lookup::Active(page));
    }
}

//! Operations through several sessions on a real server, and columns that an update empties. The rest of the contract
//! of `PageStore` is in `tests/it/contract/rules`, which `services::contract` runs on this server too.

use std::sync::Arc;

use futures_util::future::join_all;
use handbill_core::domain::language::Language;
use handbill_core::domain::page::PageVersion;
use handbill_core::ports::page_store::{CasResult, Lookup, PageStore, Record};
use scylla::value::Row;

use super::server::{PATIENT, migrated_keyspace, proxied, session, store};
use crate::support::pages::{edited, page};

#[tokio::test]
async fn a_title_that_is_cleared_and_links_that_are_gone_leave_nothing() {
    let store = store().await;
    let mut first = page("first");
    first.head.link_origins = vec!["https://a.example".to_owned()];
    first.text.language = Language::from_code("de");
    let mut next = (*edited(&first, "next")).clone();
    next.head.title = None;
    let (first, next) = (Arc::new(first), Arc::new(next));
    store.insert_if_absent(first.clone(), None).await.unwrap();
    store.compare_and_set(first.head.version, Record::Active(next.clone()), None).await.unwrap();
    assert_eq!(store.lookup(&first.head.slug).await.unwrap(), Lookup::Active(next));
}

/// A null is a tombstone, which the database drops after `gc_grace`: a copy that missed it would then show the title again.
#[tokio::test]
async fn what_a_page_no_longer_has_is_empty_and_never_null_and_a_deleted_text_is_overwritten() {
    let (store, session, keyspace) = (store().await, session().await, migrated_keyspace().await);
    let mut first = page("first");
    first.head.link_origins = vec!["https://a.example".to_owned()];
    let mut next = (*edited(&first, "next")).clone();
    next.head.title = None;
    next.head.link_origins = Vec::new();
    let tombstone = next.head.tombstone(next.head.updated_at);
    let slug = first.head.slug.clone();
    let row = async || {
        let cql = format!("SELECT * FROM {keyspace}.pages WHERE slug = ?");
        let answer = session.query_unpaged(cql, (slug.as_str(),)).await.unwrap().into_rows_result().unwrap();
        let row = answer.single_row::<Row>().unwrap();
        assert!(row.columns.iter().all(Option::is_some), "{row:?}");
        let (text, _) = answer.column_specs().get_by_name("text").unwrap();
        row.columns[text].as_ref().unwrap().as_blob().unwrap().len()
    };
    store.insert_if_absent(Arc::new(first.clone()), None).await.unwrap();
    assert!(row().await > 8);
    let version = next.head.version;
    store.compare_and_set(first.head.version, Record::Active(Arc::new(next)), None).await.unwrap();
    assert!(row().await > 8);
    store.compare_and_set(version, Record::Deleted(tombstone.clone()), None).await.unwrap();
    assert_eq!(row().await, 8, "the revision alone");
    assert_eq!(store.lookup(&slug).await.unwrap(), Lookup::Deleted(tombstone));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_writers_that_read_and_set_no_update_is_lost() {
    const WRITERS: u64 = 8;
    const WRITES: u64 = 20;
    // Two sessions, like those of two replicas.
    let stores = [store().await, store().await];
    let first = Arc::new(page("0"));
    stores[0].insert_if_absent(first.clone(), None).await.unwrap();
    let writers = (0..WRITERS).map(|writer| {
        let (store, slug) = (stores[usize::try_from(writer % 2).unwrap()].clone(), first.head.slug.clone());
        tokio::spawn(async move {
            let mut written = 0;
            while written < WRITES {
                let Lookup::Active(page) = store.lookup(&slug).await.unwrap() else { panic!("the page is there") };
                let count: u64 = page.text.content.as_str().parse().unwrap();
                let next = edited(&page, &(count + 1).to_string());
                if store.compare_and_set(page.head.version, Record::Active(next), None).await.unwrap()
                    == CasResult::Swapped
                {
                    written += 1;
                }
            }
        })
    });
    for writer in join_all(writers).await {
        writer.unwrap();
    }
    let Lookup::Active(page) = stores[1].lookup(&first.head.slug).await.unwrap() else { panic!("the page is there") };
    assert_eq!(page.text.content.as_str(), (WRITERS * WRITES).to_string());
    assert_eq!(page.head.version, PageVersion::new(1 + WRITERS * WRITES));
}

#[tokio::test]
async fn a_write_is_seen_at_once_through_another_session() {
    let (writing, reading) = (store().await, store().await);
    for round in 0..20 {
        let page = Arc::new(page(&format!("round {round}")));
        writing.insert_if_absent(page.clone(), None).await.unwrap();
        assert_eq!(reading.lookup(&page.head.slug).await.unwrap(), Lookup::Active(page));
    }
}

/// Cassandra repairs only the columns that were selected, so a copy can have the head of one write and the text of an earlier one.
#[tokio::test]
async fn a_text_of_another_revision_than_the_head_is_read_again_serially() {
    let mut proxied = proxied(PATIENT).await;
    let first = Arc::new(page("first"));
    proxied.store.insert_if_absent(first.clone(), None).await.unwrap();
    proxied.tear_the_next_text();
    assert_eq!(proxied.store.lookup(&first.head.slug).await.unwrap(), Lookup::Active(first.clone()));
    proxied.tear_the_next_text();
    assert_eq!(proxied.store.page(&first.head).await.unwrap(), Some(first));
}

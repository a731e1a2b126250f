//! Operations through several sessions on a real server, and columns that an update empties. The rest of the contract
//! of `PageStore` is in `tests/it/contract/rules`, which `contract` runs on this server too.

use std::sync::Arc;

use handbill_pages::ports::page_store::PageStore;
use handbill_pages::values::record::Record;
use handbill_test_support::pages::{edited, insert, page, replace};
use scylla::value::{CqlValue, Row};

use super::server::{PATIENT, migrated_keyspace, proxied, session, store};

/// A null is a tombstone, which the database drops after `gc_grace`: a copy that missed it would then show the title again.
#[tokio::test]
async fn what_a_page_no_longer_has_is_empty_and_never_null() {
    let (store, session, keyspace) = (store().await, session().await, migrated_keyspace().await);
    let mut first = page("first");
    first.head.state.links = vec!["https://a.example".to_owned()];
    let mut next = (*edited(&first, "next")).clone();
    next.head.state.details.title = None;
    next.head.state.links = Vec::new();
    let tombstone = next.head.tombstone(next.head.updated_at);
    let slug = first.head.slug.clone();
    let row = async || {
        let cql = format!("SELECT * FROM {keyspace}.pages WHERE slug = ?");
        let answer = session.query_unpaged(cql, (slug.as_str(),)).await.unwrap().into_rows_result().unwrap();
        let row = answer.single_row::<Row>().unwrap();
        assert!(row.columns.iter().all(Option::is_some), "{row:?}");
        let (text, _) = answer.column_specs().get_by_name("text").unwrap();
        let Some(CqlValue::Tuple(cells)) = &row.columns[text] else { panic!("{row:?}") };
        cells[1].as_ref().unwrap().as_blob().unwrap().len()
    };
    insert(&*store, Arc::new(first.clone())).await;
    assert!(row().await > 0);
    let next_head = next.head.clone();
    replace(&*store, &first.head, Record::Active(Arc::new(next))).await;
    assert!(row().await > 0);
    replace(&*store, &next_head, Record::Deleted(tombstone.clone())).await;
    assert_eq!(row().await, 0, "the revision alone");
    assert_eq!(store.lookup(&slug).await.unwrap(), Some(Record::Deleted(tombstone)));
}

/// Cassandra repairs only the columns that were selected, so a copy can have the head of one write and the text of an earlier one.
#[tokio::test]
async fn a_text_of_another_revision_than_the_head_is_read_again() {
    let mut proxied = proxied(PATIENT).await;
    let first = Arc::new(page("first"));
    insert(&*proxied.store, first.clone()).await;
    proxied.tear_the_next_text();
    assert_eq!(proxied.store.lookup(&first.head.slug).await.unwrap(), Some(Record::Active(first.clone())));
    proxied.tear_the_next_text();
    assert_eq!(proxied.store.lookup(&first.head.slug).await.unwrap(), Some(Record::Active(first)));
}

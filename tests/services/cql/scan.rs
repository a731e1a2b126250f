//! Scans of a keyspace that has parts of records. The rules of all scans are in `tests/it/contract/rules/scan.rs`.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use handbill::admin::import::Importer;
use handbill::app::Deps;
use handbill_core::domain::archive::Entry;
use handbill_core::domain::timestamp::UnixMillis;
use handbill_core::ports::clock::SystemClock;
use handbill_core::ports::page_scan::{PageScan, ScanLimit};
use handbill_core::ports::page_store::{PageStore, Record, StoreError};
use handbill_core::service::ServiceError;
use handbill_store_cql::{CqlTimeouts, Scanned, Share, ShareScan};
use scylla_proxy::{Condition, Reaction, RequestOpcode, RequestReaction, RequestRule, example_db_errors};
use tokio::sync::mpsc::unbounded_channel;

use super::operators::{hiding, turn};
use super::server::{Proxied, drop_keyspace, fresh_store, migrated_settings, proxied_session, session, store_in};
use crate::environment::in_time;
use crate::support::pages::{CREATED, page, slug, with_head};
use crate::support::scans::{all, all_at_once, of as limit_of};

#[tokio::test]
async fn a_text_without_a_head_is_no_record_and_a_damaged_record_is_named_and_the_scan_goes_on() {
    let (store, session, keyspace) = fresh_store().await;
    let pages = ["first", "damaged", "last"].map(|content| Arc::new(page(content)));
    for page in &pages {
        store.insert_if_absent(page.clone(), None).await.unwrap();
    }
    // A create that died before its head.
    let orphan = format!(
        "INSERT INTO {keyspace}.texts (slug, text_version, text_nonce, content, html) \
         VALUES (?, 1, 0x00112233445566778899aabbccddeeff, 'orphan', '')"
    );
    session.query_unpaged(orphan, (slug().as_str(),)).await.unwrap();
    let mut expected: BTreeMap<_, _> =
        pages.iter().map(|page| (page.head.slug.to_string(), Record::Active(page.clone()))).collect();
    assert_eq!(all(&*store, ScanLimit::DEFAULT).await, expected);
    assert_eq!(store.estimated_records().await.unwrap(), Some(3));

    let damage = format!("UPDATE {keyspace}.pages SET key_hash = 0x00 WHERE slug = ? IF state = 'active'");
    session.query_unpaged(damage, (pages[1].head.slug.as_str(),)).await.unwrap();
    expected.remove(pages[1].head.slug.as_str());
    let batch = store.scan(None, ScanLimit::DEFAULT).await.unwrap();
    let (good, bad): (Vec<_>, Vec<_>) = batch.records.into_iter().partition(Result::is_ok);
    let good: BTreeMap<_, _> =
        good.into_iter().map(Result::unwrap).map(|record| (record.slug().to_string(), record)).collect();
    assert_eq!(good, expected);
    let names: Vec<_> = bad.into_iter().map(|record| record.unwrap_err().name).collect();
    assert_eq!(names, [pages[1].head.slug.to_string()]);
    drop_keyspace(&session, &keyspace).await;
}

#[tokio::test]
async fn a_hidden_page_whose_text_is_gone_is_named_by_a_scan_and_refuses_an_imported_act_at_once() {
    let (store, session, keyspace) = fresh_store().await;
    let page = Arc::new(page("hidden on one side of a cut, and edited on the other"));
    store.insert_if_absent(page.clone(), None).await.unwrap();
    let hidden = turn(&store, &page, Some(hiding()), 5).await;
    let slug = hidden.head.slug.as_str();
    session.query_unpaged(format!("DELETE FROM {keyspace}.texts WHERE slug = ?"), (slug,)).await.unwrap();

    let batch = in_time("a scan", store.scan(None, ScanLimit::DEFAULT)).await.unwrap();
    let names: Vec<_> = batch.records.into_iter().map(|record| record.unwrap_err().name).collect();
    assert_eq!(names, [slug]);
    let shown = with_head(&hidden, |head| head.turned(None, UnixMillis::new(CREATED + 7))).head.visibility();
    let (renderer, clock) = (Deps::system().renderer, Arc::new(SystemClock::new()));
    let importer = Importer { store: store.clone(), renderer, clock };
    let turned = in_time("an import", importer.import(Entry::Visibility(shown))).await;
    assert!(matches!(turned, Err(ServiceError::Store(StoreError::Unreadable(_)))), "{turned:?}");
    drop_keyspace(&session, &keyspace).await;
}

#[tokio::test]
async fn each_record_is_in_one_of_the_shares_of_a_keyspace() {
    let (store, session, keyspace) = fresh_store().await;
    let pages: Vec<_> = (0..40).map(|number| Arc::new(page(&format!("page {number}")))).collect();
    for page in &pages {
        store.insert_if_absent(page.clone(), None).await.unwrap();
    }
    let expected: BTreeMap<_, _> =
        pages.iter().map(|page| (page.head.slug.to_string(), Record::Active(page.clone()))).collect();
    for of in [1, 3] {
        let mut found = BTreeMap::new();
        for number in 1..=of {
            let share = format!("{number}/{of}").parse().unwrap();
            let share = ShareScan::of(Arc::clone(&store), share, Scanned::Pages);
            let records = all_at_once(&share, limit_of(7), 8).await;
            assert!(of == 1 || records.len() < pages.len(), "{} of all are in {number}/{of}", records.len());
            for (slug, record) in records {
                assert!(found.insert(slug, record).is_none());
            }
        }
        assert_eq!(found, expected, "{of}");
    }
    drop_keyspace(&session, &keyspace).await;
}

/// A store of these pages in a keyspace of its own, behind a proxy, and the keyspace.
async fn proxied_pages(count: usize) -> (Proxied, BTreeMap<String, Record>, String) {
    let settings = migrated_settings().await;
    let (session, proxy) = proxied_session(&settings, 1).await;
    let store = store_in(session, &settings.keyspace, CqlTimeouts::default()).await;
    let mut records = BTreeMap::new();
    for number in 0..count {
        let page = Arc::new(page(&format!("text {number}")));
        store.insert_if_absent(page.clone(), None).await.unwrap();
        records.insert(page.head.slug.to_string(), Record::Active(page));
    }
    (Proxied { store, proxy }, records, settings.keyspace)
}

#[tokio::test]
async fn texts_that_cannot_be_read_together_are_read_one_by_one() {
    let (mut proxied, expected, _) = proxied_pages(6).await;
    let (tell, mut refused) = unbounded_channel();
    proxied.refuse_to_show_together("text 3", "text 4", tell);
    assert_eq!(all(&*proxied.store, ScanLimit::DEFAULT).await, expected);
    refused.try_recv().expect("the rule has no effect");
}

#[tokio::test]
async fn an_export_goes_on_where_it_was_once_the_database_answers_again() {
    let (mut proxied, expected, _) = proxied_pages(12).await;
    let scan = ShareScan::of(Arc::clone(&proxied.store), Share::WHOLE, Scanned::Pages);
    let first = scan.scan(None, limit_of(5)).await.unwrap();
    let (tell, mut refused) = unbounded_channel();
    let refuse = RequestReaction::forge_with_error(example_db_errors::server_error());
    let refuse = refuse.with_feedback_when_performed(tell);
    proxied.rules(vec![RequestRule(Condition::RequestOpcode(RequestOpcode::Execute), refuse)], Vec::new());
    assert!(proxied.store.scan(first.next.as_ref(), limit_of(5)).await.is_err(), "the rule has no effect");
    while refused.try_recv().is_ok() {}
    let rest = tokio::spawn(async move { scan.scan(first.next.as_ref(), ScanLimit::DEFAULT).await });
    refused.recv().await.unwrap();
    proxied.be_honest();
    let records = first.records.into_iter().chain(rest.await.unwrap().unwrap().records).map(Result::unwrap);
    assert_eq!(records.map(|record| (record.slug().to_string(), record)).collect::<BTreeMap<_, _>>(), expected);
}

#[tokio::test]
async fn a_command_reads_eight_ranges_of_the_ring_at_once() {
    let (mut proxied, expected, _) = proxied_pages(40).await;
    let scan = Arc::new(ShareScan::of(Arc::clone(&proxied.store), Share::WHOLE, Scanned::Pages));
    let (tell, mut held) = unbounded_channel();
    let no_answer = RequestReaction::drop_frame().with_feedback_when_performed(tell);
    proxied.rules(vec![RequestRule(Condition::RequestOpcode(RequestOpcode::Execute), no_answer)], Vec::new());
    let reading = Arc::clone(&scan);
    let first = tokio::spawn(async move { reading.scan(None, ScanLimit::DEFAULT).await });
    // None of them was answered. A request that is sent again has the same tokens.
    let mut asked = HashSet::new();
    while asked.len() < 8 {
        asked.insert(held.recv().await.unwrap().0.body);
    }
    proxied.be_honest();
    let mut batch = first.await.unwrap().unwrap();
    let mut found = BTreeMap::new();
    loop {
        for record in batch.records.into_iter().map(Result::unwrap) {
            assert!(found.insert(record.slug().to_string(), record).is_none());
        }
        let Some(next) = batch.next else { break };
        batch = scan.scan(Some(&next), limit_of(3)).await.unwrap();
    }
    assert_eq!(found, expected);
}

#[tokio::test]
async fn a_partition_that_no_node_can_read_is_left_out_by_its_token_and_the_rest_is_read() {
    let (mut proxied, mut expected, keyspace) = proxied_pages(12).await;
    let lost = expected.keys().nth(5).unwrap().clone();
    proxied.cannot_read(&lost);
    let failed = proxied.store.scan(None, ScanLimit::DEFAULT).await;
    assert!(matches!(failed, Err(StoreError::Unavailable(_))), "the rule has no effect: {failed:?}");
    let scan = ShareScan::of(Arc::clone(&proxied.store), Share::WHOLE, Scanned::Pages);
    let (mut found, mut left_out, mut after) = (BTreeMap::new(), Vec::new(), None);
    loop {
        let batch = scan.scan(after.as_ref(), limit_of(4)).await.unwrap();
        for record in batch.records {
            match record {
                Ok(record) => assert!(found.insert(record.slug().to_string(), record).is_none()),
                Err(unreadable) => left_out.push(unreadable.name),
            }
        }
        after = batch.next;
        if after.is_none() {
            break;
        }
    }
    expected.remove(&lost);
    assert_eq!(found, expected);
    let token = format!("SELECT token(slug) FROM {keyspace}.pages WHERE slug = ?");
    let token = session().await.query_unpaged(token, (&lost,)).await.unwrap().into_rows_result().unwrap();
    assert_eq!(left_out, [format!("token {}", token.single_row::<(i64,)>().unwrap().0)]);
}

//! Options of the connections: compression, and the rack that is asked first.

use std::sync::Arc;

use handbill::backends::cql::{ConnectError, CqlStore, SettingsError};
use handbill::ports::page_store::{InsertResult, Lookup, PageStore};
use handbill::ports::random::Random;
use scylla_proxy::{Condition, Reaction, ResponseOpcode, ResponseReaction, ResponseRule};
use tokio::sync::mpsc::unbounded_channel;

use super::server::{PATIENT, Proxied, migrated_keyspace, proxied_session, session, settings, store_on};
use crate::support::pages::page;

/// Stores a page and reads it. Returns the bytes of the answers, as the store sees them and as they are sent.
async fn answer_bytes(compression: &str) -> (usize, usize) {
    let settings = settings(migrated_keyspace().await, &["--scylla-compression", compression]);
    let (session, proxy) = proxied_session(&settings, 1).await;
    let mut proxied = Proxied { store: store_on(session, PATIENT).await, proxy };
    let (tell, mut answers) = unbounded_channel();
    let answered = Condition::ResponseOpcode(ResponseOpcode::Result);
    let listening = ResponseReaction::noop().with_feedback_when_performed(tell);
    proxied.rules(Vec::new(), vec![ResponseRule(answered, listening)]);

    let page = Arc::new(page(&"Twenty kilobytes. ".repeat(1_111)));
    assert_eq!(proxied.store.insert_if_absent(page.clone()).await.unwrap(), InsertResult::Inserted);
    assert_eq!(proxied.store.lookup(&page.slug).await.unwrap(), Lookup::Active(page));
    let (mut seen, mut sent) = (0, 0);
    while let Ok((answer, _)) = answers.try_recv() {
        (seen, sent) = (seen + answer.body.len(), sent + answer.wire_body_len);
    }
    (seen, sent)
}

#[tokio::test(flavor = "multi_thread")]
async fn with_lz4_answers_are_compressed_on_their_way_and_without_it_they_are_not() {
    let (seen, sent) = answer_bytes("lz4").await;
    assert!(seen > 20_000 && sent * 4 < seen, "{sent} of {seen} bytes");
    let (seen, sent) = answer_bytes("none").await;
    assert_eq!(sent, seen);
}

#[tokio::test]
async fn a_rack_without_nodes_is_refused_by_name_and_another_is_used() {
    let (session, keyspace) = (session().await, migrated_keyspace().await);
    let rack = session.get_cluster_state().get_nodes_info()[0].rack.clone().unwrap();
    let connecting = async |rack: &str| {
        CqlStore::connect(&settings(keyspace, &["--scylla-rack", rack]), PATIENT, Random::System, |_| {}).await
    };
    let refused = connecting("no-such-rack").await.err().unwrap();
    assert!(matches!(refused, ConnectError::Settings(SettingsError::NoSuchRack { .. })), "{refused}");
    let refused = refused.to_string();
    assert!(
        refused.contains("--scylla-rack") && refused.contains("no-such-rack") && refused.contains(&rack),
        "{refused}"
    );

    let store = connecting(&rack).await.unwrap();
    let page = Arc::new(page("text"));
    assert_eq!(store.insert_if_absent(page.clone()).await.unwrap(), InsertResult::Inserted);
    assert_eq!(store.lookup(&page.slug).await.unwrap(), Lookup::Active(page));
}

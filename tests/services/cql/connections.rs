//! The rack that is asked first.

use std::sync::Arc;

use handbill_core::ports::page_store::{InsertResult, Lookup, PageStore};
use handbill_core::ports::random::Random;
use handbill_store_cql::{ConnectError, CqlStore, SettingsError};

use super::server::{PATIENT, migrated_keyspace, session, settings};
use crate::support::pages::page;

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
    assert_eq!(store.insert_if_absent(page.clone(), None).await.unwrap(), InsertResult::Inserted);
    assert_eq!(store.lookup(&page.head.slug).await.unwrap(), Lookup::Active(page));
}

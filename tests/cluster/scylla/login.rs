//! Logins and TLS, on a server that wants a login and takes both clients with TLS and others.

use std::io::Write;
use std::sync::Arc;

use handbill_pages::ports::page_store::{PageStore, PutResult};
use handbill_pages::ports::random::Random;
use handbill_pages::values::record::Record;
use handbill_store_scylla::{Progress, ScyllaSettings, migrate};
use handbill_test_support::environment::{folder, in_time};
use handbill_test_support::pages::{insert, page};
use tempfile::NamedTempFile;
use tokio::sync::mpsc::unbounded_channel;

use super::server::{PATIENT, connected, fresh_keyspace, settings, unconnected};

fn file(text: &str) -> NamedTempFile {
    let mut file = NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file
}

fn secured(keyspace: &str, password: &NamedTempFile) -> ScyllaSettings {
    let ca = folder("HANDBILL_TEST_CQL_FILES").join("ca.pem");
    let settings = settings(keyspace, &["--scylla-ca-file", ca.to_str().unwrap()]);
    ScyllaSettings { password_file: Some(password.path().to_owned()), ..settings }
}

/// The first reason with one of `words` why a store with `settings` does not connect. A busy server has other reasons
/// too.
async fn refused(settings: &ScyllaSettings, words: &[&str]) -> String {
    let (tell, mut told) = unbounded_channel();
    let store = unconnected(PATIENT);
    let connecting = store.connect(settings, move |progress| {
        tell.send(progress.clone()).expect("the test listens");
    });
    let telling = async {
        loop {
            match told.recv().await {
                Some(Progress::OutOfReach(reason)) if words.iter().any(|word| reason.contains(word)) => return reason,
                Some(Progress::OutOfReach(_)) => {}
                progress => panic!("{progress:?}"),
            }
        }
    };
    let refused = async {
        tokio::select! {
            store = connecting => panic!("it was taken: {:?}", store.err()),
            reason = telling => reason,
        }
    };
    in_time("the reason is told", Box::pin(refused)).await
}

#[tokio::test]
async fn pages_are_kept_by_a_server_with_tls_and_a_login() {
    let password = file("cassandra\n");
    let settings = secured(&fresh_keyspace(), &password);
    migrate(&settings, &Random::System).await.unwrap();
    let store = connected(&settings).await;
    let page = Arc::new(page("secret"));
    assert_eq!(insert(&store, page.clone()).await, PutResult::Done);
    assert_eq!(store.lookup(&page.head.slug).await.unwrap(), Some(Record::Active(page)));
}

#[tokio::test]
async fn a_wrong_password_is_told_and_the_right_one_read_later() {
    let password = file("not-the-password");
    let settings = secured("handbill", &password);
    let reason = refused(&settings, &["check --scylla-username"]).await;
    assert!(!reason.contains("not-the-password"), "{reason}");
    let anonymous = ScyllaSettings { username: None, password_file: None, ..settings.clone() };
    refused(&anonymous, &["give --scylla-username"]).await;

    let (tell, mut told) = unbounded_channel();
    let store = unconnected(PATIENT);
    let connecting = store.connect(&settings, move |progress| {
        // Sending fails once the test has heard enough and stopped listening.
        let _ = tell.send(progress.clone());
    });
    let put_right = async {
        assert!(matches!(told.recv().await, Some(Progress::OutOfReach(_))));
        std::fs::write(password.path(), "cassandra").unwrap();
        while !matches!(told.recv().await, Some(Progress::Schema(_) | Progress::Connected)) {}
    };
    let heard = async {
        tokio::select! {
            store = connecting => panic!("there is no schema: {:?}", store.err()),
            () = put_right => {}
        }
    };
    in_time("the password is read again", Box::pin(heard)).await;
}

#[tokio::test]
async fn a_node_with_another_certificate_is_not_talked_to() {
    let password = file("cassandra");
    let mut settings = secured("handbill", &password);
    // A certificate of the node's name, so that only who signed it is wrong.
    let (name, _) = settings.nodes[0].split_once(':').unwrap();
    let other = rcgen::generate_simple_self_signed([name.to_owned()]).unwrap();
    let other = file(&other.cert.pem());
    settings.ca_file = Some(other.path().to_owned());
    refused(&settings, &["certificate"]).await;
}

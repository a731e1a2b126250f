//! Logins and TLS, on a server that requires both.

use std::io::Write;
use std::sync::Arc;

use handbill_pages::ports::page_store::{InsertResult, Lookup, PageStore};
use handbill_pages::ports::random::Random;
use handbill_store_scylla::{Progress, ScyllaSettings, migrate};
use tempfile::NamedTempFile;
use tokio::sync::mpsc::unbounded_channel;

use super::server::{PATIENT, connected, fresh_keyspace, settings, unconnected};
use crate::environment::{from_the_runner, in_time};
use crate::support::pages::page;

/// The login that the server creates at its first start.
const LOGIN: &str = "cassandra";

fn file(text: &str) -> NamedTempFile {
    let mut file = NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file
}

/// The settings for the secured server, with its certificate and the password in `password`.
fn secured(keyspace: &str, password: &NamedTempFile) -> ScyllaSettings {
    let (password, ca) = (password.path().to_str().unwrap(), from_the_runner("HANDBILL_TEST_CQL_SECURED_CA"));
    let login = ["--scylla-username", LOGIN, "--scylla-password-file", password, "--scylla-ca-file", &ca];
    let mut settings = settings(keyspace, &login);
    settings.nodes = vec![from_the_runner("HANDBILL_TEST_CQL_SECURED")];
    settings.replication_factor = 1;
    settings
}

/// The reason why a store with `settings` does not connect. The store keeps trying.
async fn refused(settings: &ScyllaSettings) -> String {
    let (tell, mut told) = unbounded_channel();
    let store = unconnected(PATIENT);
    let connecting = store.connect(settings, move |progress| {
        tell.send(progress.clone()).expect("the test listens");
    });
    tokio::select! {
        store = connecting => panic!("it was taken: {:?}", store.err()),
        progress = told.recv() => match progress {
            Some(Progress::OutOfReach(reason)) => reason,
            progress => panic!("{progress:?}"),
        },
    }
}

#[tokio::test]
async fn pages_are_kept_by_a_server_that_wants_tls_and_a_login() {
    let password = file("cassandra\n");
    let settings = secured(&fresh_keyspace(), &password);
    // The server creates the login some time after its first start.
    migrate(&settings, &Random::System).await.expect("the login exists");
    let store = connected(&settings).await;
    let page = Arc::new(page("secret"));
    assert_eq!(store.insert_if_absent(page.clone(), None).await.unwrap(), InsertResult::Inserted);
    assert_eq!(store.lookup(&page.head.slug).await.unwrap(), Lookup::Active(page));
}

#[tokio::test]
async fn a_wrong_password_is_told_and_the_right_one_read_later() {
    let password = file("not-the-password");
    let settings = secured("handbill", &password);
    let reason = refused(&settings).await;
    assert!(!reason.contains("not-the-password"), "{reason}");
    assert!(reason.to_ascii_lowercase().contains("authenticat") || reason.contains("credential"), "{reason}");

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
    refused(&settings).await;
    settings.ca_file = None;
    refused(&settings).await;
}

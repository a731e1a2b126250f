//! The discovery documents of a service at another address (spec §4.7).

use crate::in_process::app::{Setup, TestApp};
use crate::spec::discovery::DOCUMENTS;

#[tokio::test]
async fn a_tag_changes_with_the_base_url() {
    let (one, other) = (TestApp::new(), Setup::new().base_url("https://other.example").start());
    for (path, _) in DOCUMENTS {
        assert_ne!(one.get(path).await.header("etag"), other.get(path).await.header("etag"), "{path}");
        assert_eq!(one.get(path).await.header("etag"), TestApp::new().get(path).await.header("etag"), "{path}");
    }
}

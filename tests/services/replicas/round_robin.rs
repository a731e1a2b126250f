//! A check that the tests of this module ask several replicas.

use super::services::service;
use crate::support::app::{Limits, Setup};

/// The limits of a service that no other test asks.
const LIMITS: Limits = Limits { create: 29, edit: 29, token: 60 };

#[tokio::test]
async fn each_of_three_requests_goes_to_another_replica() {
    let app = Setup::new().limits(LIMITS.create, LIMITS.edit).start();
    for _ in 0..3 {
        app.get("/").await.expect_status(200);
    }
    for replica in &service(LIMITS).await.replicas {
        let (_, metrics) = replica.ask("/metrics").await;
        let count = metrics.lines().find(|line| line.starts_with("http_server_request_duration_seconds_count"));
        assert!(count.is_some_and(|line| line.ends_with(" 1")), "{metrics}");
    }
}

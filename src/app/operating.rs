//! The operators' API over the cluster itself, for commands that ask no running process.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::BodyExt;
use tokio::runtime::{Builder, Runtime};
use tower::ServiceExt;

use super::backends::operated;
use super::deps::Deps;
use crate::backends::cql::CqlStore;
use crate::config::ClusterSettings;
use crate::operators::{self, OperatorsApi};
use crate::service::{Operators, PublishingPolicy};
use crate::telemetry::logs::{self, LogQueue};

/// The operators' routes over a cluster. Whoever may change its tables needs no token.
pub struct ClusterOperators {
    runtime: Runtime,
    routes: Router,
}

impl ClusterOperators {
    /// The routes over the cluster of `settings`, which is waited for up to `--schema-wait`; `None` if operators ask the
    /// process that has the chosen store. Each action of an operator is logged to `log`. Errors are one line for the
    /// operator.
    pub fn reach(settings: &ClusterSettings, log: &LogQueue) -> Result<Option<Self>, String> {
        let Some(cluster) = operated(settings) else { return Ok(None) };
        let filter = logs::install(&settings.logs, log, None);
        let runtime = Builder::new_multi_thread().enable_all().build().map_err(|error| error.to_string())?;
        let store = runtime.block_on(CqlStore::reach(&cluster)).map_err(|error| error.to_string())?;
        let (store, Deps { clock, random, metrics, .. }) = (Arc::new(store), Deps::system());
        let operators =
            Operators::new(Arc::clone(&store) as _, Arc::clone(&store) as _, Arc::clone(&store) as _, clock, random);
        let routes = operators::routes(OperatorsApi {
            operators,
            records: Arc::clone(&store) as _,
            switch: store,
            policy: PublishingPolicy::default(),
            log: filter,
            metrics,
        });
        Ok(Some(Self { runtime, routes }))
    }

    /// The answer to `method path` with `body`.
    pub fn ask(&self, method: Method, path: &str, body: Bytes) -> Result<(StatusCode, Bytes), String> {
        let request = Request::builder().method(method).uri(path).body(Body::from(body));
        let request = request.map_err(|error| error.to_string())?;
        self.runtime.block_on(async {
            let Ok(response) = self.routes.clone().oneshot(request).await;
            let (head, body) = response.into_parts();
            let body = body.collect().await.map_err(|error| error.to_string())?;
            Ok((head.status, body.to_bytes()))
        })
    }
}

//! The HTTP client for spans: hyper's, which the server uses already.

use std::fmt::Debug;
use std::io;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::{Connect, HttpConnector};
use hyper_util::rt::TokioExecutor;
use opentelemetry_http::{HttpClient, HttpError};
use rustls::crypto::aws_lc_rs;
use tokio::runtime::Handle;
use tokio::time::timeout;

/// How long the collector may take for one message, retries included.
pub(super) const EXPORT_TIMEOUT: Duration = Duration::from_secs(5);

/// Limit on the bytes that are read of a collector's answer. Answers of collectors are short.
const MAX_ANSWER_BYTES: usize = 64 * 1024;

/// A client that runs in `runtime`: the thread that exports spans has no runtime of its own.
#[derive(Clone, Debug)]
pub(super) struct CollectorClient<C> {
    client: Client<C, Full<Bytes>>,
    runtime: Handle,
}

impl CollectorClient<HttpConnector> {
    pub(super) fn http(runtime: Handle) -> Self {
        Self { client: Client::builder(TokioExecutor::new()).build(HttpConnector::new()), runtime }
    }
}

impl CollectorClient<HttpsConnector<HttpConnector>> {
    /// Trusts the certificate authorities of this machine.
    pub(super) fn https(runtime: Handle) -> io::Result<Self> {
        let connector = HttpsConnectorBuilder::new()
            .with_provider_and_native_roots(aws_lc_rs::default_provider())?
            .https_only()
            .enable_http1()
            .build();
        Ok(Self { client: Client::builder(TokioExecutor::new()).build(connector), runtime })
    }
}

#[async_trait]
impl<C> HttpClient for CollectorClient<C>
where
    C: Connect + Clone + Debug + Send + Sync + 'static,
{
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let client = self.client.clone();
        let exchange = async move {
            let (head, body) = client.request(request.map(Full::new)).await?.into_parts();
            let body = Limited::new(body, MAX_ANSWER_BYTES).collect().await?.to_bytes();
            Ok(Response::from_parts(head, body))
        };
        // The timer is made within the task, since a timer needs a runtime.
        self.runtime.spawn(async { timeout(EXPORT_TIMEOUT, exchange).await }).await??
    }
}

//! Asks the operators' API: that of a running process or, with `--store scylla`, one over the cluster itself.

use std::time::Duration;

use bytes::Bytes;
use http::header::AUTHORIZATION;
use http::{HeaderValue, Method, Request, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::client::legacy::Client as HttpClient;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

use super::super::healthcheck::reachable;
use crate::app::operating::ClusterOperators;
use crate::config::{OperatedSettings, OperatorAccess};
use crate::operators::guard::TokenFile;
use crate::operators::types::ErrorBody;
use crate::telemetry::logs::LogQueue;

/// How long one answer may take. The process gives up on its store earlier.
const ANSWER_TIMEOUT: Duration = Duration::from_mins(1);

/// Limit on the bytes of one answer.
const MAX_ANSWER_BYTES: usize = 64 * 1024 * 1024;

/// A client of the operators' API. Errors are one line for the operator.
pub(super) enum Client {
    /// Asks a running process.
    Process(ProcessClient),
    /// Works on the cluster itself.
    Cluster(ClusterOperators),
}

/// A client of one process.
pub(super) struct ProcessClient {
    runtime: Runtime,
    http: HttpClient<HttpConnector, Full<Bytes>>,
    origin: String,
    authorization: HeaderValue,
}

impl Client {
    /// A client of what `settings` name. Work on the cluster itself is logged to `log`.
    pub(super) fn new(settings: &OperatedSettings, log: &LogQueue) -> Result<Self, String> {
        match ClusterOperators::reach(&settings.cluster, log)? {
            None => Self::of_process(&settings.access),
            Some(cluster) => Ok(Self::Cluster(cluster)),
        }
    }

    /// A client of a running process, with the token of `access`.
    pub(super) fn of_process(access: &OperatorAccess) -> Result<Self, String> {
        ProcessClient::new(access).map(Self::Process)
    }

    /// The answer to `GET path`.
    pub(super) fn get(&self, path: &str) -> Result<Bytes, String> {
        self.ask(Method::GET, path, Bytes::new())
    }

    /// The answer to `method path` with `body`.
    pub(super) fn send<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, String> {
        let body = serde_json::to_vec(body).map_err(|error| error.to_string())?;
        parse(&self.ask(method, path, body.into())?)
    }

    fn ask(&self, method: Method, path: &str, body: Bytes) -> Result<Bytes, String> {
        let (status, body) = match self {
            Self::Process(process) => process.ask(method, path, body)?,
            Self::Cluster(cluster) => cluster.ask(method, path, body)?,
        };
        if status.is_success() { Ok(body) } else { Err(refusal(status, &body)) }
    }
}

impl ProcessClient {
    fn new(access: &OperatorAccess) -> Result<Self, String> {
        let token =
            TokenFile::new(access.operators.admin_token_file.clone()).read().map_err(|error| error.to_string())?;
        let token = token.ok_or("give --admin-token-file, with the token of the running process")?;
        let mut authorization = HeaderValue::try_from(format!("Bearer {}", token.as_str()))
            .map_err(|_| "the token of --admin-token-file has characters that no header can have")?;
        authorization.set_sensitive(true);
        let runtime = Builder::new_current_thread().enable_all().build().map_err(|error| error.to_string())?;
        let http = HttpClient::builder(TokioExecutor::new()).build(HttpConnector::new());
        let origin = format!("http://{}", reachable(access.admin.admin_listen));
        Ok(Self { runtime, http, origin, authorization })
    }

    fn ask(&self, method: Method, path: &str, body: Bytes) -> Result<(StatusCode, Bytes), String> {
        let request = Request::builder().method(method).uri(format!("{}{path}", self.origin));
        let request = request.header(AUTHORIZATION, &self.authorization).body(Full::new(body));
        let request = request.map_err(|error| error.to_string())?;
        let exchange = async {
            let unreachable = |error: &dyn std::error::Error| {
                let cause = error.source().map(|cause| format!(": {cause}")).unwrap_or_default();
                format!(
                    "{} does not answer ({error}{cause}): is --admin-listen that of a running process?",
                    self.origin
                )
            };
            let (head, body) = self.http.request(request).await.map_err(|error| unreachable(&error))?.into_parts();
            let body = Limited::new(body, MAX_ANSWER_BYTES).collect().await.map_err(|error| unreachable(&*error))?;
            Ok::<_, String>((head.status, body.to_bytes()))
        };
        self.runtime
            .block_on(async { timeout(ANSWER_TIMEOUT, exchange).await })
            .map_err(|_| format!("{} did not answer in {} seconds", self.origin, ANSWER_TIMEOUT.as_secs()))?
    }
}

/// The value of a JSON answer.
pub(super) fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, String> {
    serde_json::from_slice(body).map_err(|error| {
        format!("the answer is not as expected ({error}): is --admin-listen a Handbill of this version?")
    })
}

fn refusal(status: StatusCode, body: &[u8]) -> String {
    match serde_json::from_slice::<ErrorBody>(body) {
        Ok(error) => error.message,
        Err(_) => format!("the answer is {status}: is --admin-listen the operators' listener of a Handbill?"),
    }
}

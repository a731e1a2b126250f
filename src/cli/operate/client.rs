//! Asks the operators' API: that of a running process or, with `--store scylla`, one over the cluster itself.

use std::time::Duration;

use bytes::Bytes;
use http::header::AUTHORIZATION;
use http::{HeaderValue, Method, Request, StatusCode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::runtime::{Builder, Runtime};

use super::super::healthcheck::reachable;
use crate::app::operating::ClusterOperators;
use crate::config::{OperatedSettings, OperatorAccess};
use crate::operators::guard::TokenFile;
use crate::operators::types::ErrorBody;
use crate::outbound::{Limits, Outbound, OutboundError};
use crate::telemetry::logs::LogQueue;

/// How long one answer may take. The process gives up on its store earlier.
const ANSWER_TIMEOUT: Duration = Duration::from_mins(1);

/// Most bytes of one answer. A batch of records has about 1 MiB, and one of found pages has the hosts of 256 pages.
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
    outbound: Outbound,
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
        let outbound = Outbound::without_tls(Limits { time: ANSWER_TIMEOUT, answer_bytes: MAX_ANSWER_BYTES });
        let origin = format!("http://{}", reachable(access.admin.admin_listen));
        Ok(Self { runtime, outbound, origin, authorization })
    }

    fn ask(&self, method: Method, path: &str, body: Bytes) -> Result<(StatusCode, Bytes), String> {
        let request = Request::builder().method(method).uri(format!("{}{path}", self.origin));
        let request = request.header(AUTHORIZATION, &self.authorization).body(body);
        let request = request.map_err(|error| error.to_string())?;
        let answer = self.runtime.block_on(self.outbound.send(request)).map_err(|error| {
            let advice = match error {
                OutboundError::Silent(_) => "",
                _ => ": is --admin-listen that of a running process?",
            };
            format!("{} {error}{advice}", self.origin)
        })?;
        Ok((answer.status(), answer.into_body()))
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

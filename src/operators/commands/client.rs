//! Asks the operators' API of a running process.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use bytes::Bytes;
use http::header::{AUTHORIZATION, LINK};
use http::{HeaderValue, Method, Request, StatusCode};
use http_body_util::BodyExt;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::config::OperatorAccess;
use crate::operators::api::TokenFile;
use crate::operators::api::types::ErrorBody;
use crate::outbound::{Limits, Outbound, OutboundError};

/// How long one answer may take. The process gives up on its store earlier.
const ANSWER_TIMEOUT: Duration = Duration::from_mins(1);

/// Most bytes of one answer. A batch of records has about 1 MiB, and one of found pages has the hosts of 256 pages.
const MAX_ANSWER_BYTES: usize = 64 * 1024 * 1024;

/// A client of the operators' API of a running process, with the token that the process asks for. Errors are one line for the
/// operator.
pub(super) struct Client {
    outbound: Outbound,
    origin: String,
    authorization: HeaderValue,
}

impl Client {
    pub(super) fn new(access: &OperatorAccess) -> Result<Self, String> {
        let token =
            TokenFile::new(access.operators.admin_token_file.clone()).read().map_err(|error| error.to_string())?;
        let token = token.ok_or("give --admin-token-file, with the token of the running process")?;
        let mut authorization = HeaderValue::try_from(format!("Bearer {}", token.as_str()))
            .map_err(|_| "the token of --admin-token-file has characters that no header can have")?;
        authorization.set_sensitive(true);
        let outbound = Outbound::without_tls(Limits { time: ANSWER_TIMEOUT, answer_bytes: MAX_ANSWER_BYTES });
        let origin = format!("http://{}", reachable(access.admin.admin_listen));
        Ok(Self { outbound, origin, authorization })
    }

    pub(super) async fn get(&self, path: &str) -> Result<Bytes, String> {
        self.ask(Method::GET, path, Bytes::new()).await
    }

    /// The answer to `method path` with `body`.
    pub(super) async fn send<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, String> {
        let body = serde_json::to_vec(body).map_err(|error| error.to_string())?;
        parse(&self.ask(method, path, body.into()).await?)
    }

    /// Gives each piece of the answer to a `GET` of `path` to `take`.
    pub(super) async fn copy(
        &self,
        path: &str,
        mut take: impl FnMut(&[u8]) -> Result<(), String>,
    ) -> Result<(), String> {
        let request = Request::get(format!("{}{path}", self.origin)).header(AUTHORIZATION, &self.authorization);
        let request = request.body(Bytes::new()).map_err(|error| error.to_string())?;
        let failed = |error| format!("{} {error}", self.origin);
        let (head, mut body) = self.outbound.begin(request).await.map_err(failed)?;
        if !head.status.is_success() {
            let body = self.outbound.read(body).await.map_err(failed)?;
            return Err(refusal(head.status, &body));
        }
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| failed(OutboundError::CutShort(error.to_string())))?;
            if let Some(piece) = frame.data_ref() {
                take(piece)?;
            }
        }
        Ok(())
    }

    async fn ask(&self, method: Method, path: &str, body: Bytes) -> Result<Bytes, String> {
        let request = Request::builder().method(method).uri(format!("{}{path}", self.origin));
        let request =
            request.header(AUTHORIZATION, &self.authorization).body(body).map_err(|error| error.to_string())?;
        let answer = self.outbound.send(request).await.map_err(|error| {
            let is_elsewhere = !matches!(error, OutboundError::Silent(_));
            let advice = if is_elsewhere { ": is --admin-listen that of a running process?" } else { "" };
            format!("{} {error}{advice}", self.origin)
        })?;
        // Every answer to clients leads to the API's description, and none of the operators' listener does.
        if answer.headers().contains_key(LINK) {
            return Err(format!(
                "{} is where clients are served: give the operators' listener to --admin-listen",
                self.origin
            ));
        }
        let (status, body) = (answer.status(), answer.into_body());
        if status.is_success() { Ok(body) } else { Err(refusal(status, &body)) }
    }
}

/// The address at which this machine reaches `listener`: one on all addresses is asked on loopback.
pub(super) fn reachable(listener: SocketAddr) -> SocketAddr {
    let loopback = match listener.ip() {
        IpAddr::V4(address) if address.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(address) if address.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        address => address,
    };
    SocketAddr::new(loopback, listener.port())
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

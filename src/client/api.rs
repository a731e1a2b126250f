//! Requests to a server's REST API, with one error for each thing that a user can do about it.

use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, ETAG, IF_MATCH, RETRY_AFTER, USER_AGENT};
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use rustls::crypto::aws_lc_rs;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};

use super::error::ClientError;
use super::reference::PageReference;
use crate::domain::edit_key::EditKey;
use crate::domain::origin::Origin;

/// How long connecting may take: a lost packet is sent again within 3 s.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How long one request may take, from connecting to the end of the answer. It is longer than any request that a server
/// still answers.
const REQUEST_TIMEOUT: Duration = Duration::from_mins(1);

/// Limit on the bytes of an answer. The largest page is about 4 MB of JSON.
const MAX_ANSWER_BYTES: usize = 16 * 1024 * 1024;

/// A client of servers.
pub(super) struct Api {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    /// How long to wait in all for servers' limits.
    wait: Duration,
}

#[derive(Deserialize)]
pub(super) struct CreatedPage {
    pub(super) url: String,
    pub(super) edit_key: String,
    pub(super) created_at: String,
}

pub(super) struct ReadPage {
    pub(super) texts: PageTexts,
    /// The whole answer.
    pub(super) json: Bytes,
    /// The entity tag.
    pub(super) tag: Option<HeaderValue>,
}

#[derive(Deserialize)]
pub(super) struct PageTexts {
    pub(super) content: String,
    pub(super) content_html: String,
}

/// A whole answer.
pub(super) struct Answer {
    pub(super) status: StatusCode,
    headers: HeaderMap,
    pub(super) body: Bytes,
}

impl Api {
    /// A client that trusts the certificate authorities of this machine.
    pub(super) fn new(wait: Duration) -> Result<Self, ClientError> {
        let mut connector = HttpConnector::new();
        connector.enforce_http(false);
        connector.set_connect_timeout(Some(CONNECT_TIMEOUT));
        let connector = HttpsConnectorBuilder::new()
            .with_provider_and_native_roots(aws_lc_rs::default_provider())
            .map_err(|error| ClientError::Failed(format!("the certificates of this machine cannot be read ({error})")))?
            .https_or_http()
            .enable_http1()
            .wrap_connector(connector);
        Ok(Self { client: Client::builder(TokioExecutor::new()).build(connector), wait })
    }

    pub(super) async fn create(&self, server: &Origin, title: &str, content: &str) -> Result<CreatedPage, ClientError> {
        let body = json!({"title": title, "content": content});
        let answer = self.call(Method::POST, server, "/api/pages", HeaderMap::new(), Some(&body)).await?;
        serde_json::from_slice(&answer.body).map_err(|_| not_handbill(server))
    }

    pub(super) async fn read(&self, page: &PageReference) -> Result<ReadPage, ClientError> {
        let answer = self.call(Method::GET, &page.server, &path(page), HeaderMap::new(), None).await?;
        let texts = serde_json::from_slice(&answer.body).map_err(|_| not_handbill(&page.server))?;
        Ok(ReadPage { texts, tag: answer.headers.get(ETAG).cloned(), json: answer.body })
    }

    /// Changes the fields in `change`, if the page still has the entity tag `tag`.
    pub(super) async fn update(
        &self,
        page: &PageReference,
        key: &EditKey,
        change: &Value,
        tag: Option<HeaderValue>,
    ) -> Result<(), ClientError> {
        let mut headers = authorized(key);
        headers.extend(tag.map(|tag| (IF_MATCH, tag)));
        self.call(Method::PATCH, &page.server, &path(page), headers, Some(change)).await.map(drop)
    }

    pub(super) async fn delete(&self, page: &PageReference, key: &EditKey) -> Result<(), ClientError> {
        self.call(Method::DELETE, &page.server, &path(page), authorized(key), None).await.map(drop)
    }

    /// The answer to a request, if it succeeded. At a limit it waits as long as the server says and the user allows.
    async fn call(
        &self,
        method: Method,
        server: &Origin,
        path: &str,
        mut headers: HeaderMap,
        body: Option<&Value>,
    ) -> Result<Answer, ClientError> {
        let give_up_at = Instant::now() + self.wait;
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        loop {
            let body = body.map(|body| Bytes::from(body.to_string()));
            let answer = self.send(method.clone(), server, path, headers.clone(), body).await?;
            if answer.status.is_success() {
                return Ok(answer);
            }
            let after = answer.headers.get(RETRY_AFTER).and_then(|after| after.to_str().ok()?.parse().ok());
            match after.map(Duration::from_secs) {
                Some(after)
                    if answer.status == StatusCode::TOO_MANY_REQUESTS && Instant::now() + after <= give_up_at =>
                {
                    sleep(after).await;
                }
                after => return Err(explain(&answer, server, after)),
            }
        }
    }

    /// The answer to one request, whatever its status.
    pub(super) async fn send(
        &self,
        method: Method,
        server: &Origin,
        path: &str,
        headers: HeaderMap,
        body: Option<Bytes>,
    ) -> Result<Answer, ClientError> {
        let mut request = Request::new(Full::new(body.clone().unwrap_or_default()));
        *request.method_mut() = method;
        *request.uri_mut() = format!("{server}{path}").parse().map_err(|_| not_handbill(server))?;
        *request.headers_mut() = headers;
        if body.is_some() {
            request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        let agent = concat!("handbill/", env!("CARGO_PKG_VERSION"));
        request.headers_mut().insert(USER_AGENT, HeaderValue::from_static(agent));
        let exchange = async {
            let (head, body) =
                self.client.request(request).await.map_err(|error| unreachable(server, &error))?.into_parts();
            let body = Limited::new(body, MAX_ANSWER_BYTES).collect().await.map_err(|_| cut_short(server))?.to_bytes();
            Ok(Answer { status: head.status, headers: head.headers, body })
        };
        timeout(REQUEST_TIMEOUT, exchange).await.unwrap_or_else(|_| {
            Err(ClientError::Unavailable(format!("{server} did not answer within {} s", REQUEST_TIMEOUT.as_secs())))
        })
    }
}

fn path(page: &PageReference) -> String {
    format!("/api/pages/{}", page.slug)
}

fn authorized(key: &EditKey) -> HeaderMap {
    let mut value = HeaderValue::try_from(format!("Bearer {}", key.reveal())).expect("a key is ASCII");
    value.set_sensitive(true);
    HeaderMap::from_iter([(AUTHORIZATION, value)])
}

/// The error that an answer means to the user. The server's own message says what to do.
fn explain(answer: &Answer, server: &Origin, retry_after: Option<Duration>) -> ClientError {
    #[derive(Deserialize)]
    struct ErrorBody {
        message: String,
    }
    let Ok(ErrorBody { message }) = serde_json::from_slice(&answer.body) else { return not_handbill(server) };
    let message = message.replace(char::is_control, " ");
    let later = retry_after.map(|after| format!(" (try again in {})", humantime::format_duration(after)));
    let message = format!("{message}{}", later.unwrap_or_default());
    match answer.status.as_u16() {
        404 | 410 => ClientError::NoPage(message),
        401 => ClientError::Key(message),
        412 => ClientError::Changed(message),
        429 => ClientError::Limited(message),
        500.. => ClientError::Unavailable(message),
        _ => ClientError::Failed(message),
    }
}

pub(super) fn not_handbill(server: &Origin) -> ClientError {
    ClientError::Unavailable(format!("{server} does not answer as a Handbill server does: check --server"))
}

fn unreachable(server: &Origin, error: &hyper_util::client::legacy::Error) -> ClientError {
    let causes = std::iter::successors(std::error::Error::source(error), |cause| cause.source());
    let cause = causes.last().map_or_else(|| error.to_string(), ToString::to_string);
    ClientError::Unavailable(format!("{server} cannot be reached ({cause}): check --server or HANDBILL_SERVER"))
}

fn cut_short(server: &Origin) -> ClientError {
    ClientError::Unavailable(format!(
        "the answer of {server} was cut short: it is unknown whether anything was changed"
    ))
}

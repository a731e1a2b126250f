//! Requests to a server's REST API.

use std::time::{Duration, Instant};
use std::{io::ErrorKind, thread::sleep};

use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, ETAG, IF_MATCH, RETRY_AFTER};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use serde_json::Value;
use ureq::{Agent, Error, SendBody, Timeout};

use crate::page::PageReference;
use crate::terminal::{in_words, one_line};
use crate::{ClientError, Result};
use handbill_pages::values::{edit_key::EditKey, origin::Origin};

/// A server gives up earlier.
pub const REQUEST_TIMEOUT: Duration = Duration::from_mins(1);

/// Bytes. The largest answer has a page of 4 MB of HTML twice as JSON, which is at most 11 MB.
const MAX_ANSWER_BYTES: u64 = 16 * 1024 * 1024;

/// Milliseconds; together longer than a server's restart.
const AGAIN_AFTER: [u64; 6] = [125, 250, 500, 1000, 2000, 4000];

/// Null for an empty body.
pub(crate) type Answer = Response<Value>;

pub(crate) struct Api<'a> {
    pub(crate) agent: &'a Agent,
    /// In all, for servers' limits.
    pub(crate) wait: Duration,
}

impl Api<'_> {
    /// Sends a create with a key. If the answer is lost, it is sent again: the server finds the page. Returns whether
    /// an answer was lost.
    pub(crate) fn create(&self, server: &Origin, body: &Value) -> Result<(Answer, bool)> {
        let mut pauses = AGAIN_AFTER.iter();
        let mut was_lost = false;
        let answer = self.waiting(|| {
            loop {
                let answer = self.send(Method::POST, server, "/api/pages", HeaderMap::new(), Some(body));
                was_lost |= matches!(answer, Err(ClientError::Lost(_)));
                let has_failed = answer.as_ref().map_or(true, |answer| answer.status().is_server_error());
                match pauses.next() {
                    Some(pause) if was_lost && has_failed => sleep(Duration::from_millis(*pause)),
                    _ => return answer,
                }
            }
        });
        match answer {
            Ok(answer) => Ok((answer, was_lost)),
            Err(error) if was_lost => Err(ClientError::Lost(format!(
                "{error}. Publish the same text again: its key is saved, so there will be no second page"
            ))),
            Err(error) => Err(error),
        }
    }

    pub(crate) fn call(
        &self,
        method: &Method,
        page: &PageReference,
        headers: &HeaderMap,
        body: Option<&Value>,
    ) -> Result<Answer> {
        let server = &page.server;
        let path = format!("/api/pages/{}", page.slug);
        let answer = self.waiting(|| self.send(method.clone(), server, &path, headers.clone(), body))?;
        if answer.status().is_success() { Ok(answer) } else { Err(explain(&answer, server)) }
    }

    /// Changes a page if it is still as it was `read`. Returns the page.
    pub(crate) fn change(
        &self,
        page: &PageReference,
        key: &EditKey,
        read: Option<&Answer>,
        fields: &Value,
    ) -> Result<Value> {
        let mut headers = authorized(key);
        headers.extend(read.and_then(|read| read.headers().get(ETAG)).map(|tag| (IF_MATCH, tag.clone())));
        Ok(self.call(&Method::PATCH, page, &headers, Some(fields))?.into_body())
    }

    pub(crate) fn read(&self, page: &PageReference) -> Result<Answer> {
        self.call(&Method::GET, page, &HeaderMap::new(), None)
    }

    /// At a limit, waits as long as the server says and the user allows.
    fn waiting(&self, mut send: impl FnMut() -> Result<Answer>) -> Result<Answer> {
        let began = Instant::now();
        loop {
            let answer = send()?;
            let after = Duration::from_secs(retry_after(&answer).unwrap_or(u64::MAX));
            let is_in_time = began.elapsed().saturating_add(after) <= self.wait;
            if answer.status() != StatusCode::TOO_MANY_REQUESTS || !is_in_time {
                return Ok(answer);
            }
            sleep(after);
        }
    }

    pub(crate) fn send(
        &self,
        method: Method,
        server: &Origin,
        path: &str,
        mut headers: HeaderMap,
        body: Option<&Value>,
    ) -> Result<Answer> {
        let body = body.map(Value::to_string);
        if body.is_some() {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        headers.entry(ACCEPT).or_insert(HeaderValue::from_static("application/json"));
        let request = Request::builder().method(method).uri(format!("{server}{path}"));
        let mut request = request.body(()).map_err(|_| not_handbill(server))?;
        *request.headers_mut() = headers;
        let answer = match &body {
            Some(body) => self.agent.run(request.map(|()| body)),
            None => self.agent.run(request.map(|()| SendBody::none())),
        };
        let read = answer.and_then(|answer| {
            let (head, mut body) = answer.into_parts();
            Ok((head, body.with_config().limit(MAX_ANSWER_BYTES).lossy_utf8(true).read_to_string()?))
        });
        let (head, text) = read.map_err(|error| failed(&error, server))?;
        match serde_json::from_str(&text) {
            Err(_) if head.status.is_success() && !text.is_empty() => Err(not_handbill(server)),
            body => Ok(Response::from_parts(head, body.unwrap_or_default())),
        }
    }
}

fn failed(error: &Error, server: &Origin) -> ClientError {
    use ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    const ENDS: [ErrorKind; 4] = [UnexpectedEof, ConnectionReset, ConnectionAborted, BrokenPipe];
    // Only the end of a connection can come after the request arrived.
    let is_lost = match error {
        Error::Io(error) => ENDS.contains(&error.kind()),
        Error::Timeout(timeout) => !matches!(timeout, Timeout::Resolve | Timeout::Connect),
        error => matches!(error, Error::Protocol(_) | Error::BodyExceedsLimit(_) | Error::LargeResponseHeader(..)),
    };
    let reason = in_words(error).to_lowercase();
    let reason = reason.trim_start_matches("io: ").trim_start_matches("rustls: ");
    if is_lost {
        return ClientError::Lost(format!(
            "{server} gave no whole answer ({reason}): check whether anything was changed"
        ));
    }
    ClientError::Unavailable(format!(
        "cannot reach {server} ({reason}). Is it running? Set another server with --server or HANDBILL_SERVER"
    ))
}

pub(crate) fn retry_after(answer: &Answer) -> Option<u64> {
    answer.headers().get(RETRY_AFTER)?.to_str().ok()?.parse().ok()
}

pub(crate) fn authorized(key: &EditKey) -> HeaderMap {
    let mut value = HeaderValue::try_from(format!("Bearer {}", key.reveal())).expect("a key is ASCII");
    value.set_sensitive(true);
    HeaderMap::from_iter([(AUTHORIZATION, value)])
}

/// The server's message says what to do.
pub(crate) fn explain(answer: &Answer, server: &Origin) -> ClientError {
    let message = match answer.body()["message"].as_str() {
        Some(message) => one_line(message),
        // A proxy may have limits of its own.
        None if answer.status() == StatusCode::TOO_MANY_REQUESTS => format!("{server} has reached a limit."),
        None => return not_handbill(server),
    };
    match answer.status().as_u16() {
        404 | 410 => ClientError::NoPage(message),
        401 => ClientError::Key(message),
        412 => ClientError::Changed(
            "the page was changed meanwhile, and nothing was replaced. Run the command again".to_owned(),
        ),
        429 => ClientError::Limited(format!("{message} With --wait 1h, the command waits for it.")),
        500.. => ClientError::Unavailable(message),
        _ => ClientError::Failed(message),
    }
}

pub(crate) fn not_handbill(server: &Origin) -> ClientError {
    ClientError::Unavailable(format!("{server} does not answer as a Handbill server does: check --server"))
}

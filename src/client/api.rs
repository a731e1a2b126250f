//! Requests to a server's REST API.

use std::io::ErrorKind;
use std::thread::sleep;
use std::time::{Duration, Instant};

use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, ETAG, IF_MATCH, RETRY_AFTER};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use serde_json::Value;
use ureq::{Agent, SendBody, Timeout};

use super::page::PageReference;
use super::{ClientError, Result};
use crate::outbound::agent;
use crate::terminal::{in_words, one_line};
use handbill_pages::values::edit_key::EditKey;
use handbill_pages::values::origin::Origin;

/// A server gives up earlier.
const REQUEST_TIMEOUT: Duration = Duration::from_mins(1);

/// Bytes. The largest answer has a page of 4 MB of HTML twice as JSON, which is at most 11 MB.
const MAX_ANSWER_BYTES: u64 = 16 * 1024 * 1024;

/// Milliseconds; together longer than a server's restart.
const AGAIN_AFTER: [u64; 6] = [125, 250, 500, 1000, 2000, 4000];

pub(super) type Answer = Response<String>;

pub(super) struct Api {
    agent: Agent,
    /// In all, for servers' limits.
    wait: Duration,
}

impl Api {
    pub(super) fn new(wait: Duration) -> Self {
        Self { agent: agent(REQUEST_TIMEOUT), wait }
    }

    /// Sends a create with a key. If the answer is lost, it is sent again: the server finds the page. Returns whether
    /// an answer was lost.
    pub(super) fn create(&self, server: &Origin, body: &Value) -> Result<(Answer, bool)> {
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

    pub(super) fn call(
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
    pub(super) fn change(
        &self,
        page: &PageReference,
        key: &EditKey,
        read: Option<&Answer>,
        fields: &Value,
    ) -> Result<Value> {
        let mut headers = authorized(key);
        headers.extend(read.and_then(|read| read.headers().get(ETAG)).map(|tag| (IF_MATCH, tag.clone())));
        fields_of(&self.call(&Method::PATCH, page, &headers, Some(fields))?, page)
    }

    pub(super) fn read(&self, page: &PageReference) -> Result<Answer> {
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

    pub(super) fn send(
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
            let text = body.with_config().limit(MAX_ANSWER_BYTES).lossy_utf8(true).read_to_string()?;
            Ok(Response::from_parts(head, text))
        });
        read.map_err(|error| failed(&error, server))
    }
}

fn failed(error: &ureq::Error, server: &Origin) -> ClientError {
    use ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    use ureq::Error;
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
        "can't reach {server} ({reason}). Is it running? Set another server with --server or HANDBILL_SERVER"
    ))
}

pub(super) fn fields_of(answer: &Answer, page: &PageReference) -> Result<Value> {
    serde_json::from_str(answer.body()).map_err(|_| not_handbill(&page.server))
}

pub(super) fn retry_after(answer: &Answer) -> Option<u64> {
    answer.headers().get(RETRY_AFTER)?.to_str().ok()?.parse().ok()
}

pub(super) fn authorized(key: &EditKey) -> HeaderMap {
    let mut value = HeaderValue::try_from(format!("Bearer {}", key.reveal())).expect("a key is ASCII");
    value.set_sensitive(true);
    HeaderMap::from_iter([(AUTHORIZATION, value)])
}

/// The server's message says what to do.
pub(super) fn explain(answer: &Answer, server: &Origin) -> ClientError {
    let body: Value = serde_json::from_str(answer.body()).unwrap_or_default();
    let message = match body["message"].as_str() {
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

pub(super) fn not_handbill(server: &Origin) -> ClientError {
    ClientError::Unavailable(format!("{server} does not answer as a Handbill server does: check --server"))
}

#[cfg(test)]
pub(super) mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    pub(in super::super) const ENDLESS: &str =
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n";

    /// Sends `body` until the client hangs up, or once if `is_endless` is false.
    pub(in super::super) fn hostile_server(head: &'static str, body: &'static [u8], is_endless: bool) -> Origin {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        thread::spawn(move || {
            for connection in listener.incoming() {
                let mut connection = connection.unwrap();
                assert_ne!(connection.read(&mut [0; 4096]).unwrap(), 0);
                connection.write_all(head.as_bytes()).unwrap();
                while connection.write_all(body).is_ok() && is_endless {}
            }
        });
        Origin::parse(&format!("http://{address}")).unwrap()
    }

    fn refused(server: &Origin) -> ClientError {
        let page = PageReference::parse("hello-world-7k2m9xqz", server).unwrap();
        Api::new(Duration::ZERO).read(&page).err().unwrap()
    }

    #[test]
    fn a_time_to_wait_beyond_any_clock_is_not_waited_for() {
        let head = "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 18446744073709551615\r\nConnection: close\r\n\r\n";
        let refused = refused(&hostile_server(head, b"{\"message\": \"later\"}", false));
        assert!(matches!(refused, ClientError::Limited(_)), "{refused}");
    }

    #[test]
    fn an_answer_without_an_end_is_given_up_and_the_user_is_told_so() {
        let refused = refused(&hostile_server(ENDLESS, &[b' '; 16384], true));
        assert_eq!(refused.exit_code(), 7);
        let message = refused.to_string();
        assert!(message.contains("is larger than request limit: 16777216"), "{message}");
    }

    #[test]
    fn a_cut_answer_and_a_missing_server_are_told_apart() {
        for head in ["HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n", ""] {
            let refused = refused(&hostile_server(head, b"", false));
            assert!(matches!(refused, ClientError::Lost(_)), "{refused}");
        }
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let nobody = Origin::parse(&format!("http://{}", listener.local_addr().unwrap())).unwrap();
        drop(listener);
        let refused = refused(&nobody);
        assert!(refused.to_string().contains("(connection refused)"), "{refused}");
    }
}

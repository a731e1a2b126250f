//! Requests to a server's REST API, with one error for each thing that a user can do about it.

use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, ETAG, IF_MATCH, RETRY_AFTER, USER_AGENT};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use serde::Deserialize;
use serde_json::Value;
use tokio::time::{Instant, sleep};

use super::error::ClientError;
use super::publishing::Outgoing;
use super::reference::PageReference;
use crate::outbound::{Limits, Outbound, OutboundError};
use handbill_core::domain::edit_key::EditKey;
use handbill_core::domain::origin::Origin;

/// How long one request may take, from connecting to the end of the answer. It is longer than any request that a server
/// still answers.
const REQUEST_TIMEOUT: Duration = Duration::from_mins(1);

/// Most bytes of an answer. The largest answer of a server is a tool's result with a page of 4 MB of HTML: the page is
/// in it as JSON, and once more as JSON within a string, which is at most 11 MB together.
const MAX_ANSWER_BYTES: usize = 16 * 1024 * 1024;

/// Pauses before a create is sent again whose answer was lost: together more than a server takes to start again.
const AGAIN_AFTER: [Duration; 6] = [
    Duration::from_millis(125),
    Duration::from_millis(250),
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(4),
];

const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// The path at which pages are created.
const PAGES: &str = "/api/pages";

pub(super) struct Api {
    outbound: Outbound,
    /// Why no `https` server can be asked, if so.
    without_tls: Option<String>,
    /// How long to wait in all for servers' limits.
    wait: Duration,
}

#[derive(Deserialize)]
pub(super) struct CreatedPage {
    pub(super) url: String,
    pub(super) edit_key: String,
    pub(super) created_at: String,
}

impl CreatedPage {
    /// The page that was created, by an answer that is not an error.
    pub(super) fn in_answer(answer: &Response<Bytes>, server: &Origin) -> Result<Self, ClientError> {
        serde_json::from_slice::<Self>(answer.body()).map_err(|_| not_handbill(server))?.checked(server)
    }

    /// This page, with an address and a key that have the form of one. A server may answer anything.
    pub(super) fn checked(self, server: &Origin) -> Result<Self, ClientError> {
        let page = PageReference::parse(&self.url, server).map_err(|_| not_handbill(server))?;
        EditKey::parse(&self.edit_key).map_err(|_| not_handbill(server))?;
        Ok(Self { url: page.url(), ..self })
    }
}

pub(super) struct ReadPage {
    pub(super) texts: PageTexts,
    /// The whole answer.
    pub(super) json: Bytes,
    pub(super) tag: Option<HeaderValue>,
}

#[derive(Deserialize)]
pub(super) struct PageTexts {
    pub(super) title: Option<String>,
    pub(super) content: String,
    pub(super) content_html: String,
}

impl Api {
    /// A client that trusts the certificate authorities of this machine. Without any, as on a small system, it asks `http` servers.
    pub(super) fn new(wait: Duration) -> Self {
        let limits = Limits { time: REQUEST_TIMEOUT, answer_bytes: MAX_ANSWER_BYTES };
        match Outbound::with_tls(limits) {
            Ok(outbound) => Self { outbound, without_tls: None, wait },
            Err(error) => Self { outbound: Outbound::without_tls(limits), without_tls: Some(error.to_string()), wait },
        }
    }

    pub(super) async fn create(&self, server: &Origin, outgoing: &Outgoing) -> Result<CreatedPage, ClientError> {
        let answer = self.waiting(server, async || self.send_create(server, outgoing).await).await;
        let answer = answer.map_err(|error| match error {
            // Nobody asked for a page. The address is not one for creates.
            ClientError::NoPage(message) => ClientError::Failed(message),
            error => error,
        })?;
        CreatedPage::in_answer(&answer, server)
    }

    /// The answer to a create with a key, whatever its status. If an answer is lost, the create is sent again until there is
    /// one, a few times: the server finds the page that it may have made.
    pub(super) async fn send_create(
        &self,
        server: &Origin,
        outgoing: &Outgoing,
    ) -> Result<Response<Bytes>, ClientError> {
        let headers = HeaderMap::from_iter([(ACCEPT, JSON)]);
        let body = Bytes::from(outgoing.body.to_string());
        let (mut pauses, mut is_lost) = (AGAIN_AFTER.iter(), false);
        loop {
            let answer = self.send(Method::POST, server, PAGES, headers.clone(), Some(body.clone())).await;
            is_lost |= matches!(answer, Err(ClientError::Lost(_)));
            // The server may be starting again.
            let has_failed = answer.as_ref().map_or(true, |answer| answer.status().is_server_error());
            if let Some(pause) = pauses.next().filter(|_| is_lost && has_failed) {
                sleep(*pause).await;
                continue;
            }
            return match answer {
                Ok(answer) => {
                    outgoing.answered(answer.status(), is_lost);
                    Ok(answer)
                }
                Err(error) if is_lost => Err(ClientError::Lost(format!(
                    "{error}. Publish the same text again: its key is saved, so there will be no second page"
                ))),
                Err(error) => Err(error),
            };
        }
    }

    pub(super) async fn read(&self, page: &PageReference) -> Result<ReadPage, ClientError> {
        let answer = self.call(Method::GET, &page.server, &path(page), HeaderMap::new(), None).await?;
        let texts = serde_json::from_slice(answer.body()).map_err(|_| not_handbill(&page.server))?;
        Ok(ReadPage { texts, tag: answer.headers().get(ETAG).cloned(), json: answer.into_body() })
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

    async fn call(
        &self,
        method: Method,
        server: &Origin,
        path: &str,
        mut headers: HeaderMap,
        body: Option<&Value>,
    ) -> Result<Response<Bytes>, ClientError> {
        headers.insert(ACCEPT, JSON);
        let body = body.map(|body| Bytes::from(body.to_string()));
        let send = async || self.send(method.clone(), server, path, headers.clone(), body.clone()).await;
        self.waiting(server, send).await
    }

    /// The answer that `send` gets, if it succeeded. At a limit it waits as long as the server says and the user allows.
    async fn waiting(
        &self,
        server: &Origin,
        send: impl AsyncFn() -> Result<Response<Bytes>, ClientError>,
    ) -> Result<Response<Bytes>, ClientError> {
        let give_up_at = Instant::now() + self.wait;
        loop {
            let answer = send().await?;
            if answer.status().is_success() {
                return Ok(answer);
            }
            let after = answer.headers().get(RETRY_AFTER).and_then(|after| after.to_str().ok()?.parse().ok());
            match after.map(Duration::from_secs) {
                Some(after)
                    if answer.status() == StatusCode::TOO_MANY_REQUESTS
                        && Instant::now().checked_add(after).is_some_and(|again| again <= give_up_at) =>
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
    ) -> Result<Response<Bytes>, ClientError> {
        if let Some(error) = self.without_tls.as_ref().filter(|_| server.as_str().starts_with("https:")) {
            return Err(ClientError::Failed(format!(
                "the certificates of this machine cannot be read, and {server} needs them: install ca-certificates ({error})"
            )));
        }
        let has_body = body.is_some();
        let mut request = Request::new(body.unwrap_or_default());
        *request.method_mut() = method;
        *request.uri_mut() = format!("{server}{path}").parse().map_err(|_| not_handbill(server))?;
        *request.headers_mut() = headers;
        if has_body {
            request.headers_mut().insert(CONTENT_TYPE, JSON);
        }
        let agent = concat!("handbill/", env!("CARGO_PKG_VERSION"));
        request.headers_mut().insert(USER_AGENT, HeaderValue::from_static(agent));
        self.outbound.send(request).await.map_err(|error| {
            let unavailable = |advice| ClientError::Unavailable(format!("{server} {error}: {advice}"));
            match &error {
                OutboundError::Unreachable(reason) => {
                    let reason = reason.split(" (os error").next().unwrap_or_default().to_lowercase();
                    ClientError::Unavailable(format!(
                        "can't reach {server} ({reason}). Is it running? Set another server with --server or HANDBILL_SERVER"
                    ))
                }
                OutboundError::TooLarge(_) => unavailable(
                    "no Handbill server does so, and it is unknown whether anything was changed: check --server",
                ),
                OutboundError::Silent(_) | OutboundError::CutShort(_) => {
                    ClientError::Lost(format!("{server} {error}: it is unknown whether anything was changed"))
                }
            }
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
fn explain(answer: &Response<Bytes>, server: &Origin, retry_after: Option<Duration>) -> ClientError {
    #[derive(Deserialize)]
    struct ErrorBody {
        message: String,
    }
    let message = match serde_json::from_slice(answer.body()) {
        Ok(ErrorBody { message }) => message,
        // A proxy in front of the server may have limits of its own.
        Err(_) if answer.status() == StatusCode::TOO_MANY_REQUESTS => format!("{server} has reached a limit"),
        Err(_) => return not_handbill(server),
    };
    let message = message.replace(char::is_control, " ");
    // The server counts in seconds.
    let in_seconds = message.split_once(" Retry in ").or_else(|| message.split_once("; retry in "));
    let without = in_seconds.map(|(beginning, _)| beginning.to_owned());
    let message = match (without, retry_after) {
        (Some(message), Some(after)) => format!("{message} Try again in {}", humantime::format_duration(after)),
        _ => message,
    };
    match answer.status().as_u16() {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outbound::tests::{ENDLESS, hostile_server};

    fn page() -> PageReference {
        PageReference::parse("hello-world-7k2m9xqz", &Origin::parse("http://localhost").unwrap()).unwrap()
    }

    #[tokio::test]
    async fn a_time_to_wait_beyond_any_clock_is_not_waited_for() {
        let head = "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 18446744073709551615\r\nConnection: close\r\n\r\n";
        let server = Origin::parse(&hostile_server(head, b"{\"message\": \"later\"}", false).await).unwrap();
        let refused = Api::new(Duration::ZERO).read(&PageReference { server, ..page() }).await.err().unwrap();
        assert!(matches!(refused, ClientError::Limited(_)), "{refused}");
    }

    #[test]
    fn a_created_page_has_an_address_and_a_key_or_is_not_believed() {
        let server = Origin::parse("http://localhost").unwrap();
        let key = format!("hbk_{}", "a".repeat(43));
        let created = |url: &str, edit_key: &str| {
            let created = CreatedPage { url: url.to_owned(), edit_key: edit_key.to_owned(), created_at: String::new() };
            created.checked(&server).ok().map(|created| created.url)
        };
        let own = "https://pages.example/hello-world-7k2m9xqz";
        assert_eq!(created(&format!("{own}#x"), &key).as_deref(), Some(own));
        assert_eq!(created(&format!("{own}\n\u{1b}[2J"), &key), None);
        assert_eq!(created(own, "hbk_"), None);
        assert_eq!(created("https://pages.example/", &key), None);
    }

    #[tokio::test]
    async fn an_answer_without_an_end_is_given_up_and_the_user_is_told_so() {
        let server = Origin::parse(&hostile_server(ENDLESS, &[b' '; 16384], true).await).unwrap();
        let page = PageReference::parse("hello-world-7k2m9xqz", &server).unwrap();
        let refused = Api::new(Duration::ZERO).read(&page).await.err().unwrap();
        assert_eq!(refused.exit_code(), 7);
        let message = refused.to_string();
        assert!(message.contains("of more than 16 MiB") && message.contains("check --server"), "{message}");
    }
}

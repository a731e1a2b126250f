//! Reads request bodies within limits of size and time.

use std::io::{self, ErrorKind};
use std::{convert::Infallible, error::Error, time::Duration};

use axum::body::Body as HttpBody;
use axum::extract::{FromRequest, Request};
use http::HeaderMap;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE, EXPECT};
use http_body::Body as _;
use http_body_util::BodyExt;
use tokio::time::{Instant, timeout_at};

use super::MAX_BODY_BYTES;
use super::fields::{FromFields, parse};
use handbill_pages::service::{Body, BodyReadError, PageFields};

/// 128 KB at 88 kbit/s. Shorter than the default of `--drain-timeout`, so that a stalled client cannot fail a stop.
pub(crate) const BODY_TIME: Duration = Duration::from_secs(12);

/// With `Expect: 100-continue`, the body is read only when needed. Any other body is read at once, because its
/// connection could otherwise not be reused.
pub struct RequestBody {
    content: Content,
    media_type: String,
    is_encoded: bool,
}

enum Content {
    Read(Result<Vec<u8>, BodyReadError>),
    /// The client waits for `100 Continue`.
    Expected(HttpBody),
}

impl<S: Sync> FromRequest<S> for RequestBody {
    type Rejection = Infallible;

    async fn from_request(request: Request, _: &S) -> Result<Self, Infallible> {
        let (parts, body) = request.into_parts();
        Ok(Self::of(&parts.headers, body).await)
    }
}

impl RequestBody {
    pub async fn of(headers: &HeaderMap, body: HttpBody) -> Self {
        let mut expected = headers.get_all(EXPECT).iter();
        let content = if expected.any(|value| value.as_bytes().eq_ignore_ascii_case(b"100-continue")) {
            Content::Expected(body)
        } else {
            Content::Read(read_limited(body).await)
        };
        Self { content, media_type: media_type(headers), is_encoded: headers.contains_key(CONTENT_ENCODING) }
    }

    /// Until the client gets `100 Continue`.
    pub fn is_awaited(&self) -> bool {
        matches!(self.content, Content::Expected(_))
    }

    /// In lower case, without parameters; empty if missing.
    pub fn media_type(&self) -> &str {
        &self.media_type
    }

    /// Unencoded, and of a media type that `takes` takes. A body that is too large comes before an error in its declaration. If the
    /// head decides, the body is not requested.
    pub async fn bytes(self, takes: fn(&str) -> bool) -> Result<Vec<u8>, BodyReadError> {
        let declared = match (self.is_encoded, takes(&self.media_type)) {
            (true, _) => Err(BodyReadError::ContentEncoding),
            (false, false) => Err(BodyReadError::ContentType),
            (false, true) => Ok(()),
        };
        let read = match self.content {
            Content::Read(read) => read,
            Content::Expected(body) => {
                let may_be_large = body.size_hint().upper().is_none_or(|bytes| bytes > MAX_BODY_BYTES as u64);
                if !may_be_large {
                    declared?;
                }
                read_limited(body).await
            }
        };
        read.and_then(|bytes| declared.map(|()| bytes))
    }

    /// Too large a body fails first.
    pub async fn json<T: FromFields + Into<PageFields>>(self) -> Body<PageFields> {
        parse::<T>(&self.bytes(is_json).await?).map(Into::into)
    }
}

/// Never grows beyond the declared length.
const FIRST_BUFFER_BYTES: usize = 4 * 1024;

/// A chunk of one byte costs 3 µs, and a body may have 131 072 of them.
const FREE_PIECES: usize = 512;
const PIECE_BYTES: usize = 32;

/// Reads at most [`MAX_BODY_BYTES`] within `BODY_TIME`, and nothing if the declared length is over it.
pub async fn read_limited(mut body: HttpBody) -> Result<Vec<u8>, BodyReadError> {
    let declared = body.size_hint();
    if declared.lower() > MAX_BODY_BYTES as u64 {
        return Err(BodyReadError::TooLarge);
    }
    let most = declared
        .upper()
        .and_then(|bytes| usize::try_from(bytes).ok())
        .map_or(MAX_BODY_BYTES, |upper| upper.min(MAX_BODY_BYTES));
    let deadline = Instant::now() + BODY_TIME;
    let (mut bytes, mut pieces) = (Vec::new(), 0);
    loop {
        let frame = match timeout_at(deadline, body.frame()).await {
            Ok(Some(Ok(frame))) => frame,
            Ok(None) => return Ok(bytes),
            Ok(Some(Err(error))) => return Err(read_error(&error)),
            Err(_) => return Err(BodyReadError::TimedOut),
        };
        let Some(data) = frame.data_ref() else { continue };
        let needed = bytes.len() + data.len();
        if needed > MAX_BODY_BYTES {
            return Err(BodyReadError::TooLarge);
        }
        pieces += 1;
        if pieces > FREE_PIECES + needed / PIECE_BYTES {
            return Err(BodyReadError::InPieces);
        }
        if needed > bytes.capacity() {
            let capacity = needed.next_power_of_two().max(FIRST_BUFFER_BYTES).min(most).max(needed);
            bytes.reserve_exact(capacity - bytes.len());
        }
        bytes.extend_from_slice(data);
    }
}

/// Other layers may wrap the server's error.
fn read_error(error: &axum::Error) -> BodyReadError {
    let causes = std::iter::successors(Some(error as &dyn Error), |&error| error.source());
    match causes.filter_map(|error| error.downcast_ref::<io::Error>()).map(io::Error::kind).next() {
        Some(ErrorKind::TimedOut) => BodyReadError::TimedOut,
        Some(ErrorKind::QuotaExceeded) => BodyReadError::NoRoom,
        _ => BodyReadError::BrokenOff,
    }
}

fn media_type(headers: &HeaderMap) -> String {
    let content_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("");
    content_type.split(';').next().unwrap_or("").trim().to_ascii_lowercase()
}

pub fn is_json(media_type: &str) -> bool {
    media_type == "application/json" || (media_type.starts_with("application/") && media_type.ends_with("+json"))
}

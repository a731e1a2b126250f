//! Requests to the shared caches.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderName, HeaderValue, Method, Request, StatusCode};
use thiserror::Error;
use tokio::task::spawn_blocking;

use crate::config::EdgeSettings;
use crate::outbound::{Limits, Outbound, OutboundError};
use handbill_core::domain::origin::Origin;
use handbill_core::domain::purge_url::PurgeUrl;
use handbill_core::domain::slug::Slug;

/// How long a cache may take for one purge, connecting included.
const ATTEMPT: Duration = Duration::from_secs(1);

/// Limit on the bytes that are read of an answer, so that its connection can be used again.
const MAX_ANSWER_BYTES: usize = 64 * 1024;

/// Why a page was not purged. The messages name no page.
#[derive(Debug, Error)]
pub enum PurgeError {
    #[error("the certificates of this machine cannot be read ({0}): install them, or name them in SSL_CERT_FILE")]
    Certificates(io::Error),
    #[error("{} cannot be used ({reason}): give --purge-token-file a file with the token of the caches", path.display())]
    Token { path: PathBuf, reason: String },
    /// A cache cannot be reached, or did not answer in time.
    #[error("{host} {reason}")]
    Unanswered { host: String, reason: OutboundError },
    #[error("{host} answered {status}")]
    Refused { host: String, status: StatusCode },
}

/// The shared caches, and how they are asked.
pub struct Caches {
    outbound: Outbound,
    urls: Vec<PurgeUrl>,
    token_file: Option<PathBuf>,
    base_url: Origin,
}

impl Caches {
    /// The caches of `settings`, if there are any, for pages at `base_url`.
    pub fn of(settings: &EdgeSettings, base_url: &Origin) -> Result<Option<Self>, PurgeError> {
        let EdgeSettings { purge_url, purge_token_file, .. } = settings;
        let caches = || Self::new(purge_url.clone(), purge_token_file.clone(), base_url.clone());
        (!purge_url.is_empty()).then(caches).transpose()
    }

    /// Caches of the pages at `base_url`. The token of `token_file` must be readable.
    pub fn new(urls: Vec<PurgeUrl>, token_file: Option<PathBuf>, base_url: Origin) -> Result<Self, PurgeError> {
        let limits = Limits { time: ATTEMPT, answer_bytes: MAX_ANSWER_BYTES };
        // A machine without certificates can still purge caches beside it.
        let outbound = if urls.iter().any(PurgeUrl::is_secure) {
            Outbound::with_tls(limits).map_err(PurgeError::Certificates)?
        } else {
            Outbound::without_tls(limits)
        };
        token_file.as_deref().map(credential).transpose()?;
        Ok(Self { outbound, urls, token_file, base_url })
    }

    /// Purges the page `slug` from every cache. All of them are asked; the first failure is returned.
    pub(super) async fn purge(&self, slug: &Slug) -> Result<(), PurgeError> {
        let credential = match self.token_file.clone() {
            Some(file) => Some(read_credential(file).await?),
            None => None,
        };
        let asked = self.urls.iter().map(|url| self.purge_from(url, slug, credential.as_ref()));
        join_all(asked).await.into_iter().collect()
    }

    async fn purge_from(
        &self,
        url: &PurgeUrl,
        slug: &Slug,
        credential: Option<&(HeaderName, HeaderValue)>,
    ) -> Result<(), PurgeError> {
        let unanswered = |reason| PurgeError::Unanswered { host: url.host(), reason };
        let request = self.request(url, slug, credential);
        let request = request.map_err(|error| unanswered(OutboundError::Unreachable(error.to_string())))?;
        let status = self.outbound.status(request).await.map_err(unanswered)?;
        // A cache may answer with the page itself, which is gone after its deletion, or may never have had it.
        let is_absent = url.names_page() && [StatusCode::NOT_FOUND, StatusCode::GONE].contains(&status);
        if status.is_success() || is_absent { Ok(()) } else { Err(PurgeError::Refused { host: url.host(), status }) }
    }

    fn request(
        &self,
        url: &PurgeUrl,
        slug: &Slug,
        credential: Option<&(HeaderName, HeaderValue)>,
    ) -> http::Result<Request<Bytes>> {
        let slug = slug.as_str();
        let mut request = Request::builder().uri(url.for_page(slug, &format!("{}/{slug}", self.base_url)));
        if let Some((name, value)) = credential {
            request = request.header(name, value);
        }
        if url.names_page() {
            request.method(Method::from_bytes(b"PURGE").expect("it is a token")).body(Bytes::new())
        } else {
            let body = format!(r#"{{"tags":["{slug}"]}}"#);
            request.method(Method::POST).header(CONTENT_TYPE, "application/json").body(body.into())
        }
    }
}

/// The header field in `file`, which may be on a slow disk.
async fn read_credential(file: PathBuf) -> Result<(HeaderName, HeaderValue), PurgeError> {
    let path = file.clone();
    let read = spawn_blocking(move || credential(&file)).await;
    read.unwrap_or_else(|error| Err(PurgeError::Token { path, reason: error.to_string() }))
}

/// The header field in the file `path`: a token, or a line `Name: value`.
fn credential(path: &Path) -> Result<(HeaderName, HeaderValue), PurgeError> {
    let unusable = |reason: String| PurgeError::Token { path: path.to_owned(), reason };
    let text = fs::read_to_string(path).map_err(|error| unusable(error.to_string()))?;
    let text = text.trim();
    let named = text.split_once(": ").and_then(|(name, value)| Some((name.parse::<HeaderName>().ok()?, value.trim())));
    let (name, value) = match named {
        Some((name, value)) => (name, HeaderValue::try_from(value)),
        None => (AUTHORIZATION, HeaderValue::try_from(format!("Bearer {text}"))),
    };
    let mut value = value.map_err(|_| unusable("it has characters that no header can have".to_owned()))?;
    if text.is_empty() {
        return Err(unusable("it is empty".to_owned()));
    }
    value.set_sensitive(true);
    Ok((name, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn credential_in(text: &str) -> Option<(String, String)> {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), text).unwrap();
        let (name, value) = credential(file.path()).ok()?;
        assert!(value.is_sensitive());
        Some((name.to_string(), value.to_str().unwrap().to_owned()))
    }

    #[test]
    fn a_file_has_a_token_or_a_whole_header_line() {
        let field = |name: &str, value: &str| Some((name.to_owned(), value.to_owned()));
        assert_eq!(credential_in("secret\n"), field("authorization", "Bearer secret"));
        assert_eq!(credential_in("Fastly-Key: secret:x \n"), field("fastly-key", "secret:x"));
        assert_eq!(credential_in("a:b"), field("authorization", "Bearer a:b"));
        for unusable in ["", " \n", "two\nlines"] {
            assert_eq!(credential_in(unusable), None, "{unusable:?}");
        }
        let missing = credential(Path::new("/no/such/file")).unwrap_err().to_string();
        assert!(missing.contains("/no/such/file") && missing.contains("--purge-token-file"), "{missing}");
    }
}

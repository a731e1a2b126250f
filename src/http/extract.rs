//! Taking a request apart without judging it: every extractor here is infallible, because 404 and 410 come before any
//! complaint about a credential or a body, and only the service knows them.

use std::convert::Infallible;
use std::sync::Arc;

use axum::extract::{FromRequest, FromRequestParts, Path, Request};
use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use serde::de::DeserializeOwned;
use url::form_urlencoded;

use super::Http;
use super::conditional::precondition;
use crate::domain::client::Client;
use crate::domain::edit_key::{EditKey, PREFIX};
use crate::incoming::body::{declared_as_json, parse, read_limited};
use crate::service::{Body, Credential, Precondition};

/// Query parameters that people pass credentials in, besides any value that begins as a key does.
const KEY_PARAMETERS: [&str; 4] = ["edit_key", "access_token", "key", "token"];

/// The client that limits count.
pub(super) struct Caller(pub(super) Client);

impl FromRequestParts<Arc<Http>> for Caller {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, http: &Arc<Http>) -> Result<Self, Infallible> {
        Ok(Self(http.proxies.client(parts)))
    }
}

/// The slug in the path; empty, which is no slug, where it is not UTF-8 or not properly percent-encoded.
pub(super) struct SlugText(pub(super) String);

impl<S: Send + Sync> FromRequestParts<S> for SlugText {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Infallible> {
        let slug = Path::<String>::from_request_parts(parts, state).await;
        Ok(Self(slug.map(|Path(slug)| slug).unwrap_or_default()))
    }
}

/// The key that the request presents.
pub(super) struct Presented(pub(super) Credential);

impl<S: Send + Sync> FromRequestParts<S> for Presented {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        let in_query = parts.uri.query().is_some_and(holds_key);
        Ok(Self(if in_query { Credential::InQuery } else { bearer(&parts.headers) }))
    }
}

/// The precondition in `If-Match`.
pub(super) struct Required(pub(super) Precondition);

impl<S: Send + Sync> FromRequestParts<S> for Required {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Self(precondition(&parts.headers)))
    }
}

/// The body as JSON of the shape `T`, or what is wrong with it.
pub(super) struct JsonBody<T>(pub(super) Body<T>);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for JsonBody<T> {
    type Rejection = Infallible;

    async fn from_request(request: Request, _: &S) -> Result<Self, Infallible> {
        let (parts, body) = request.into_parts();
        // Size is judged before anything else, and the body is read whatever it turns out to be: a connection whose
        // request was left unread cannot be used again.
        let read = read_limited(body).await;
        Ok(Self(read.and_then(|bytes| {
            declared_as_json(&parts.headers)?;
            parse(&bytes, &["title", "content"])
        })))
    }
}

/// Whether a query string holds a key: under any of the names that one is passed by, or anything that begins as one.
pub(super) fn holds_key(query: &str) -> bool {
    form_urlencoded::parse(query.as_bytes()).any(|(name, value)| {
        KEY_PARAMETERS.iter().any(|parameter| name.eq_ignore_ascii_case(parameter))
            || value.starts_with(PREFIX)
            || name.starts_with(PREFIX)
    })
}

/// The key in `Authorization: Bearer`. Two such headers are no key: which of them counts nobody can say.
fn bearer(headers: &HeaderMap) -> Credential {
    let mut lines = headers.get_all(AUTHORIZATION).iter();
    let (first, second) = (lines.next(), lines.next());
    let Some(first) = first else { return Credential::Missing };
    if second.is_some() {
        return Credential::Malformed;
    }
    let Ok(text) = first.to_str() else { return Credential::Malformed };
    match text.split_once(' ') {
        Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") => {
            EditKey::parse(token.trim()).map_or(Credential::Malformed, Credential::Key)
        }
        _ if text.eq_ignore_ascii_case("bearer") => Credential::Malformed,
        _ => Credential::Missing,
    }
}

//! Extractors. None of them fails: 404 and 410 come before any error about a credential or a body, and only the service
//! knows whether a page exists.

use std::convert::Infallible;
use std::sync::Arc;

use axum::extract::{FromRequest, FromRequestParts, Path, Request};
use axum::http::request::Parts;
use serde::de::DeserializeOwned;

use super::etag::precondition;
use super::state::Http;
use crate::http::request::body::{RequestBody, declared_as_json, parse};
use crate::http::request::credential;
use crate::http::types::FieldsBody;
use handbill_core::domain::client::Client;
use handbill_core::service::{Body, BodyReadError, Credential, PageFields, Precondition};

/// The sender of the request, as rate limits count it.
pub(super) struct ClientAddr(pub(super) Client);

impl FromRequestParts<Arc<Http>> for ClientAddr {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, http: &Arc<Http>) -> Result<Self, Infallible> {
        Ok(Self(http.proxies.client(parts)))
    }
}

/// The slug in the path. It is empty, and so no valid slug, if the path is not UTF-8 or not properly percent-encoded.
pub(super) struct SlugParam(pub(super) String);

impl<S: Send + Sync> FromRequestParts<S> for SlugParam {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Infallible> {
        let slug = Path::<String>::from_request_parts(parts, state).await;
        Ok(Self(slug.map(|Path(slug)| slug).unwrap_or_default()))
    }
}

pub(super) struct BearerKey(pub(super) Credential);

impl<S: Send + Sync> FromRequestParts<S> for BearerKey {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        let in_query = parts.uri.query().is_some_and(credential::query_holds_key);
        Ok(Self(if in_query { Credential::InQuery } else { credential::in_headers(&parts.headers) }))
    }
}

/// The precondition in `If-Match` and `If-None-Match`.
pub(super) struct IfMatch(pub(super) Precondition);

impl<S: Send + Sync> FromRequestParts<S> for IfMatch {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Self(precondition(&parts.headers)))
    }
}

pub(super) struct JsonBody {
    body: RequestBody,
    declared: Result<(), BodyReadError>,
}

impl<S: Send + Sync> FromRequest<S> for JsonBody {
    type Rejection = Infallible;

    async fn from_request(request: Request, _: &S) -> Result<Self, Infallible> {
        let (parts, body) = request.into_parts();
        let declared = declared_as_json(&parts.headers);
        Ok(Self { body: RequestBody::of(&parts.headers, body).await, declared })
    }
}

impl JsonBody {
    /// The fields in the body, with those that only this request has, or why it is invalid. A body that is too large fails
    /// before any other check.
    pub(super) async fn read<T: DeserializeOwned>(self) -> Body<(PageFields, T)> {
        let parsed = parse(&self.body.bytes(self.declared).await?);
        parsed.map(|(fields, others): (FieldsBody, T)| (fields.into(), others))
    }
}

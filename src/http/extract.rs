//! What handlers take of a request besides its [body](super::request::body).
//!
//! Nothing here refuses a request: an extractor holds what it found, or why it found nothing, because the service decides
//! the order of checks.

use std::{convert::Infallible, sync::Arc};

use axum::extract::{FromRequest, FromRequestParts, Path, Request};
use http::{HeaderMap, Uri, request::Parts};

use super::{etag::precondition, request::credential, state::AppState};
use handbill_pages::service::{Credential, Precondition};
use handbill_pages::values::client::Client;

/// Empty, and so never valid, if the path is not proper UTF-8: only the service knows whether a page exists.
pub(super) struct SlugParam(pub(super) String);

/// As rate limits count it.
pub(super) struct ClientAddr(pub(super) Client);

/// The edit key in the header, or the fault that it is in the address.
pub(super) struct Presented(pub(super) Credential);

/// `If-Match` and `If-None-Match` of a change.
pub(super) struct Conditions(pub(super) Precondition);

/// Moved out of the request: a copy of the header fields would cost a tenth of a hot read.
pub(super) struct Asked {
    pub(super) uri: Uri,
    pub(super) headers: HeaderMap,
}

impl<S: Send + Sync> FromRequestParts<S> for SlugParam {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Infallible> {
        let slug = Path::<String>::from_request_parts(parts, state).await;
        Ok(Self(slug.map(|Path(slug)| slug).unwrap_or_default()))
    }
}

impl FromRequestParts<Arc<AppState>> for ClientAddr {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<AppState>) -> Result<Self, Infallible> {
        Ok(Self(app.proxies.client(parts)))
    }
}

impl<S: Sync> FromRequestParts<S> for Presented {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Self(credential::in_head(parts)))
    }
}

impl<S: Sync> FromRequestParts<S> for Conditions {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Self(precondition(&parts.headers)))
    }
}

impl<S: Sync> FromRequest<S> for Asked {
    type Rejection = Infallible;

    async fn from_request(request: Request, _: &S) -> Result<Self, Infallible> {
        let (Parts { uri, headers, .. }, _) = request.into_parts();
        Ok(Self { uri, headers })
    }
}

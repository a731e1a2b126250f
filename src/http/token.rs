//! The token endpoint (spec §4.5; contract, decision 14). Its no-store headers and its shape of error are added by
//! [`super::middleware::render_errors`], so that answers that never come this far have them too.

use std::convert::Infallible;
use std::sync::Arc;

use axum::Json;
use axum::extract::{FromRequest, Request, State};
use axum::response::{IntoResponse, Response};
use base64::prelude::{BASE64_STANDARD, Engine};
use http::header::{AUTHORIZATION, CONTENT_ENCODING};
use http::request::Parts;
use http::{HeaderMap, HeaderValue};
use percent_encoding::percent_decode;
use url::form_urlencoded;

use super::Http;
use super::discovery::answers::BadToken;
use super::extract::ClientAddr;
use super::pages::respond_to;
use crate::api::request::body::{Arriving, media_type};
use crate::api::request::credential::query_holds_key;
use crate::api::types::{TokenBody, TokenRequest};
use crate::domain::edit_key::EditKey;
use crate::service::{BodyReadError, Credential, FormError, TokenClient, TokenForm};

/// The fields that mean something; others are ignored, as RFC 6749 §3.2 asks.
const FIELDS: [&str; 4] = ["grant_type", "client_id", "client_secret", "scope"];

/// Get a token
///
/// The OAuth 2.0 client credentials grant, for clients that know no other way. The page's slug is the client's id and its edit key is the secret; both may come in the form or by HTTP Basic. The token is the edit key itself: it does not expire and allows both scopes, whichever are asked for. Every attempt counts towards the limit.
#[utoipa::path(
    post,
    path = "/oauth/token",
    operation_id = "getToken",
    tag = "tokens",
    request_body(
        content = TokenRequest,
        content_type = "application/x-www-form-urlencoded",
        description = "At most 131072 bytes. `client_id` and `client_secret` may be left out where `Authorization: Basic` holds them.",
    ),
    responses(
        (status = 200, description = "The token.", body = TokenBody),
        BadToken,
    ),
    security(()),
)]
pub(super) async fn token(State(http): State<Arc<Http>>, ClientAddr(client): ClientAddr, form: Form) -> Response {
    let attempt = http.service.token(client, form.read()).await;
    respond_to(attempt, &http, |key| Json(TokenBody::new(&key)).into_response())
}

/// The form that the request holds.
pub(super) struct Form {
    head: Parts,
    body: Arriving,
}

impl<S: Send + Sync> FromRequest<S> for Form {
    type Rejection = Infallible;

    async fn from_request(request: Request, _: &S) -> Result<Self, Infallible> {
        let (head, body) = request.into_parts();
        let body = Arriving::of(&head.headers, body).await;
        Ok(Self { head, body })
    }
}

impl Form {
    /// What it holds, or what is wrong with it.
    async fn read(self) -> Result<TokenForm, FormError> {
        parse(&self.head, self.body.bytes(Ok(())).await)
    }
}

fn parse(parts: &Parts, read: Result<Vec<u8>, BodyReadError>) -> Result<TokenForm, FormError> {
    let bytes = read?;
    declared_as_form(&parts.headers)?;
    if parts.uri.query().is_some_and(holds_credential) {
        return Err(FormError::InQuery);
    }
    let [grant_type, id, secret, scope] = fields(&bytes)?;
    // A field without a value counts as left out (RFC 6749 §3.2).
    if grant_type.is_empty() {
        return Err(FormError::NoGrantType);
    }
    Ok(TokenForm { grant_type, client: client(&parts.headers, id, &secret)?, scope })
}

/// Fails unless the body is declared to be a form as it stands.
fn declared_as_form(headers: &HeaderMap) -> Result<(), BodyReadError> {
    if headers.contains_key(CONTENT_ENCODING) {
        return Err(BodyReadError::ContentEncoding);
    }
    let is_form = media_type(headers) == "application/x-www-form-urlencoded";
    if is_form { Ok(()) } else { Err(BodyReadError::ContentType) }
}

fn holds_credential(query: &str) -> bool {
    query_holds_key(query)
        || form_urlencoded::parse(query.as_bytes()).any(|(name, _)| ["client_id", "client_secret"].contains(&&*name))
}

/// The values of [`FIELDS`], each empty where it is not there. No field may be there twice, not even one without a
/// meaning here.
fn fields(bytes: &[u8]) -> Result<[String; 4], FormError> {
    // What separates fields is ASCII, so the whole is UTF-8 exactly if each name and each value is.
    percent_decode(bytes).decode_utf8().map_err(|_| FormError::NotUtf8)?;
    let mut values: [String; 4] = Default::default();
    let mut seen = std::collections::HashSet::new();
    for (name, value) in form_urlencoded::parse(bytes) {
        let place = FIELDS.iter().position(|field| *field == name);
        if let Some(place) = place {
            values[place] = value.into_owned();
        }
        if !seen.insert(name) {
            return Err(FormError::Repeated(place.map(|place| FIELDS[place])));
        }
    }
    Ok(values)
}

/// Who asks, by the form or by HTTP Basic (RFC 6749 §2.3.1); nobody where neither holds an id and a secret.
fn client(headers: &HeaderMap, id: String, secret: &str) -> Result<Option<TokenClient>, FormError> {
    let mut lines = headers.get_all(AUTHORIZATION).iter();
    let Some(line) = lines.next() else { return Ok(presented(id, secret)) };
    if lines.next().is_some() {
        return Err(FormError::Repeated(None));
    }
    // An empty header presents nothing.
    if line.as_bytes().trim_ascii().is_empty() {
        return Ok(presented(id, secret));
    }
    if !secret.is_empty() {
        return Err(FormError::TwoMethods);
    }
    let Some(client) = basic(line) else { return Ok(None) };
    // Some clients name themselves in the form besides. That is no second method as long as it is the same name.
    if id.is_empty() || id == client.id { Ok(Some(client)) } else { Err(FormError::TwoMethods) }
}

/// The id and secret in `Authorization: Basic`, each encoded as in a form before they were joined.
fn basic(line: &HeaderValue) -> Option<TokenClient> {
    let (scheme, encoded) = line.to_str().ok()?.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let joined = BASE64_STANDARD.decode(encoded.trim()).ok()?;
    let colon = joined.iter().position(|&byte| byte == b':')?;
    // A form also writes a space as `+`, and neither is in any slug or key.
    let decoded = |half: &[u8]| percent_decode(half).decode_utf8().ok().map(std::borrow::Cow::into_owned);
    presented(decoded(&joined[..colon])?, &decoded(&joined[colon + 1..])?)
}

fn presented(id: String, secret: &str) -> Option<TokenClient> {
    if id.is_empty() || secret.is_empty() {
        return None;
    }
    Some(TokenClient { id, secret: EditKey::parse(secret).map_or(Credential::Malformed, Credential::Key) })
}

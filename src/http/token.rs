//! The token endpoint (spec §4.5; contract, decision 14). [`super::middleware`] adds `no-store`, also to the layers'
//! responses.

use std::{borrow::Cow, sync::Arc};

use axum::response::{IntoResponse, Response};
use axum::{Json, extract::State};
use base64::prelude::{BASE64_STANDARD, Engine};
use http::{HeaderMap, HeaderValue, Uri, header::AUTHORIZATION};
use percent_encoding::percent_decode;
use url::form_urlencoded;

use super::{answer::with_limit, extract::ClientAddr, state::AppState};
use crate::http::types::{TokenBody, TokenRequest};
use crate::http::{request::body::RequestBody, request::credential::query_gives_key};
use handbill_pages::service::{Credential, FormError, Limited, TokenClient, TokenForm};
use handbill_pages::values::edit_key::EditKey;

/// Others are ignored (RFC 6749 §3.2).
const FIELDS: [&str; 4] = ["grant_type", "client_id", "client_secret", "scope"];

/// Get a token
///
/// The OAuth 2.0 client credentials grant, for clients that only support OAuth. The page's slug is the client id and its edit key is the client secret; both may come in the form or by HTTP Basic. The token is the edit key itself: it does not expire and allows both scopes, whichever are requested. Every attempt counts towards the limit.
#[utoipa::path(
    post,
    path = "/oauth/token",
    operation_id = "getToken",
    tag = "tokens",
    request_body(
        content = TokenRequest,
        content_type = "application/x-www-form-urlencoded",
        description = "`client_id` and `client_secret` may be left out if `Authorization: Basic` has them.",
    ),
    responses(
        (status = 200, description = "The token.", body = TokenBody),
    ),
    security(()),
)]
pub(super) async fn token(
    State(app): State<Arc<AppState>>,
    ClientAddr(client): ClientAddr,
    uri: Uri,
    headers: HeaderMap,
    body: RequestBody,
) -> Response {
    let form = async { parse(&uri, &headers, &body.bytes(is_form).await?) };
    let Limited { outcome, quota } = app.service.token(client, form).await;
    let response = match outcome {
        Ok(key) => Json(TokenBody::new(&key)).into_response(),
        Err(error) => app.failed_token(&error),
    };
    with_limit(quota, response)
}

fn is_form(media_type: &str) -> bool {
    media_type == "application/x-www-form-urlencoded"
}

fn parse(uri: &Uri, headers: &HeaderMap, bytes: &[u8]) -> Result<TokenForm, FormError> {
    if uri.query().is_some_and(holds_credential) {
        return Err(FormError::InQuery);
    }
    let [grant_type, id, secret, scope] = fields(bytes)?;
    // An empty field counts as missing (RFC 6749 §3.2).
    if grant_type.is_empty() {
        return Err(FormError::NoGrantType);
    }
    Ok(TokenForm { grant_type, client: client(headers, id, &secret)?, scope })
}

fn holds_credential(query: &str) -> bool {
    query_gives_key(query)
        || form_urlencoded::parse(query.as_bytes()).any(|(name, _)| ["client_id", "client_secret"].contains(&&*name))
}

/// Empty if missing. A repeated field is an error, even an unknown one.
fn fields(bytes: &[u8]) -> Result<[String; 4], FormError> {
    // Separators are ASCII, so all is UTF-8 if the whole is.
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

/// From the form or HTTP Basic (RFC 6749 §2.3.1); `None` unless one has both id and secret.
fn client(headers: &HeaderMap, id: String, secret: &str) -> Result<Option<TokenClient>, FormError> {
    let mut lines = headers.get_all(AUTHORIZATION).iter();
    let Some(line) = lines.next() else { return Ok(credentials(id, secret)) };
    if lines.next().is_some() {
        return Err(FormError::Repeated(None));
    }
    if line.as_bytes().trim_ascii().is_empty() {
        return Ok(credentials(id, secret));
    }
    if !secret.is_empty() {
        return Err(FormError::TwoMethods);
    }
    let Some(client) = basic(line) else { return Ok(None) };
    // Some clients repeat `client_id` in the form, which is not a second method.
    if id.is_empty() || id == client.id { Ok(Some(client)) } else { Err(FormError::TwoMethods) }
}

/// The client form-encodes both halves before it joins them.
fn basic(line: &HeaderValue) -> Option<TokenClient> {
    let (scheme, encoded) = line.to_str().ok()?.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let joined = BASE64_STANDARD.decode(encoded.trim()).ok()?;
    let colon = joined.iter().position(|&byte| byte == b':')?;
    // Form encoding writes a space as `+`, but no slug or key has either.
    let [id, secret] =
        [&joined[..colon], &joined[colon + 1..]].map(|half| percent_decode(half).decode_utf8().map(Cow::into_owned));
    credentials(id.ok()?, &secret.ok()?)
}

fn credentials(id: String, secret: &str) -> Option<TokenClient> {
    if id.is_empty() || secret.is_empty() {
        return None;
    }
    Some(TokenClient { id, secret: EditKey::parse(secret).map_or(Credential::Malformed, Credential::Key) })
}

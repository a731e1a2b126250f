//! Errors of the token endpoint. Messages are also the `error_description`: printable ASCII without quotation mark and
//! backslash (RFC 6749 §5.2).

use super::{ApiError, Code};
use crate::http::metadata;
use crate::http::request::MAX_BODY_BYTES;
use handbill_pages::service::oauth;
use handbill_pages::service::{BodyError, BodyReadError, FormError, TokenError};

impl From<&TokenError> for ApiError {
    fn from(error: &TokenError) -> Self {
        match error {
            TokenError::Form(error) => error.into(),
            TokenError::UnsupportedGrant => Self::new(
                Code::UnsupportedGrantType,
                format!("The field `grant_type` names another grant. Send `grant_type={}`.", oauth::GRANT_TYPE),
            ),
            TokenError::NoClient => Self::new(
                Code::InvalidClient,
                format!(
                    "The client credentials are missing. Send the page's slug as `client_id` and its edit key as `client_secret`, in the form or by HTTP Basic; `{}` describes the endpoint.",
                    metadata::path::AUTHORIZATION_SERVER,
                ),
            ),
            TokenError::WrongClient => Self::new(
                Code::InvalidClient,
                format!(
                    "No page has these client credentials. Check that `client_id` is the slug of a page that exists and `client_secret` its own edit key; a lost key cannot be recovered. `{}` describes the endpoint.",
                    metadata::path::AUTHORIZATION_SERVER,
                ),
            ),
            TokenError::Scope => Self::new(
                Code::InvalidScope,
                format!(
                    "The field `scope` contains a scope other than `{}`. Leave it out, or send only these scopes.",
                    oauth::scope()
                ),
            ),
        }
    }
}

impl From<&FormError> for ApiError {
    fn from(error: &FormError) -> Self {
        let message = match error {
            FormError::Read(BodyReadError::TooLarge) => {
                return Self::new(
                    Code::BodyTooLarge,
                    format!(
                        "The request body may have at most {MAX_BODY_BYTES} bytes. Send `grant_type`, `client_id` and `client_secret` only."
                    ),
                );
            }
            FormError::Read(BodyReadError::BrokenOff) => {
                "The request body ended too early, or its chunks are malformed. Send the request again."
            }
            FormError::Read(BodyReadError::ContentType) => {
                "The body is not declared as a form, so it was not read. Send a form, with the header `Content-Type: application/x-www-form-urlencoded`."
            }
            FormError::Read(BodyReadError::ContentEncoding) => {
                "The header `Content-Encoding` is present, and no encoding is understood. Send the body unencoded, without that header."
            }
            FormError::Read(error) => return Self::from(&BodyError::Read(*error)),
            FormError::NotUtf8 => {
                "The form is not in UTF-8. Encode names and values in UTF-8, then percent-encode them."
            }
            FormError::InQuery => {
                "A credential is in the address, and addresses end up in logs and histories. Send `client_id` and `client_secret` in the form or by HTTP Basic only."
            }
            FormError::Repeated(Some(field)) => {
                return Self::new(Code::InvalidRequest, format!("The field `{field}` is there twice. Send it once."));
            }
            FormError::Repeated(None) => "A field or the header `Authorization` is there twice. Send each once.",
            FormError::TwoMethods => {
                "Client credentials are presented in two ways. Send them either as the fields `client_id` and `client_secret` or in the header `Authorization`, not both."
            }
            FormError::NoGrantType => {
                return Self::new(
                    Code::InvalidRequest,
                    format!("The field `grant_type` is missing. Send `grant_type={}`.", oauth::GRANT_TYPE),
                );
            }
        };
        Self::new(Code::InvalidRequest, message)
    }
}

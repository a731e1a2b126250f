//! Every error that a client can receive, from REST and MCP alike.

mod code;
mod messages;

use http::Method;

pub use self::code::Code;
pub use self::messages::{Interface, quota_in_words};
use crate::http::metadata;
use crate::http::request::{MAX_BODY_BYTES, MAX_HEAD_BYTES};
use handbill_pages::service::{BodyError, BodyReadError, FormError, ServiceError, TokenError, oauth};
use handbill_pages::values::edit_key::{PREFIX, SECRET_CHARS};
use handbill_pages::values::origin::Origin;

/// An estimate: a database node's outage is shorter, and clients that wait this long add little load.
const RETRY_UNAVAILABLE_SECONDS: u64 = 5;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiError {
    pub code: Code,
    /// Also says how to solve the problem.
    pub message: String,
    /// Whole seconds after which a retry makes sense.
    pub retry_after: Option<u64>,
    /// For the log, where the code does not say what refused the request.
    pub refused_by: Option<&'static str>,
}

impl ApiError {
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), retry_after: None, refused_by: None }
    }

    fn after(code: Code, seconds: u64, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), retry_after: Some(seconds), refused_by: None }
    }

    fn by(self, what: &'static str) -> Self {
        Self { refused_by: Some(what), ..self }
    }

    /// Appends the advice to retry to `message`.
    fn unavailable(part: &'static str, message: &str) -> Self {
        let seconds = RETRY_UNAVAILABLE_SECONDS;
        Self::after(Code::Unavailable, seconds, format!("{message} retry in {seconds} seconds.")).by(part)
    }

    pub fn no_route() -> Self {
        Self::new(
            Code::NotFound,
            format!(
                "Nothing is at this address. Publish a page with `POST /api/pages`; `{}` explains how, and `{}` describes every operation.",
                metadata::path::LLMS,
                metadata::path::OPENAPI,
            ),
        )
    }

    pub fn method_not_allowed(method: &Method, base_url: &Origin) -> Self {
        let message = if method == Method::PUT {
            // `curl -T` sends it.
            format!("Nothing is uploaded with PUT. Publish a file with `curl -F content=@note.md {base_url}/`.")
        } else {
            format!(
                "This method is not allowed here. Use one that the header `Allow` names; `{}` describes every operation.",
                metadata::path::LLMS
            )
        };
        Self::new(Code::MethodNotAllowed, message)
    }

    /// At the address that people read.
    pub fn not_at_the_page() -> Self {
        Self::new(
            Code::MethodNotAllowed,
            "Method not allowed here. A page is read at its address, and changed and deleted at `/api/pages/<slug>`.",
        )
    }

    /// At the address that programs use.
    pub fn not_on_a_page() -> Self {
        Self::new(
            Code::MethodNotAllowed,
            "Method not allowed here. Use GET to read this page, PATCH to change it and DELETE to delete it. A new page is published with `POST /api/pages`.",
        )
    }

    pub fn no_host() -> Self {
        Self::new(Code::InvalidRequest, "The header `Host` is missing. Send the host that the address names.")
    }

    pub fn headers_too_large() -> Self {
        Self::new(
            Code::HeadersTooLarge,
            format!(
                "The address and headers of a request may have at most {MAX_HEAD_BYTES} bytes. Send fewer or shorter ones."
            ),
        )
    }

    /// A key in the query string, at the MCP server.
    pub fn key_in_address() -> Self {
        Self::new(
            Code::InvalidRequest,
            "The address contains a key, and addresses end up in logs and histories. Nothing was done. Treat the key as published and delete its page. Send keys as the argument `edit_key` only.",
        )
    }

    pub fn cross_origin() -> Self {
        Self::new(
            Code::CrossOrigin,
            "A page of another site sent this form, so nothing was published. Use the form on this site's home page; scripts of other sites send JSON to `POST /api/pages`.",
        )
    }

    pub fn no_room() -> Self {
        Self::unavailable("memory", "Too much data is being sent at the moment. Nothing was changed;")
    }

    pub fn too_many_calls() -> Self {
        Self::unavailable("tools", "Too many tools are being called at the moment. Nothing was changed;")
    }

    /// The request may have changed something.
    pub fn no_room_to_answer() -> Self {
        Self::unavailable(
            "memory",
            "Too much data is being sent at the moment, so the response was dropped. A change may have been made: read the page, or",
        )
    }

    pub fn internal() -> Self {
        Self::new(
            Code::Internal,
            "Something went wrong on our side. A change may or may not have been made: read the page before you try again.",
        )
    }
}

/// Logs internal failures. The store's failures are logged where its calls are recorded.
pub fn log(error: &ServiceError) {
    if let ServiceError::DeadlinePassed | ServiceError::NoFreeSlug = error {
        tracing::error!(error = %error, "an operation failed");
    }
}

impl From<&ServiceError> for ApiError {
    fn from(error: &ServiceError) -> Self {
        Self::of(error, Interface::Api)
    }
}

/// Messages of the token endpoint are also the `error_description`: printable ASCII without quotation mark and backslash
/// (RFC 6749 §5.2).
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
                    "No page has these client credentials. Check that `client_id` is the slug of a page that exists, which is the last part of its URL, and `client_secret` its own edit key, which is `{PREFIX}` and {SECRET_CHARS} characters, and in an edit link the part after `#`. A lost key cannot be recovered. `{}` describes the endpoint.",
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
            FormError::Read(BodyReadError::ContentType) => {
                "The body is not declared as a form, so it was not read. Send a form, with the header `Content-Type: application/x-www-form-urlencoded`."
            }
            FormError::Read(error) => {
                let shared = Self::of_body(&BodyError::Read(*error), Interface::Api);
                let code = if shared.code == Code::InvalidBody { Code::InvalidRequest } else { shared.code };
                return Self { code, ..shared };
            }
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

#[cfg(test)]
mod tests {
    use handbill_pages::ports::page_store::StoreError;

    use super::*;

    #[test]
    fn an_unavailable_service_says_in_the_log_what_refused() {
        let by = |error: ServiceError| ApiError::from(&error).refused_by;
        let failed = || std::io::Error::other("it is down").into();
        assert_eq!(by(ServiceError::CreatesPaused), Some("pause"));
        assert_eq!(by(ServiceError::Store(StoreError::Unavailable(failed()))), Some("store"));
        assert_eq!(by(ServiceError::Overloaded), Some("memory"));
        assert_eq!(by(ServiceError::NotFound), None, "its code says it");
    }
}

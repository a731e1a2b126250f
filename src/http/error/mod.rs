//! Every error that a client can receive, from REST and MCP alike.

mod code;
mod messages;

use http::Method;

pub use self::code::Code;
pub use self::messages::{Interface, quota_in_words};
use crate::http::{metadata, request::MAX_HEAD_BYTES};
use crate::telemetry::logs::OF_REQUESTS;
use handbill_pages::service::ServiceError;
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
        tracing::error!(target: OF_REQUESTS, error = %error, "an operation failed");
    }
}

#[cfg(test)]
mod tests {
    use handbill_pages::ports::page_store::{Cause, StoreError};

    use super::*;

    #[test]
    fn an_unavailable_service_says_in_the_log_what_refused() {
        fn by(error: &ServiceError) -> Option<&'static str> {
            ApiError::of(error, Interface::Api).refused_by
        }

        fn failed() -> Cause {
            std::io::Error::other("it is down").into()
        }

        assert_eq!(by(&ServiceError::CreatesPaused), Some("pause"));
        assert_eq!(by(&ServiceError::Store(StoreError::Unavailable(failed()))), Some("store"));
        assert_eq!(by(&ServiceError::Overloaded), Some("memory"));
        assert_eq!(by(&ServiceError::NotFound), None, "its code says it");
    }
}

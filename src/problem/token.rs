//! What the token endpoint answers. Its texts are also `error_description`s, so they have only the characters that RFC
//! 6749 §5.2 allows: no quotation mark, no backslash, nothing beyond ASCII.

use super::{Code, MAX_BODY_BYTES, Problem};
use crate::about;
use crate::service::{BodyFault, FormFault, TokenFault};

impl From<&TokenFault> for Problem {
    fn from(fault: &TokenFault) -> Self {
        match fault {
            TokenFault::Form(fault) => fault.into(),
            TokenFault::UnsupportedGrant => Self::new(
                Code::UnsupportedGrantType,
                format!("The field `grant_type` names another grant. Send `grant_type={}`.", about::GRANT_TYPE),
            ),
            TokenFault::NoClient => Self::new(
                Code::InvalidClient,
                format!(
                    "The client credentials are missing. Send the page's slug as `client_id` and its edit key as `client_secret`, in the form or by HTTP Basic; `{}` describes it.",
                    about::path::AUTHORIZATION_SERVER,
                ),
            ),
            TokenFault::WrongClient => Self::new(
                Code::InvalidClient,
                format!(
                    "No page has these client credentials. Check that `client_id` is the slug of a page that exists and `client_secret` its own edit key; a lost key cannot be recovered. `{}` describes it.",
                    about::path::AUTHORIZATION_SERVER,
                ),
            ),
            TokenFault::Scope => Self::new(
                Code::InvalidScope,
                format!("The field `scope` goes beyond `{}`. Leave it out, or send no other scopes.", about::scope()),
            ),
        }
    }
}

impl From<&FormFault> for Problem {
    fn from(fault: &FormFault) -> Self {
        let message = match fault {
            FormFault::TooLarge => {
                return Self::new(
                    Code::BodyTooLarge,
                    format!(
                        "The request body may have at most {MAX_BODY_BYTES} bytes. Send `grant_type`, `client_id` and `client_secret` only."
                    ),
                );
            }
            FormFault::TimedOut => return Self::from(&BodyFault::TimedOut),
            FormFault::NoRoom => return Self::from(&BodyFault::NoRoom),
            FormFault::BrokenOff => "The body of the request broke off before its end. Send the request again.",
            FormFault::ContentType => {
                "The body is not declared as a form, so it was not read. Send a form, with the header `Content-Type: application/x-www-form-urlencoded`."
            }
            FormFault::ContentEncoding => {
                "The header `Content-Encoding` says that the body is encoded, and no encoding is understood. Send the body as it is, without that header."
            }
            FormFault::NotUtf8 => {
                "The form is not in UTF-8. Encode names and values in UTF-8, then as percent escapes."
            }
            FormFault::InQuery => {
                "A credential is in the address, where logs and histories keep it. Send `client_id` and `client_secret` in the form or by HTTP Basic only."
            }
            FormFault::Repeated(Some(field)) => {
                return Self::new(Code::InvalidRequest, format!("The field `{field}` is there twice. Send it once."));
            }
            FormFault::Repeated(None) => "A field is there twice, or the header `Authorization`. Send each once.",
            FormFault::TwoMethods => {
                "Client credentials are presented in two ways. Send them either as the fields `client_id` and `client_secret` or in the header `Authorization`, not both."
            }
            FormFault::NoGrantType => "The field `grant_type` is missing. Send `grant_type=client_credentials`.",
        };
        Self::new(Code::InvalidRequest, message)
    }
}

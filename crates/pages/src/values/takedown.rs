//! Why an operator took a page down or hid it, and who did.

use serde::{Deserialize, Deserializer, Serialize, de::Error as _};
use strum::{Display, EnumString, IntoStaticStr, VariantArray};
use thiserror::Error;

use super::{details::UnknownMembers, plain_text::shows_nothing};

pub const MAX_BY_CHARS: usize = 100;

#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Display, EnumString, IntoStaticStr, VariantArray,
)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case", parse_err_ty = TakedownError, parse_err_fn = unknown_reason)]
pub enum TakedownReason {
    Spam,
    /// Fraud or impersonation.
    Phishing,
    Malware,
    ChildAbuse,
    Terrorism,
    /// Threats, harassment or incitement to hatred.
    Harassment,
    /// Not published by its subject.
    PersonalData,
    /// Infringement of copyright or a similar right.
    Copyright,
    LegalOrder,
    /// Illegal for another reason.
    Illegal,
    /// Against the service's terms for another reason.
    Terms,
    /// Without the person's consent, also if a machine made it (USA: the TAKE IT DOWN Act).
    IntimateImagery,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Takedown {
    pub reason: TakedownReason,
    #[serde(deserialize_with = "deserialized_name")]
    pub by: String,
    #[serde(flatten)]
    pub unknown: UnknownMembers,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum TakedownError {
    #[error(
        "the reason is one of spam, phishing, malware, child-abuse, terrorism, harassment, personal-data, copyright, legal-order, illegal, terms, intimate-imagery"
    )]
    Reason,
    #[error("say who does this")]
    NoName,
    #[error("the name of who does this has more than {MAX_BY_CHARS} characters")]
    LongName,
    #[error("the name of who does this has control characters")]
    ControlCharacters,
}

impl TakedownReason {
    pub fn code(self) -> &'static str {
        self.into()
    }
}

fn unknown_reason(_: &str) -> TakedownError {
    TakedownError::Reason
}

impl Takedown {
    pub fn new(reason: TakedownReason, by: &str) -> Result<Self, TakedownError> {
        Ok(Self { reason, by: operator_name(by)?, unknown: UnknownMembers::new() })
    }
}

pub fn operator_name(name: &str) -> Result<String, TakedownError> {
    let name = name.trim();
    if shows_nothing(name) {
        return Err(TakedownError::NoName);
    }
    if name.chars().any(char::is_control) {
        return Err(TakedownError::ControlCharacters);
    }
    if name.chars().count() > MAX_BY_CHARS {
        return Err(TakedownError::LongName);
    }
    Ok(name.to_owned())
}

fn deserialized_name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    operator_name(&String::deserialize(deserializer)?).map_err(D::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_has_one_code_everywhere() {
        for &reason in TakedownReason::VARIANTS {
            assert_eq!(reason.code().parse(), Ok(reason));
            assert_eq!(serde_json::to_value(reason).unwrap(), reason.code());
            assert!(TakedownError::Reason.to_string().contains(reason.code()));
        }
        for unknown in ["", "Spam", "spam ", "other"] {
            assert_eq!(unknown.parse::<TakedownReason>(), Err(TakedownError::Reason), "{unknown:?}");
        }
    }

    #[test]
    fn who_takes_a_page_down_is_named_in_one_short_line() {
        fn by(by: &str) -> Result<String, TakedownError> {
            Takedown::new(TakedownReason::Spam, by).map(|takedown| takedown.by)
        }

        assert_eq!(by("  abuse desk, ticket 7 "), Ok("abuse desk, ticket 7".to_owned()));
        assert_eq!(by(&"ü".repeat(MAX_BY_CHARS)), Ok("ü".repeat(MAX_BY_CHARS)));
        assert_eq!(by(&"ü".repeat(MAX_BY_CHARS + 1)), Err(TakedownError::LongName));
        for nobody in ["", " \t", "\u{200b}", "\u{2800}"] {
            assert_eq!(by(nobody), Err(TakedownError::NoName), "{nobody:?}");
        }
        for forged in ["a\nb", "a\u{1b}[2J", "a\u{0}"] {
            assert_eq!(by(forged), Err(TakedownError::ControlCharacters), "{forged:?}");
        }
    }
}

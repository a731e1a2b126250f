//! Labels of the instruments, from closed sets only: never a path, slug, address or key.

use std::borrow::Cow;

use prometheus_client::encoding::{EncodeLabelSet, LabelSetEncoder};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RequestLabels {
    pub http_request_method: &'static str,
    /// Empty if no route matches.
    pub http_route: String,
    pub http_response_status_code: Option<u16>,
    /// The status from 500 on, or `abandoned` without an answer.
    pub error_type: Option<Cow<'static, str>>,
}

impl EncodeLabelSet for RequestLabels {
    fn encode(&self, encoder: &mut LabelSetEncoder) -> Result<(), std::fmt::Error> {
        [("http_request_method", self.http_request_method)].encode(encoder)?;
        // For Prometheus, an empty label is absent.
        if !self.http_route.is_empty() {
            [("http_route", self.http_route.as_str())].encode(encoder)?;
        }
        if let Some(status) = self.http_response_status_code {
            [("http_response_status_code", status)].encode(encoder)?;
        }
        if let Some(error) = self.error_type.as_deref() {
            [("error_type", error)].encode(encoder)?;
        }
        // OpenTelemetry requires the scheme.
        [("url_scheme", "http")].encode(encoder)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct ToolLabels {
    /// `_OTHER` for an unknown name.
    pub tool: &'static str,
    /// Or the error's code.
    pub outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct RefusalLabels {
    /// `content` for a text on the blocklist, `blocklist` if the list cannot be read, `paused` or `budget` for all
    /// creates.
    pub reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct OperatorLabels {
    pub action: &'static str,
    /// For a takedown its result.
    pub outcome: &'static str,
}

//! The labels of the instruments. Their values come from closed sets only: no path, slug, address or key is ever a label.
//! Those of the service's calls are in `handbill_pages::service`.

use std::borrow::Cow;

use prometheus_client::encoding::{EncodeLabelSet, LabelSetEncoder};

/// Labels of a request. No label holds text that a client chose.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RequestLabels {
    pub http_request_method: &'static str,
    /// The route's template, or empty if no route matches.
    pub http_route: String,
    /// The status of the answer, if there was one.
    pub http_response_status_code: Option<u16>,
    /// Why the request failed, if it did: the status from 500 on, or `abandoned` if there was no answer.
    pub error_type: Option<Cow<'static, str>>,
}

impl EncodeLabelSet for RequestLabels {
    fn encode(&self, encoder: &mut LabelSetEncoder) -> Result<(), std::fmt::Error> {
        [("http_request_method", self.http_request_method)].encode(encoder)?;
        // In Prometheus an empty label and an absent one are the same.
        if !self.http_route.is_empty() {
            [("http_route", self.http_route.as_str())].encode(encoder)?;
        }
        if let Some(status) = self.http_response_status_code {
            [("http_response_status_code", status)].encode(encoder)?;
        }
        if let Some(error) = self.error_type.as_deref() {
            [("error_type", error)].encode(encoder)?;
        }
        // The scheme of the listener, which OpenTelemetry requires.
        [("url_scheme", "http")].encode(encoder)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct ToolLabels {
    /// The tool, or `_OTHER` if no tool has that name.
    pub tool: &'static str,
    /// `ok`, or the error's code.
    pub outcome: &'static str,
}

/// Label of a text that was not published.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct RefusalLabels {
    /// `content` if the text or its links are on the blocklist, `blocklist` if that could not be read, `paused` or `budget` if
    /// nothing may be created.
    pub reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct OperatorLabels {
    pub action: &'static str,
    /// `done` or `failed`; for a takedown its result.
    pub outcome: &'static str,
}

//! Labels of the instruments, from closed sets only: never a path, slug, address or key.

use std::borrow::Cow;

use prometheus_client::encoding::{EncodeLabelSet, LabelSetEncoder};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RequestLabels {
    pub http_request_method: &'static str,
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
        [("url_scheme", "http")].encode(encoder)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct ToolLabels {
    pub tool: &'static str,
    pub outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct RefusalLabels {
    pub reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct OperatorLabels {
    pub action: &'static str,
    pub outcome: &'static str,
}

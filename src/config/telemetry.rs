//! Settings of traces.

use clap::Args;
use url::Url;

use crate::telemetry::export::ExportTo;

/// Settings of traces.
#[derive(Args, Debug)]
pub struct TelemetrySettings {
    /// Collector that traces are sent to, as OTLP over HTTP, for example `http://collector:4318` [default: none, and no traces]
    #[arg(long, env = "HANDBILL_OTLP_ENDPOINT", value_name = "URL", value_parser = endpoint)]
    pub otlp_endpoint: Option<Url>,
    /// Share of the traces that begin here which is sent, from 0 to 1; 0 sends none. One that a trusted proxy began is sent if its part is
    #[arg(long, env = "HANDBILL_OTLP_SAMPLING", value_name = "SHARE", default_value_t = 1.0, value_parser = share)]
    pub otlp_sampling: f64,
}

impl TelemetrySettings {
    /// Where spans go, if anywhere.
    pub fn export(&self) -> Option<ExportTo> {
        Some(ExportTo { endpoint: self.otlp_endpoint.clone()?, sampling: self.otlp_sampling })
    }
}

/// An address that a path can be added to. A login in it would be shown wherever the address is.
fn endpoint(text: &str) -> Result<Url, &'static str> {
    let fault = "it is not an address such as http://collector:4318, without login, query and fragment";
    let url = Url::parse(text).map_err(|_| fault)?;
    let is_bare =
        url.username().is_empty() && url.password().is_none() && url.query().is_none() && url.fragment().is_none();
    if matches!(url.scheme(), "http" | "https") && url.has_host() && is_bare { Ok(url) } else { Err(fault) }
}

fn share(text: &str) -> Result<f64, &'static str> {
    let share: f64 = text.parse().map_err(|_| "it is not a number")?;
    if (0.0..=1.0).contains(&share) { Ok(share) } else { Err("it is not between 0 and 1") }
}

//! Settings of logs and traces.

use clap::Args;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::ParseError;
use url::Url;

/// How logs are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// For machines: one JSON object a line.
    Json,
}

/// Settings of logs.
#[derive(Args, Debug)]
pub struct LogSettings {
    /// How logs are written to standard error: text or json [default: text on a terminal, json otherwise]
    #[arg(long, env = "HANDBILL_LOG_FORMAT", value_name = "FORMAT", value_parser = log_format)]
    pub log_format: Option<LogFormat>,
    /// Which events are logged, as tracing-subscriber's filter directives, for example info,handbill=debug
    #[arg(long, env = "HANDBILL_LOG", value_name = "DIRECTIVES", default_value = "info", value_parser = log_filter)]
    pub log: EnvFilter,
}

/// Settings of traces.
#[derive(Args, Debug)]
pub struct TraceSettings {
    /// Collector that receives traces, as OTLP over HTTP, for example `http://collector:4318` [default: none, and no traces]
    #[arg(long, env = "HANDBILL_OTLP_ENDPOINT", value_name = "URL", value_parser = endpoint)]
    pub otlp_endpoint: Option<Url>,
    /// Share of the traces to send, from 0 to 1; 0 sends none at all. A trace that a trusted proxy began is sent if the proxy samples it [default: 1]
    #[arg(long, env = "HANDBILL_OTLP_SAMPLING", value_name = "SHARE", value_parser = share)]
    pub otlp_sampling: Option<f64>,
}

fn log_format(text: &str) -> Result<LogFormat, &'static str> {
    match text {
        "text" => Ok(LogFormat::Text),
        "json" => Ok(LogFormat::Json),
        _ => Err("choose text or json"),
    }
}

/// Refuses directives that cannot be parsed. The conversion that clap would choose drops them silently.
fn log_filter(text: &str) -> Result<EnvFilter, ParseError> {
    EnvFilter::builder().parse(text)
}

/// An address that a path can be appended to. It has no login, since logs and messages show the address.
pub(super) fn endpoint(text: &str) -> Result<Url, &'static str> {
    let fault = "give an address such as http://collector:4318, without login, query and fragment";
    let url = Url::parse(text).map_err(|_| fault)?;
    let is_bare =
        url.username().is_empty() && url.password().is_none() && url.query().is_none() && url.fragment().is_none();
    if matches!(url.scheme(), "http" | "https") && url.has_host() && is_bare { Ok(url) } else { Err(fault) }
}

fn share(text: &str) -> Result<f64, &'static str> {
    let share: f64 = text.parse().map_err(|_| "it is not a number")?;
    if (0.0..=1.0).contains(&share) { Ok(share) } else { Err("it is not between 0 and 1") }
}

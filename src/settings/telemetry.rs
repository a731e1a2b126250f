//! Settings of logs and traces. OpenTelemetry's SDK reads further variables (`OTEL_…`) itself.

use clap::{Args, ValueEnum};
use tracing_subscriber::filter::{LevelFilter, Targets};
use url::Url;

const TRACES_PATH: &str = "/v1/traces";

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people.
    Text,
    /// For machines: one JSON object a line.
    Json,
}

#[derive(Args, Debug)]
pub struct LogSettings {
    /// Format of the log: text or json [default: text on a terminal, json otherwise]
    #[arg(long, env = "HANDBILL_LOG_FORMAT", value_name = "FORMAT", value_enum)]
    pub log_format: Option<LogFormat>,
    /// Level of the log, or of single targets, e.g. info,handbill=debug
    #[arg(long, env = "HANDBILL_LOG", value_name = "LEVELS", default_value = "info", value_parser = log_filter)]
    pub log: Targets,
}

#[derive(Args, Debug)]
pub struct TraceSettings {
    /// OTLP/HTTP collector for traces, e.g. `http://collector:4318` [default: none, and no traces]
    #[arg(long, env = "HANDBILL_OTLP_ENDPOINT", value_name = "URL", value_parser = endpoint)]
    pub otlp_endpoint: Option<Url>,
}

/// [`Targets`] takes any other text for a target that no line has, and an empty one for `error`.
fn log_filter(text: &str) -> Result<Targets, &'static str> {
    fn is_clear(item: &str) -> bool {
        let (target, level) = item.split_once('=').unwrap_or(("handbill", item));
        let is_target = |byte: u8| byte.is_ascii_alphanumeric() || b"_:-".contains(&byte);
        let is_level = !level.is_empty() && level.parse::<LevelFilter>().is_ok();
        is_level && !target.is_empty() && target.bytes().all(is_target)
    }

    let fault = "give levels, for example info,handbill=debug";
    if !text.split(',').all(is_clear) {
        return Err(fault);
    }
    text.parse().map_err(|_| fault)
}

/// Without a login, since logs show the address.
fn endpoint(text: &str) -> Result<Url, &'static str> {
    let fault = "give an address such as http://collector:4318, without login, query and fragment";
    let url = Url::parse(text).map_err(|_| fault)?;
    let is_bare =
        url.username().is_empty() && url.password().is_none() && url.query().is_none() && url.fragment().is_none();
    if matches!(url.scheme(), "http" | "https") && url.has_host() && is_bare { Ok(url) } else { Err(fault) }
}

impl TraceSettings {
    /// `None` for no traces (OTLP 1.x, "OTLP/HTTP Request").
    pub fn address(&self) -> Option<Url> {
        let mut address = self.otlp_endpoint.clone()?;
        let path = address.path().trim_end_matches('/').trim_end_matches(TRACES_PATH);
        address.set_path(&format!("{path}{TRACES_PATH}"));
        Some(address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::parse_args;

    #[test]
    fn spans_are_posted_below_the_address_of_the_collector() {
        fn address(arg: &str) -> String {
            parse_args::<TraceSettings>([arg]).unwrap().address().unwrap().to_string()
        }

        for base in
            ["http://ours:4318", "http://ours:4318/", "http://ours:4318/v1/traces", "http://ours:4318/v1/traces/"]
        {
            assert_eq!(address(&format!("--otlp-endpoint={base}")), "http://ours:4318/v1/traces");
        }
        assert_eq!(address("--otlp-endpoint=https://theirs/otlp"), "https://theirs/otlp/v1/traces");
    }

    #[test]
    fn a_log_has_levels_and_nothing_that_would_hide_its_lines() {
        for text in ["info", "OFF", "info,handbill=debug", "warn,handbill_pages::service=trace,a-b=off"] {
            assert_eq!(log_filter(text).unwrap().to_string().split(',').count(), text.split(',').count(), "{text}");
        }
        for text in [
            "",
            "inof",
            "info,",
            "info, handbill=debug",
            "handbill",
            "handbill=",
            "=debug",
            "a=b=info",
            "handbill[a]=debug",
        ] {
            assert!(log_filter(text).is_err(), "{text}");
        }
    }
}

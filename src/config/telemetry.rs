//! Settings of logs and traces.
//!
//! Our own setting decides first where traces are sent, then the variables of OpenTelemetry's SDK (`OTEL_…`). Only what
//! the SDK for Rust does not read is read here. It reads the sampler, headers and resource attributes itself.

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

#[derive(Args, Debug)]
pub struct LogSettings {
    /// How logs are written to standard error: text or json [default: text on a terminal, json otherwise]
    #[arg(long, env = "HANDBILL_LOG_FORMAT", value_name = "FORMAT", value_parser = log_format)]
    pub log_format: Option<LogFormat>,
    /// Which events are logged, as tracing-subscriber's filter directives, for example info,handbill=debug
    #[arg(long, env = "HANDBILL_LOG", value_name = "DIRECTIVES", default_value = "info", value_parser = log_filter)]
    pub log: EnvFilter,
}

#[derive(Args, Debug)]
pub struct TraceSettings {
    /// Collector that receives traces, as OTLP over HTTP, for example `http://collector:4318` [default: none, and no traces]
    #[arg(long, env = "HANDBILL_OTLP_ENDPOINT", value_name = "URL", value_parser = endpoint)]
    pub otlp_endpoint: Option<Url>,
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
fn endpoint(text: &str) -> Result<Url, &'static str> {
    let fault = "give an address such as http://collector:4318, without login, query and fragment";
    let url = Url::parse(text).map_err(|_| fault)?;
    let is_bare =
        url.username().is_empty() && url.password().is_none() && url.query().is_none() && url.fragment().is_none();
    if matches!(url.scheme(), "http" | "https") && url.has_host() && is_bare { Ok(url) } else { Err(fault) }
}

/// The path below a collector's address that spans are posted to (OTLP 1.x, "OTLP/HTTP Request").
const TRACES_PATH: &str = "/v1/traces";

/// The collector's address if `OTEL_TRACES_EXPORTER=otlp` asks for traces and no address is given (the SDK's default).
const DEFAULT_ENDPOINT: &str = "http://localhost:4318";

/// The traces that are sent, and the address that they are sent to.
#[derive(Clone, Debug, PartialEq)]
pub struct Traces {
    /// The address that spans are posted to.
    pub address: Url,
    /// The name of the service, if `OTEL_SERVICE_NAME` gives one.
    pub service_name: Option<String>,
}

impl Traces {
    /// The traces that `settings` and the environment ask for. `variable` returns the value of an environment variable.
    /// An error says why variables that ask for traces get none: such variables are often set for many programs at once,
    /// so the caller warns and starts without traces.
    pub fn of(settings: &TraceSettings, variable: impl Fn(&str) -> Option<String>) -> Result<Option<Self>, String> {
        // An empty variable counts as not set (the SDK's specification).
        let text = |name: &str| variable(name).map(|text| text.trim().to_owned()).filter(|text| !text.is_empty());
        let address = match &settings.otlp_endpoint {
            Some(endpoint) => Some(below(endpoint)),
            None => address_of_the_sdk(text)?,
        };
        Ok(address.map(|address| Self { address, service_name: text("OTEL_SERVICE_NAME") }))
    }
}

/// The address that the SDK's variables name.
fn address_of_the_sdk(text: impl Fn(&str) -> Option<String>) -> Result<Option<Url>, String> {
    let refused = |name: &str, advice: &str| format!("no traces are sent, because of the variable {name}: {advice}");
    let exporter = text("OTEL_TRACES_EXPORTER");
    let is_disabled = text("OTEL_SDK_DISABLED").is_some_and(|disabled| disabled.eq_ignore_ascii_case("true"));
    if is_disabled || exporter.as_deref().is_some_and(|exporter| exporter != "otlp") {
        return Ok(None);
    }
    let read =
        |name: &str| text(name).map(|written| endpoint(&written).map_err(|advice| refused(name, advice))).transpose();
    let address = if let Some(exact) = read("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")? {
        exact
    } else if let Some(common) = read("OTEL_EXPORTER_OTLP_ENDPOINT")? {
        below(&common)
    } else if exporter.is_some() {
        below(&Url::parse(DEFAULT_ENDPOINT).expect("it is an address"))
    } else {
        return Ok(None);
    };
    let protocols = ["OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"];
    match protocols.into_iter().find_map(|name| Some((name, text(name)?))) {
        // The collector at this address expects another protocol.
        Some((name, protocol)) if protocol != "http/protobuf" => Err(refused(name, "they are http/protobuf only")),
        _ => Ok(Some(address)),
    }
}

/// The address of traces below a collector's address.
fn below(endpoint: &Url) -> Url {
    let address = endpoint.as_str().trim_end_matches('/');
    let address = if address.ends_with(TRACES_PATH) { address.to_owned() } else { format!("{address}{TRACES_PATH}") };
    Url::parse(&address).expect("a path was added to an address")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::parse_args;

    fn traces(args: &[&str], variables: &[(&str, &str)]) -> Result<Option<Traces>, String> {
        let settings: TraceSettings = parse_args(args).unwrap();
        Traces::of(&settings, |name| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        })
    }

    fn address(args: &[&str], variables: &[(&str, &str)]) -> Option<String> {
        traces(args, variables).unwrap().map(|traces| traces.address.to_string())
    }

    const OURS: &str = "--otlp-endpoint=http://ours:4318";
    const THEIRS: (&str, &str) = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://theirs:4318");

    #[test]
    fn without_an_address_there_are_no_traces_unless_the_exporter_is_named() {
        assert_eq!(traces(&[], &[]), Ok(None));
        assert_eq!(address(&[], &[("OTEL_TRACES_EXPORTER", "otlp")]).unwrap(), "http://localhost:4318/v1/traces");
    }

    #[test]
    fn our_own_setting_decides_before_the_variables_of_the_sdk() {
        assert_eq!(address(&[OURS], &[THEIRS]).unwrap(), "http://ours:4318/v1/traces");
        assert_eq!(address(&[OURS], &[("OTEL_SDK_DISABLED", "true")]).unwrap(), "http://ours:4318/v1/traces");
        assert_eq!(address(&[], &[THEIRS]).unwrap(), "http://theirs:4318/v1/traces");
    }

    #[test]
    fn an_address_of_traces_is_used_as_it_is_and_a_common_one_gets_the_path() {
        let exact = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://theirs:4318/custom");
        assert_eq!(address(&[], &[THEIRS, exact]).unwrap(), "http://theirs:4318/custom");
        for base in ["http://theirs:4318/", "http://theirs:4318/v1/traces", "http://theirs:4318/v1/traces/"] {
            assert_eq!(address(&[], &[(THEIRS.0, base)]).unwrap(), "http://theirs:4318/v1/traces");
        }
        assert_eq!(address(&[], &[(THEIRS.0, "http://theirs/otlp")]).unwrap(), "http://theirs/otlp/v1/traces");
    }

    #[test]
    fn the_sdk_can_be_switched_off() {
        for off in [("OTEL_SDK_DISABLED", "TRUE"), ("OTEL_TRACES_EXPORTER", "none"), ("OTEL_TRACES_EXPORTER", "zipkin")]
        {
            assert_eq!(traces(&[], &[THEIRS, off]), Ok(None));
        }
        assert!(address(&[], &[THEIRS, ("OTEL_SDK_DISABLED", "false")]).is_some());
    }

    #[test]
    fn a_variable_that_keeps_traces_from_being_sent_is_named_without_its_secrets() {
        for (name, value) in [
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "collector"),
            ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://user:secret@collector"),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
        ] {
            let warning = traces(&[], &[(name, value), THEIRS]).unwrap_err();
            assert!(warning.contains(name) && !warning.contains("secret"), "{warning}");
        }
    }

    #[test]
    fn the_name_of_the_service_can_be_given() {
        let traces = traces(&[], &[THEIRS, ("OTEL_SERVICE_NAME", "pages")]).unwrap().unwrap();
        assert_eq!(traces.service_name.as_deref(), Some("pages"));
    }
}

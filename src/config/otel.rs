//! The variables of OpenTelemetry's SDK (`OTEL_…`). A flag decides first, then our own variable, then these.
//!
//! The exporter reads further ones itself: headers and resource attributes. As the SDK's specification says, a value that
//! makes no sense is warned about and ignored, since such variables are often set for many programs at once.

use std::str::FromStr;

use url::Url;

use super::telemetry::{TraceSettings, endpoint, share};

/// The path below `OTEL_EXPORTER_OTLP_ENDPOINT`, and below `--otlp-endpoint`, that spans are posted to (OTLP 1.x,
/// "OTLP/HTTP Request").
const TRACES_PATH: &str = "/v1/traces";

/// The collector's address if `OTEL_TRACES_EXPORTER=otlp` asks for traces and no address is given (the SDK's default).
const DEFAULT_ENDPOINT: &str = "http://localhost:4318";

/// The traces that are sent, and the address that they are sent to.
#[derive(Clone, Debug, PartialEq)]
pub struct Traces {
    /// The address that spans are posted to.
    pub address: Url,
    /// Which traces are sent.
    pub sampling: Sampling,
    /// The name of the service, if `OTEL_SERVICE_NAME` gives one.
    pub service_name: Option<String>,
}

/// Which traces are sent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampling {
    /// The share of the traces that begin here, from 0 to 1.
    pub share: f64,
    /// Whether a trace that a trusted proxy began is sent if and only if the proxy samples it.
    pub follows_the_proxy: bool,
}

/// The traces that settings and variables ask for, and a warning for each variable that is ignored.
#[derive(Debug, Default, PartialEq)]
pub struct TraceChoice {
    /// `None`: no traces.
    pub traces: Option<Traces>,
    /// Each in one line.
    pub warnings: Vec<String>,
}

impl TraceChoice {
    /// `variable` returns the value of an environment variable.
    pub fn of(settings: &TraceSettings, variable: impl Fn(&str) -> Option<String>) -> Self {
        let mut reader = Reader { variable, warnings: Vec::new() };
        let traces = reader.traces(settings);
        Self { traces, warnings: reader.warnings }
    }
}

struct Reader<F> {
    variable: F,
    warnings: Vec<String>,
}

impl<F: Fn(&str) -> Option<String>> Reader<F> {
    /// The value of a variable; an empty one counts as not set.
    fn text(&self, name: &str) -> Option<String> {
        (self.variable)(name).map(|text| text.trim().to_owned()).filter(|text| !text.is_empty())
    }

    fn ignore(&mut self, name: &str, advice: &str) {
        self.warnings.push(format!("the environment variable {name} is ignored: {advice}"));
    }

    fn parsed<T>(&mut self, name: &str, parse: impl Fn(&str) -> Result<T, &'static str>) -> Option<T> {
        match parse(&self.text(name)?) {
            Ok(value) => Some(value),
            Err(advice) => {
                self.ignore(name, advice);
                None
            }
        }
    }

    fn traces(&mut self, settings: &TraceSettings) -> Option<Traces> {
        let address = match &settings.otlp_endpoint {
            Some(endpoint) => below(endpoint),
            None => self.address()?,
        };
        let sampling = match settings.otlp_sampling {
            // 0 means no traces at all, even if a trusted proxy's part is sampled.
            Some(share) => Sampling { share, follows_the_proxy: share > 0.0 },
            None => self.sampling(),
        };
        Some(Traces { address, sampling, service_name: self.text("OTEL_SERVICE_NAME") })
    }

    /// The address that the SDK's variables name.
    fn address(&mut self) -> Option<Url> {
        if self.parsed("OTEL_SDK_DISABLED", boolean) == Some(true) {
            return None;
        }
        let exporter = self.text("OTEL_TRACES_EXPORTER");
        match exporter.as_deref() {
            None | Some("otlp") => {}
            Some("none") => return None,
            Some(_) => {
                self.ignore("OTEL_TRACES_EXPORTER", "choose otlp or none");
                return None;
            }
        }
        let exact = self.parsed("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", endpoint);
        let address = match exact {
            Some(address) => address,
            None => match self.parsed("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint) {
                Some(endpoint) => below(&endpoint),
                None if exporter.is_some() => below(&Url::parse(DEFAULT_ENDPOINT).expect("it is an address")),
                None => return None,
            },
        };
        for name in ["OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"] {
            match self.text(name).as_deref() {
                None => {}
                Some("http/protobuf") => break,
                Some(_) => {
                    // The collector at this address expects another protocol.
                    self.ignore(name, "traces are sent as http/protobuf only, so none are sent");
                    return None;
                }
            }
        }
        Some(address)
    }

    fn sampling(&mut self) -> Sampling {
        let all = Sampling { share: 1.0, follows_the_proxy: true };
        let Some(sampler) = self.text("OTEL_TRACES_SAMPLER") else { return all };
        let (follows_the_proxy, kind) = match sampler.strip_prefix("parentbased_") {
            Some(kind) => (true, kind),
            None => (false, sampler.as_str()),
        };
        let share = match kind {
            "always_on" => 1.0,
            "always_off" => 0.0,
            "traceidratio" => self.parsed("OTEL_TRACES_SAMPLER_ARG", share).unwrap_or(1.0),
            _ => {
                self.ignore(
                    "OTEL_TRACES_SAMPLER",
                    "choose always_on, always_off or traceidratio, each also with parentbased_ in front",
                );
                return all;
            }
        };
        Sampling { share, follows_the_proxy }
    }
}

/// The address of traces below a collector's address.
fn below(endpoint: &Url) -> Url {
    let address = endpoint.as_str().trim_end_matches('/');
    let address = if address.ends_with(TRACES_PATH) { address.to_owned() } else { format!("{address}{TRACES_PATH}") };
    Url::parse(&address).expect("a path was added to an address")
}

/// The SDK's specification: only `true`, in any case, is true.
fn boolean(text: &str) -> Result<bool, &'static str> {
    bool::from_str(&text.to_ascii_lowercase()).map_err(|_| "choose true or false")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::parse_args;

    fn choice(args: &[&str], variables: &[(&str, &str)]) -> TraceChoice {
        let settings: TraceSettings = parse_args(args).unwrap();
        let find =
            |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
        TraceChoice::of(&settings, find)
    }

    fn address(args: &[&str], variables: &[(&str, &str)]) -> Option<String> {
        choice(args, variables).traces.map(|traces| traces.address.to_string())
    }

    const OURS: &str = "--otlp-endpoint=http://ours:4318";
    const THEIRS: (&str, &str) = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://theirs:4318");

    #[test]
    fn without_an_address_there_are_no_traces_unless_the_exporter_is_named() {
        assert_eq!(choice(&[], &[]), TraceChoice::default());
        assert_eq!(address(&[], &[("OTEL_TRACES_EXPORTER", "otlp")]).unwrap(), "http://localhost:4318/v1/traces");
    }

    #[test]
    fn our_own_setting_decides_before_the_variables_of_the_sdk() {
        assert_eq!(address(&[OURS], &[THEIRS]).unwrap(), "http://ours:4318/v1/traces");
        assert_eq!(address(&[OURS], &[("OTEL_SDK_DISABLED", "true")]).unwrap(), "http://ours:4318/v1/traces");
        assert_eq!(address(&[], &[THEIRS]).unwrap(), "http://theirs:4318/v1/traces");
        let sampled = |args: &[&str], variables: &[(&str, &str)]| choice(args, variables).traces.unwrap().sampling;
        let off = [("OTEL_TRACES_SAMPLER", "always_off")];
        assert_eq!(sampled(&[OURS, "--otlp-sampling=0.5"], &off), Sampling { share: 0.5, follows_the_proxy: true });
        assert_eq!(sampled(&[OURS], &off), Sampling { share: 0.0, follows_the_proxy: false });
        assert_eq!(sampled(&[OURS], &[]), Sampling { share: 1.0, follows_the_proxy: true });
        assert_eq!(sampled(&[OURS, "--otlp-sampling=0"], &[]), Sampling { share: 0.0, follows_the_proxy: false });
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
        assert_eq!(choice(&[], &[THEIRS, ("OTEL_SDK_DISABLED", "TRUE")]), TraceChoice::default());
        assert_eq!(choice(&[], &[THEIRS, ("OTEL_TRACES_EXPORTER", "none")]), TraceChoice::default());
        assert!(address(&[], &[THEIRS, ("OTEL_SDK_DISABLED", "false")]).is_some());
    }

    #[test]
    fn every_sampler_of_the_specification_is_known() {
        for (name, argument, expected) in [
            ("always_on", "", (1.0, false)),
            ("always_off", "", (0.0, false)),
            ("traceidratio", "0.25", (0.25, false)),
            ("parentbased_always_on", "", (1.0, true)),
            ("parentbased_always_off", "", (0.0, true)),
            ("parentbased_traceidratio", "0.25", (0.25, true)),
            ("parentbased_traceidratio", "", (1.0, true)),
        ] {
            let variables = [THEIRS, ("OTEL_TRACES_SAMPLER", name), ("OTEL_TRACES_SAMPLER_ARG", argument)];
            let chosen = choice(&[], &variables);
            let Sampling { share, follows_the_proxy } = chosen.traces.unwrap().sampling;
            assert!((share - expected.0).abs() < f64::EPSILON && follows_the_proxy == expected.1, "{name}");
            assert!(chosen.warnings.is_empty(), "{name}");
        }
    }

    #[test]
    fn a_value_that_makes_no_sense_is_warned_about_and_ignored() {
        for (name, value, sends) in [
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "collector", false),
            ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://user:secret@collector", true),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", false),
            ("OTEL_TRACES_EXPORTER", "zipkin", false),
            ("OTEL_TRACES_SAMPLER", "sometimes", true),
            ("OTEL_SDK_DISABLED", "maybe", true),
        ] {
            let chosen = choice(&[], &[(name, value), THEIRS]);
            assert_eq!(chosen.traces.is_some(), sends, "{name}");
            let [warning] = &chosen.warnings[..] else { panic!("{name}: {:?}", chosen.warnings) };
            assert!(warning.contains(name) && !warning.contains("secret"), "{warning}");
        }
    }

    #[test]
    fn the_name_of_the_service_can_be_given() {
        let traces = choice(&[], &[THEIRS, ("OTEL_SERVICE_NAME", "pages")]).traces.unwrap();
        assert_eq!(traces.service_name.as_deref(), Some("pages"));
    }
}

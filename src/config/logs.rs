//! Settings of logs.

use clap::Args;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::ParseError;

use crate::telemetry::logs::{LogFormat, LogQueue, install};

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

impl LogSettings {
    /// Puts the process's events into `queue` from now on.
    pub fn install(&self, queue: &LogQueue) {
        install(queue, self.log_format.unwrap_or_else(LogFormat::fitting), self.log.clone());
    }
}

fn log_format(text: &str) -> Result<LogFormat, &'static str> {
    match text {
        "text" => Ok(LogFormat::Text),
        "json" => Ok(LogFormat::Json),
        _ => Err("choose text or json"),
    }
}

/// All of the directives, where clap by itself would take the conversion that leaves out what it cannot read.
fn log_filter(text: &str) -> Result<EnvFilter, ParseError> {
    EnvFilter::builder().parse(text)
}

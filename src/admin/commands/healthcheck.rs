//! `handbill healthcheck`: whether a process is live.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use http::StatusCode;
use url::Url;

use crate::outbound::agent;
use crate::settings::AdminSettings;

const PROBE_TIMEOUT: Duration = Duration::from_secs(2);

#[derive(Args, Debug)]
pub struct Healthcheck {
    /// Address to ask [default: /livez at --admin-listen]
    url: Option<Url>,
    #[command(flatten)]
    admin: AdminSettings,
}

impl Healthcheck {
    pub(super) fn run(&self) -> ExitCode {
        // Linux takes 0.0.0.0 and [::] for this machine.
        let livez = || format!("http://{}/livez", self.admin.admin_listen);
        let url = self.url.as_ref().map_or_else(livez, Url::to_string);
        match agent(PROBE_TIMEOUT).get(&url).call() {
            Ok(answer) if answer.status() == StatusCode::OK => return ExitCode::SUCCESS,
            Ok(answer) => eprintln!("handbill: not healthy: {url} answers {}", answer.status()),
            Err(error) => eprintln!("handbill: not healthy: {url} gives no answer ({error})"),
        }
        ExitCode::FAILURE
    }
}

//! `handbill healthcheck`: asks whether a process answers, for container health checks and `helm test`.

use std::process::ExitCode;
use std::time::Duration;

use bytes::Bytes;
use clap::Args;
use http::{Request, StatusCode, Uri};

use super::client::reachable;
use crate::config::AdminSettings;
use crate::outbound::{Limits, Outbound};

/// How long the probe may take.
const PROBE_TIMEOUT: Duration = Duration::from_secs(2);

/// Most bytes that are read of the answer, which does not matter.
const MAX_ANSWER_BYTES: usize = 4096;

#[derive(Args)]
pub struct Healthcheck {
    /// Address to ask, e.g. `http://handbill/openapi.json` [default: /livez of the operators' listener]
    url: Option<Uri>,
    #[command(flatten)]
    admin: AdminSettings,
}

impl Healthcheck {
    /// Succeeds if the answer is 200. Exit code 1 if not.
    pub(super) async fn run(self) -> Result<ExitCode, String> {
        let url = match self.url {
            Some(url) => url.to_string(),
            None => format!("http://{}/livez", reachable(self.admin.admin_listen)),
        };
        let request = Request::get(&url).body(Bytes::new()).map_err(|error| error.to_string())?;
        let outbound = Outbound::without_tls(Limits { time: PROBE_TIMEOUT, answer_bytes: MAX_ANSWER_BYTES });
        match outbound.status(request).await {
            Ok(StatusCode::OK) => return Ok(ExitCode::SUCCESS),
            Ok(status) => eprintln!("handbill: not healthy: {url} answers {status}"),
            Err(error) => eprintln!("handbill: not healthy: {url} {error}"),
        }
        Ok(ExitCode::FAILURE)
    }
}

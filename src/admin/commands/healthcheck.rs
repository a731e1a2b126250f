//! `handbill healthcheck`: whether a process is live.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::process::ExitCode;
use std::time::Duration;

use bytes::Bytes;
use clap::Args;
use http::{Request, StatusCode};
use url::Url;

use crate::config::AdminSettings;
use crate::outbound::{Limits, Outbound};

/// How long the probe may take.
const PROBE_TIMEOUT: Duration = Duration::from_secs(2);

/// Most bytes that are read of the answer. The answer is one word.
const MAX_ANSWER_BYTES: usize = 4096;

#[derive(Args, Debug)]
pub struct Healthcheck {
    /// Address to ask [default: /livez at --admin-listen]
    url: Option<Url>,
    #[command(flatten)]
    admin: AdminSettings,
}

impl Healthcheck {
    /// Exit code 1 if the process is not live.
    pub(super) async fn run(&self) -> Result<ExitCode, String> {
        let url = self
            .url
            .as_ref()
            .map_or_else(|| format!("http://{}/livez", reachable(self.admin.admin_listen)), Url::to_string);
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

/// The address at which this machine reaches `listener`: one on all addresses is asked on loopback.
fn reachable(listener: SocketAddr) -> SocketAddr {
    let loopback = match listener.ip() {
        IpAddr::V4(address) if address.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(address) if address.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        address => address,
    };
    SocketAddr::new(loopback, listener.port())
}

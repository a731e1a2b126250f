//! `handbill healthcheck`: asks `/livez` on the operators' listener.

use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, StatusCode};

use super::client::reachable;
use crate::outbound::{Limits, Outbound};

/// How long the probe may take.
const PROBE_TIMEOUT: Duration = Duration::from_secs(2);

/// Most bytes that are read of the answer. The answer is one word.
const MAX_ANSWER_BYTES: usize = 4096;

/// Succeeds if the process behind `admin` is live. Exit code 1 if not.
pub(super) async fn run(admin: SocketAddr) -> Result<ExitCode, String> {
    let request = Request::get(format!("http://{}/livez", reachable(admin))).body(Bytes::new());
    let request = request.map_err(|error| error.to_string())?;
    let outbound = Outbound::without_tls(Limits { time: PROBE_TIMEOUT, answer_bytes: MAX_ANSWER_BYTES });
    match outbound.status(request).await {
        Ok(StatusCode::OK) => return Ok(ExitCode::SUCCESS),
        Ok(status) => eprintln!("handbill: not healthy: /livez answers {status}"),
        Err(error) => eprintln!("handbill: not healthy: it {error}"),
    }
    Ok(ExitCode::FAILURE)
}

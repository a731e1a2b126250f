//! `handbill healthcheck`: asks `/livez` on the operators' listener.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::process::ExitCode;
use std::time::Duration;

/// How long each step of the probe may take: to connect, to write and to read.
const PROBE_TIMEOUT: Duration = Duration::from_secs(2);

/// Succeeds if the process behind `admin` is live. Exit code 1 if not.
pub(super) fn run(admin: SocketAddr) -> ExitCode {
    match ask(reachable(admin)) {
        Ok(answer) if answer.starts_with("HTTP/1.1 200 ") => ExitCode::SUCCESS,
        Ok(_) => fail("it answers, but /livez is not 200"),
        Err(error) => fail(&error.to_string()),
    }
}

fn fail(reason: &str) -> ExitCode {
    eprintln!("handbill: not healthy: {reason}");
    ExitCode::FAILURE
}

/// A listener on all addresses is asked on loopback.
pub(super) fn reachable(listener: SocketAddr) -> SocketAddr {
    let loopback = match listener.ip() {
        IpAddr::V4(address) if address.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(address) if address.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        address => address,
    };
    SocketAddr::new(loopback, listener.port())
}

fn ask(address: SocketAddr) -> std::io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, PROBE_TIMEOUT)?;
    stream.set_read_timeout(Some(PROBE_TIMEOUT))?;
    stream.set_write_timeout(Some(PROBE_TIMEOUT))?;
    stream.write_all(b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.take(4096).read_to_string(&mut answer)?;
    Ok(answer)
}

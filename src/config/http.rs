//! Settings of the public listener.

use std::net::SocketAddr;
use std::time::Duration;

use clap::Args;
use ipnet::IpNet;

use crate::domain::authority::Authority;
use crate::domain::client::ForwardedHeader;
use crate::domain::origin::Origin;

/// Where the public reaches the service.
#[derive(Args, Debug)]
pub struct AddressSettings {
    /// Public listener; port 0 takes a free one
    #[arg(long, env = "HANDBILL_LISTEN", value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8080")]
    pub listen: SocketAddr,
    /// Origin of every URL that is given out, for example `https://pages.example` [default: http:// and the public listener]
    #[arg(long, env = "HANDBILL_BASE_URL", value_name = "ORIGIN", value_parser = Origin::parse)]
    pub base_url: Option<Origin>,
}

impl AddressSettings {
    /// The origin of URLs, while `listener` is where the public listener is.
    pub fn origin(&self, listener: SocketAddr) -> Origin {
        self.base_url.clone().unwrap_or_else(|| Origin::of_listener(listener))
    }
}

/// Settings of the public listener.
#[derive(Args, Debug)]
pub struct HttpSettings {
    #[command(flatten)]
    #[expect(missing_docs, reason = "a doc comment here would become the help text of the first flag")]
    pub address: AddressSettings,
    /// Networks of the proxies whose --forwarded-header is believed, in CIDR notation, comma-separated; without a prefix length it is one address [default: none]
    #[arg(long, env = "HANDBILL_TRUSTED_PROXIES", value_name = "CIDR,…", value_delimiter = ',', value_parser = network)]
    pub trusted_proxies: Vec<IpNet>,
    /// The one header that trusted proxies name the client in: x-forwarded-for or forwarded
    #[arg(long, env = "HANDBILL_FORWARDED_HEADER", value_name = "HEADER", default_value = "x-forwarded-for", value_parser = forwarded_header)]
    pub forwarded_header: ForwardedHeader,
    /// Hosts that /mcp is called by besides that of --base-url, comma-separated; one without a port admits every port [default: none]
    #[arg(long, env = "HANDBILL_MCP_ALLOWED_HOSTS", value_name = "HOST[:PORT],…", value_delimiter = ',', value_parser = Authority::parse)]
    pub mcp_allowed_hosts: Vec<Authority>,
    /// Origins whose pages may call /mcp from a browser besides --base-url, comma-separated [default: none]
    #[arg(long, env = "HANDBILL_MCP_ALLOWED_ORIGINS", value_name = "ORIGIN,…", value_delimiter = ',', value_parser = Origin::parse)]
    pub mcp_allowed_origins: Vec<Origin>,
    /// How long requests are still accepted after SIGTERM, SIGINT or SIGHUP, so that load balancers can see /readyz turn 503
    #[arg(long, env = "HANDBILL_DRAIN_DELAY", value_name = "DURATION", default_value = "0s", value_parser = humantime::parse_duration)]
    pub drain_delay: Duration,
    /// How long requests in flight may take to finish after that
    #[arg(long, env = "HANDBILL_DRAIN_TIMEOUT", value_name = "DURATION", default_value = "15s", value_parser = humantime::parse_duration)]
    pub drain_timeout: Duration,
}

/// A network in CIDR notation; one address, where there is no prefix length.
fn network(text: &str) -> Result<IpNet, &'static str> {
    let text = text.trim();
    let address = || text.parse::<std::net::IpAddr>().ok().map(IpNet::from);
    text.parse().ok().or_else(address).ok_or("it is neither a network such as 10.0.0.0/8 nor an address")
}

fn forwarded_header(text: &str) -> Result<ForwardedHeader, &'static str> {
    [ForwardedHeader::XForwardedFor, ForwardedHeader::Forwarded]
        .into_iter()
        .find(|header| text.eq_ignore_ascii_case(header.name()))
        .ok_or("choose x-forwarded-for or forwarded")
}

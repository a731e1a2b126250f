//! Settings of the public listener, and of shared caches in front of it.

use std::{net::SocketAddr, time::Duration};

use clap::Args;
use ipnet::IpNet;

use super::{address_and_port, contact::SiteLink, duration, number};
use handbill_pages::values::origin::{Authority, Origin};

#[derive(Args, Debug)]
pub struct AddressSettings {
    /// Public listener; port 0 takes a free one
    #[arg(long, env = "HANDBILL_LISTEN", value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8080", value_parser = address_and_port)]
    pub listen: SocketAddr,
    /// Origin of every URL given out, e.g. `https://pages.example` [default: http:// and the public listener]
    #[arg(long, env = "HANDBILL_BASE_URL", value_name = "ORIGIN", value_parser = Origin::parse)]
    pub base_url: Option<Origin>,
}

impl AddressSettings {
    /// The origin of URLs for a listener at `listener`.
    pub fn origin(&self, listener: SocketAddr) -> Origin {
        self.base_url.clone().unwrap_or_else(|| Origin::of_listener(listener))
    }
}

/// May call what browsers are kept from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AllowedHost {
    /// A name by which the service is called.
    Name(Authority),
    /// An origin whose pages may call.
    Origin(Origin),
}

#[derive(Args, Debug)]
pub struct HttpSettings {
    #[command(flatten)]
    pub address: AddressSettings,
    /// Proxies whose X-Forwarded-For is believed: networks, comma-separated [default: none]
    #[arg(long, env = "HANDBILL_TRUSTED_PROXIES", value_name = "CIDR,…", value_delimiter = ',', value_parser = network)]
    pub trusted_proxies: Vec<IpNet>,
    /// Extra host names for /mcp, comma-separated; with a scheme, allowed origins [default: none]
    #[arg(long, env = "HANDBILL_ALLOWED_HOSTS", value_name = "HOST[:PORT]|ORIGIN,…", value_delimiter = ',', value_parser = allowed_host)]
    pub allowed_hosts: Vec<AllowedHost>,
    /// Separate origin for /mcp, e.g. `https://mcp.pages.example`, for hosted agents [default: none]
    #[arg(long, env = "HANDBILL_MCP_BASE_URL", value_name = "ORIGIN", value_parser = Origin::parse)]
    pub mcp_base_url: Option<Origin>,
    /// Documents to link on each page: privacy=URL, terms=URL, support=URL [default: none]
    #[arg(long, env = "HANDBILL_SITE_LINKS", value_name = "NAME=URL,…", value_delimiter = ',', value_parser = SiteLink::parse)]
    pub site_links: Vec<SiteLink>,
    /// Connections at once; a client has an eighth, trusted proxies and loopback all
    #[arg(long, env = "HANDBILL_MAX_CONNECTIONS", value_name = "NUMBER", default_value = "4096", value_parser = number(1..=1_000_000, 4096))]
    max_connections: u32,
    /// Time to accept requests after SIGTERM, while /readyz answers 503
    #[arg(long, env = "HANDBILL_DRAIN_DELAY", value_name = "DURATION", default_value = "0s", value_parser = duration)]
    pub drain_delay: Duration,
    /// Time for requests in flight to finish after --drain-delay
    #[arg(long, env = "HANDBILL_DRAIN_TIMEOUT", value_name = "DURATION", default_value = "15s", value_parser = duration)]
    pub drain_timeout: Duration,
}

impl HttpSettings {
    pub fn max_connections(&self) -> usize {
        usize::try_from(self.max_connections).unwrap_or(usize::MAX)
    }

    /// The service would then have no pages, whatever the ports.
    pub(super) fn has_shared_host(&self) -> bool {
        let site = self.address.origin(self.address.listen);
        self.mcp_base_url.as_ref().is_some_and(|tools| site.host_text().eq_ignore_ascii_case(tools.host_text()))
    }

    /// The further names of the service, and the origins whose pages may call the tools besides the service's own.
    pub fn allowed(&self) -> (Vec<Authority>, Vec<Origin>) {
        let (mut names, mut origins) = (Vec::new(), Vec::new());
        for allowed in self.allowed_hosts.iter().cloned() {
            match allowed {
                AllowedHost::Name(name) => names.push(name),
                AllowedHost::Origin(origin) => origins.push(origin),
            }
        }
        (names, origins)
    }
}

fn network(text: &str) -> Result<IpNet, &'static str> {
    let text = text.trim();
    let network = text.parse().or_else(|_| text.parse::<std::net::IpAddr>().map(IpNet::from));
    network.map_err(|_| "give a network, for example 10.0.0.0/8, or an address")
}

fn allowed_host(text: &str) -> Result<AllowedHost, String> {
    if text.contains("://") {
        let origin = Origin::parse(text).map_err(|error| error.to_string())?;
        // The URL standard allows `*`, which would look like a wildcard.
        origin
            .host()
            .is_some()
            .then_some(AllowedHost::Origin(origin))
            .ok_or_else(|| "its host is no name: give one such as https://app.example".to_owned())
    } else {
        Authority::parse(text).map(AllowedHost::Name).map_err(|error| error.to_string())
    }
}

/// Contract, decision 21.
const MAX_TIME: Duration = Duration::from_mins(5);

#[derive(Args, Debug)]
pub struct EdgeSettings {
    /// How long shared caches may keep a page unchecked, at most 5m; 0s is never
    #[arg(long, env = "HANDBILL_EDGE_MAX_AGE", value_name = "DURATION", default_value = "0s", value_parser = whole_seconds)]
    pub edge_max_age: Duration,
}

impl EdgeSettings {
    pub fn max_age(&self) -> Option<Duration> {
        (!self.edge_max_age.is_zero()).then_some(self.edge_max_age)
    }
}

/// Header fields have no smaller unit.
fn whole_seconds(text: &str) -> Result<Duration, &'static str> {
    match humantime::parse_duration(text) {
        Ok(time) if time.subsec_nanos() == 0 && time <= MAX_TIME => Ok(time),
        _ => Err("give whole seconds, at most 5m, for example 1m"),
    }
}

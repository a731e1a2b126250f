//! Settings of the public listener, and of shared caches in front of it.

use std::net::SocketAddr;
use std::time::Duration;

use clap::Args;
use ipnet::IpNet;

use handbill_pages::values::authority::Authority;
use handbill_pages::values::origin::Origin;
use handbill_pages::values::site_link::SiteLink;

/// The addresses at which clients reach the service.
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
    /// The origin of URLs, if the public listener is at `listener`.
    pub fn origin(&self, listener: SocketAddr) -> Origin {
        self.base_url.clone().unwrap_or_else(|| Origin::of_listener(listener))
    }
}

/// Somebody who may call what browsers are kept from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AllowedHost {
    /// Whoever calls the service by this name.
    Name(Authority),
    /// Pages of this origin.
    Origin(Origin),
}

/// Settings of the public listener.
#[derive(Args, Debug)]
pub struct HttpSettings {
    #[command(flatten)]
    pub address: AddressSettings,
    /// Networks of the proxies whose X-Forwarded-For is believed, in CIDR notation, comma-separated; an entry without a prefix length is one address [default: none]
    #[arg(long, env = "HANDBILL_TRUSTED_PROXIES", value_name = "CIDR,…", value_delimiter = ',', value_parser = network)]
    pub trusted_proxies: Vec<IpNet>,
    /// Further names of this service, by which agents may call /mcp, comma-separated; a name without a port admits every port. An entry with a scheme is an origin whose pages may call /mcp from a browser [default: none]
    #[arg(long, env = "HANDBILL_ALLOWED_HOSTS", value_name = "HOST[:PORT]|ORIGIN,…", value_delimiter = ',', value_parser = allowed_host)]
    pub allowed_hosts: Vec<AllowedHost>,
    /// Origin of a host of its own for /mcp, for example `https://mcp.pages.example`: it serves the tools and what describes them, and no page and no address of OAuth, which hosted clients take for a login [default: none]
    #[arg(long, env = "HANDBILL_MCP_BASE_URL", value_name = "ORIGIN", value_parser = Origin::parse)]
    pub mcp_base_url: Option<Origin>,
    /// Addresses of the operators' own documents, for the foot of each page, the MCP server card and /llms.txt: privacy=, terms=, support=; comma-separated [default: none]
    #[arg(long, env = "HANDBILL_SITE_LINKS", value_name = "NAME=URL,…", value_delimiter = ',', value_parser = SiteLink::parse)]
    pub site_links: Vec<SiteLink>,
    /// Connections at once, and fewer if the process may have few file descriptors; one client has at most an eighth of them, trusted proxies excepted
    #[arg(long, env = "HANDBILL_MAX_CONNECTIONS", value_name = "NUMBER", default_value = "4096", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    max_connections: u32,
    /// How long requests are still accepted after SIGTERM or SIGINT, so that load balancers can see /readyz turn 503 [default: 5s with --trusted-proxies, 0s otherwise]
    #[arg(long, env = "HANDBILL_DRAIN_DELAY", value_name = "DURATION", value_parser = humantime::parse_duration)]
    drain_delay: Option<Duration>,
    /// How long requests in flight may take to finish after --drain-delay
    #[arg(long, env = "HANDBILL_DRAIN_TIMEOUT", value_name = "DURATION", default_value = "15s", value_parser = humantime::parse_duration)]
    pub drain_timeout: Duration,
}

impl HttpSettings {
    pub fn max_connections(&self) -> usize {
        usize::try_from(self.max_connections).unwrap_or(usize::MAX)
    }

    /// Whether the tools have the host of the pages, so that the service would have no pages.
    pub(super) fn has_shared_host(&self) -> bool {
        let hosts = self.address.base_url.as_ref().zip(self.mcp_base_url.as_ref());
        hosts.is_some_and(|(site, tools)| site.host_text().eq_ignore_ascii_case(tools.host_text()))
    }

    /// The further names of the service.
    pub fn allowed_names(&self) -> Vec<Authority> {
        let names = self.allowed_hosts.iter().filter_map(|allowed| match allowed {
            AllowedHost::Name(name) => Some(name.clone()),
            AllowedHost::Origin(_) => None,
        });
        names.collect()
    }

    /// The origins whose pages may call the tools besides the service's own.
    pub fn allowed_origins(&self) -> Vec<Origin> {
        let origins = self.allowed_hosts.iter().filter_map(|allowed| match allowed {
            AllowedHost::Origin(origin) => Some(origin.clone()),
            AllowedHost::Name(_) => None,
        });
        origins.collect()
    }

    /// How long requests are still accepted after the signal that stops the service. Without a proxy nobody watches
    /// `/readyz`.
    pub fn drain_delay(&self) -> Duration {
        let usual = if self.trusted_proxies.is_empty() { Duration::ZERO } else { DELAY_BEHIND_PROXIES };
        self.drain_delay.unwrap_or(usual)
    }
}

/// Time for a proxy to see that `/readyz` has turned 503: a few of its checks, which come each second or two.
const DELAY_BEHIND_PROXIES: Duration = Duration::from_secs(5);

/// A network in CIDR notation, or one address.
fn network(text: &str) -> Result<IpNet, &'static str> {
    let text = text.trim();
    let address = || text.parse::<std::net::IpAddr>().ok().map(IpNet::from);
    text.parse().ok().or_else(address).ok_or("give a network, for example 10.0.0.0/8, or an address")
}

/// An origin if there is a scheme, else a name.
fn allowed_host(text: &str) -> Result<AllowedHost, String> {
    if text.contains("://") {
        let origin = Origin::parse(text).map_err(|error| error.to_string())?;
        // The URL standard allows `*` in a host, which would pass for a wildcard and admit nobody.
        origin.host().is_some().then_some(AllowedHost::Origin(origin)).ok_or_else(|| "its host is no name".to_owned())
    } else {
        Authority::parse(text).map(AllowedHost::Name).map_err(|error| error.to_string())
    }
}

/// Longest time for which a page may be shown after it was deleted (contract, decision 21).
const MAX_TIME: Duration = Duration::from_mins(5);

/// Settings of shared caches in front of the service.
#[derive(Args, Debug)]
pub struct EdgeSettings {
    /// How long shared caches may show a page without asking whether it has changed, at most 5m; 0s admits none, so that nothing is ever stale
    #[arg(long, env = "HANDBILL_EDGE_MAX_AGE", value_name = "DURATION", default_value = "0s", value_parser = whole_seconds)]
    pub edge_max_age: Duration,
}

impl EdgeSettings {
    /// How long shared caches may show a page; `None` if they may not.
    pub fn max_age(&self) -> Option<Duration> {
        (!self.edge_max_age.is_zero()).then_some(self.edge_max_age)
    }
}

/// A time in whole seconds, since header fields have no smaller unit.
fn whole_seconds(text: &str) -> Result<Duration, &'static str> {
    let fits = |time: &Duration| time.subsec_nanos() == 0 && *time <= MAX_TIME;
    humantime::parse_duration(text).ok().filter(fits).ok_or("give whole seconds, at most 5m, for example 1m")
}

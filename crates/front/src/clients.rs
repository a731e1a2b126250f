//! Whom connections and bytes are charged to.

use std::net::{IpAddr, SocketAddr};

use http::request::Parts;

/// One client: an address, or the address that stands for a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Client(pub IpAddr);

impl From<IpAddr> for Client {
    fn from(address: IpAddr) -> Self {
        Self(address)
    }
}

pub trait Clients: Send + Sync + 'static {
    /// The client that a connection from `address` is charged to. The address is canonical.
    fn of_peer(&self, address: IpAddr) -> Client;

    /// The client that the request with this `head` is charged to, and which may be behind a proxy at `peer`. The head may
    /// be marked for the service.
    fn of_request(&self, peer: SocketAddr, head: &mut Parts) -> Client;

    /// Whether any number of connections may come from `address`, because it connects for many clients.
    fn is_exempt(&self, address: IpAddr) -> bool;
}

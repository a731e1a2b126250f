//! The service behind its load balancer, as a target of the specification's sections.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use handbill_pages::values::client::Peer;

use super::services::service;
use crate::connection::{connect_from, exchange};
use crate::environment::in_time;
use crate::support::app::{Limits, Target};
use crate::support::exchange::{Answer, Request};
use crate::turns::Sharing;

/// The target for the specification's sections: replicas with these limits, which start at their first request.
pub(crate) fn target(limits: Limits) -> Arc<dyn Target> {
    Arc::new(Replicas { limits, clients: Mutex::default(), _turn: Sharing::wait() })
}

/// Three replicas behind a load balancer, as clients of one test see them. No other test has these clients' addresses,
/// so their quotas are their own.
struct Replicas {
    limits: Limits,
    /// The address on this machine that represents each peer.
    clients: Mutex<HashMap<IpAddr, Ipv4Addr>>,
    /// No test that harms the nodes runs meanwhile.
    _turn: Sharing,
}

#[async_trait]
impl Target for Replicas {
    async fn answer(&self, request: Request) -> Answer {
        let (method, path) = (request.method.clone(), request.path().to_owned());
        let mut request = request.into_http();
        let Peer(peer) = request.extensions_mut().remove().expect("a request has a peer");
        let client = self.client(peer.ip());
        let balancer = service(self.limits).await.balancer;
        let whole = async { exchange(&mut connect_from(client, balancer).await?, request).await };
        let answered = in_time("it is answered", whole).await;
        let (parts, body) = answered.unwrap_or_else(|error| panic!("{method} {path}: {error}")).into_parts();
        Answer { status: parts.status.as_u16(), headers: parts.headers, body }
    }

    /// All replicas share one store, and each request goes to the next replica.
    fn replica(&self, limits: Limits) -> Arc<dyn Target> {
        target(limits)
    }
}

impl Replicas {
    /// An address that represents `peer` for this test only.
    fn client(&self, peer: IpAddr) -> Ipv4Addr {
        static DRAWN: AtomicU32 = AtomicU32::new(0);
        // The range begins at 127.1.0.0. Database nodes begin at 127.16, and the load balancer has the machine's own
        // address.
        const FIRST: u32 = Ipv4Addr::new(127, 1, 0, 0).to_bits();
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        *clients.entry(peer).or_insert_with(|| Ipv4Addr::from_bits(FIRST + DRAWN.fetch_add(1, Ordering::Relaxed)))
    }
}

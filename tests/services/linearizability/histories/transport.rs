//! How calls reach the service.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;

use async_trait::async_trait;
use bytes::Bytes;
use http::{Request, Response};

use crate::connection::{CLIENT_TIMEOUT, Open, connect, exchange};

/// A way to reach the service.
pub(crate) trait Transport: Send + Sync {
    /// The connection that one client sends its calls through. With several replicas, each call goes to the next one.
    fn connect(&self, client: usize) -> Box<dyn Connection>;
}

/// One client's way to the service.
#[async_trait]
pub(crate) trait Connection: Send {
    /// The whole answer to `request`. After an error, nobody knows whether the request took effect.
    async fn send(&mut self, request: Request<Bytes>) -> io::Result<Response<Bytes>>;
}

/// The paths of operators' calls.
const OF_OPERATORS: [&str; 3] = ["/takedown", "/hide", "/show"];

/// Listeners of replicas, or of a load balancer, and those for operators.
#[derive(Clone)]
pub(crate) struct Network {
    pub(crate) public: Vec<SocketAddr>,
    pub(crate) operators: Vec<SocketAddr>,
}

impl Transport for Network {
    fn connect(&self, client: usize) -> Box<dyn Connection> {
        Box::new(Sockets { network: self.clone(), next: client, open: HashMap::new() })
    }
}

struct Sockets {
    network: Network,
    next: usize,
    open: HashMap<SocketAddr, Open>,
}

#[async_trait]
impl Connection for Sockets {
    async fn send(&mut self, request: Request<Bytes>) -> io::Result<Response<Bytes>> {
        let Network { public, operators } = &self.network;
        let replicas = if OF_OPERATORS.contains(&request.uri().path()) { operators } else { public };
        let replica = replicas[self.next % replicas.len()];
        self.next += 1;
        // A connection is put back only after a whole answer, so one that broke or hangs is not used again.
        let mut connection = match self.open.remove(&replica) {
            Some(open) if !open.is_closed() => open,
            _ => tokio::time::timeout(CLIENT_TIMEOUT, connect(replica)).await??,
        };
        let answer = tokio::time::timeout(CLIENT_TIMEOUT, exchange(&mut connection, request)).await??;
        // A connection that is not ready by now is closed.
        if connection.is_ready() {
            self.open.insert(replica, connection);
        }
        Ok(answer)
    }
}

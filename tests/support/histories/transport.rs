//! How calls reach the service.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use async_trait::async_trait;
use bytes::Bytes;
use http::{Request, Response};

use crate::connection::{CLIENT_TIMEOUT, Open, connect, connect_to_socket, exchange};

pub trait Transport: Send + Sync {
    /// The connection that one client sends its calls through. With several replicas, each call goes to the next one.
    fn connect(&self, client: usize) -> Box<dyn Connection>;
}

#[async_trait]
pub trait Connection: Send {
    /// The whole answer to `request`. After an error, nobody knows whether the request took effect.
    async fn send(&mut self, request: Request<Bytes>) -> io::Result<Response<Bytes>>;
}

const OF_OPERATORS: [&str; 3] = ["/takedown", "/hide", "/show"];

/// Listeners of replicas, or of a load balancer, and the sockets of their operators.
#[derive(Clone)]
pub struct Network {
    pub public: Vec<SocketAddr>,
    pub operators: Vec<PathBuf>,
}

impl Transport for Network {
    fn connect(&self, client: usize) -> Box<dyn Connection> {
        Box::new(Sockets { network: self.clone(), next: client, open: HashMap::new() })
    }
}

#[derive(Clone, PartialEq, Eq, Hash)]
enum Place {
    Listener(SocketAddr),
    Socket(PathBuf),
}

struct Sockets {
    network: Network,
    next: usize,
    open: HashMap<Place, Open>,
}

#[async_trait]
impl Connection for Sockets {
    async fn send(&mut self, request: Request<Bytes>) -> io::Result<Response<Bytes>> {
        let Network { public, operators } = &self.network;
        let replica = if OF_OPERATORS.contains(&request.uri().path()) {
            Place::Socket(operators[self.next % operators.len()].clone())
        } else {
            Place::Listener(public[self.next % public.len()])
        };
        self.next += 1;
        // A connection is put back only after a whole answer, so one that broke or hangs is not used again.
        let mut connection = match self.open.remove(&replica) {
            Some(open) if !open.is_closed() => open,
            _ => match &replica {
                Place::Listener(address) => tokio::time::timeout(CLIENT_TIMEOUT, connect(*address)).await??,
                Place::Socket(path) => connect_to_socket(path).await?,
            },
        };
        let answer = tokio::time::timeout(CLIENT_TIMEOUT, exchange(&mut connection, request)).await??;
        // A connection that is not ready by now is closed.
        if connection.is_ready() {
            self.open.insert(replica, connection);
        }
        Ok(answer)
    }
}

//! How calls reach the service: in this process or over sockets.

use std::collections::HashMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use async_trait::async_trait;
use axum::Router;
use axum::body::Body;
use bytes::Bytes;
use handbill::domain::client::Peer;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tower::ServiceExt;

/// When a client stops waiting. Longer than the service's own deadline, so that mostly the service says it first.
const PATIENCE: Duration = Duration::from_secs(10);

/// Where the service is.
pub(crate) enum Transport {
    /// Replicas in this process.
    InProcess(Vec<Router>),
    /// Listeners of replicas, or of a load balancer.
    Network(Vec<SocketAddr>),
}

impl Transport {
    /// What one client sends its calls through. With several replicas, each call goes to the next one.
    pub(crate) fn connect(&self, client: usize) -> Box<dyn Connection> {
        match self {
            Self::InProcess(replicas) => Box::new(InProcess { replicas: replicas.clone(), next: client }),
            Self::Network(replicas) => {
                Box::new(Network { replicas: replicas.clone(), next: client, open: HashMap::new() })
            }
        }
    }
}

/// One client's way to the service.
#[async_trait]
pub(crate) trait Connection: Send {
    /// The whole answer to `request`. After an error it is unknown what became of the request.
    async fn send(&mut self, request: Request<Bytes>) -> io::Result<Response<Bytes>>;
}

struct InProcess {
    replicas: Vec<Router>,
    next: usize,
}

#[async_trait]
impl Connection for InProcess {
    async fn send(&mut self, request: Request<Bytes>) -> io::Result<Response<Bytes>> {
        let replica = self.replicas[self.next % self.replicas.len()].clone();
        self.next += 1;
        let mut request = request.map(Body::from);
        request.extensions_mut().insert(Peer(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 40_000)));
        let Ok(response) = replica.oneshot(request).await;
        let (head, body) = response.into_parts();
        let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
        Ok(Response::from_parts(head, body))
    }
}

struct Network {
    replicas: Vec<SocketAddr>,
    next: usize,
    open: HashMap<SocketAddr, SendRequest<Full<Bytes>>>,
}

#[async_trait]
impl Connection for Network {
    async fn send(&mut self, mut request: Request<Bytes>) -> io::Result<Response<Bytes>> {
        let replica = self.replicas[self.next % self.replicas.len()];
        self.next += 1;
        let host = replica.to_string().try_into().expect("an address is ASCII");
        request.headers_mut().insert(http::header::HOST, host);
        // A connection is only put back after a whole answer, so that one which broke or hangs is not used again.
        let mut connection = match self.open.remove(&replica) {
            Some(open) if !open.is_closed() => open,
            _ => connect(replica).await?,
        };
        let exchange = async {
            let (head, body) = connection.send_request(request.map(Full::new)).await?.into_parts();
            let body = body.collect().await?.to_bytes();
            Ok::<_, hyper::Error>(Response::from_parts(head, body))
        };
        let answer = tokio::time::timeout(PATIENCE, exchange).await?.map_err(io::Error::other)?;
        // One that is not ready by now will be closed.
        if connection.is_ready() {
            self.open.insert(replica, connection);
        }
        Ok(answer)
    }
}

async fn connect(address: SocketAddr) -> io::Result<SendRequest<Full<Bytes>>> {
    let connecting = async {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
        // Its errors reach whoever waits for an answer.
        tokio::spawn(connection);
        Ok(sender)
    };
    tokio::time::timeout(PATIENCE, connecting).await?
}

//! Replicas in this process, called without sockets.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use async_trait::async_trait;
use axum::Router;
use axum::body::Body;
use bytes::Bytes;
use handbill_pages::values::client::Peer;
use http::{Request, Response};
use http_body_util::BodyExt;
use tower::ServiceExt;

use super::transport::{Connection, Transport};

pub struct InProcess(pub Vec<Router>);

impl Transport for InProcess {
    fn connect(&self, client: usize) -> Box<dyn Connection> {
        Box::new(Calls { replicas: self.0.clone(), next: client })
    }
}

struct Calls {
    replicas: Vec<Router>,
    next: usize,
}

#[async_trait]
impl Connection for Calls {
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

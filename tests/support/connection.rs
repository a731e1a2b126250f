//! A small HTTP client over real sockets.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use http::header::HOST;
use http::{Request, Response};
use http_body_util::BodyExt;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpStream, UnixStream};

/// Time after which a client stops waiting. It is longer than the service's own deadline, so the service mostly answers
/// first.
pub const CLIENT_TIMEOUT: Duration = Duration::from_secs(10);

pub type Open = SendRequest<Body>;

pub async fn connect(address: SocketAddr) -> io::Result<Open> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
    // Its errors reach whoever waits for an answer.
    tokio::spawn(connection);
    Ok(sender)
}

pub async fn connect_to_socket(path: &Path) -> io::Result<Open> {
    let stream = UnixStream::connect(path).await?;
    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
    tokio::spawn(connection);
    Ok(sender)
}

/// Sends `request` and reads all of the answer. After an error it is unknown what became of the request.
pub async fn exchange(connection: &mut Open, mut request: Request<impl Into<Body>>) -> io::Result<Response<Bytes>> {
    request.headers_mut().entry(HOST).or_insert(http::HeaderValue::from_static("pages.example"));
    // A connection takes a request only once its task has seen the end of the last one.
    connection.ready().await.map_err(io::Error::other)?;
    let response = connection.send_request(request.map(Into::into)).await.map_err(io::Error::other)?;
    let (head, body) = response.into_parts();
    let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
    Ok(Response::from_parts(head, body))
}

use std::io::Write;
use std::path::PathBuf;

use axum::body::Body;
use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::net::UnixStream;

use crate::admin::api::Refusal;
use crate::settings::SocketAccess;

/// Asks the running process over its socket. Errors are one line for the operator.
pub(super) struct Client {
    socket: PathBuf,
}

impl Client {
    pub(super) fn new(access: &SocketAccess) -> Self {
        Self { socket: access.socket() }
    }

    pub(super) async fn ask<T: DeserializeOwned>(&self, path: &str, body: &impl Serialize) -> Result<T, String> {
        parse(&self.send(Method::POST, path, json(body)?).await?)
    }

    /// For a change without an answer.
    pub(super) async fn put(&self, path: &str, body: &impl Serialize) -> Result<(), String> {
        self.send(Method::PUT, path, json(body)?).await.map(drop)
    }

    /// The answer comes after the end of `body`.
    pub(super) async fn upload<T: DeserializeOwned>(&self, path: &str, body: Body) -> Result<T, String> {
        parse(&self.send(Method::POST, path, body).await?)
    }

    async fn send(&self, method: Method, path: &str, body: Body) -> Result<Bytes, String> {
        let answer = self.open(method, path, body).await?;
        Ok(answer.collect().await.map_err(|error| self.cut_short(&error))?.to_bytes())
    }

    /// Returns the number of bytes.
    pub(super) async fn copy(&self, path: &str, to: &mut impl Write) -> Result<usize, String> {
        let mut body = self.open(Method::GET, path, Body::empty()).await?;
        let unwritable = |error| format!("cannot write what {path} answers: {error}");
        let mut bytes = 0;
        while let Some(frame) = body.frame().await {
            if let Ok(piece) = frame.map_err(|error| self.cut_short(&error))?.into_data() {
                to.write_all(&piece).map_err(unwritable)?;
                bytes += piece.len();
            }
        }
        to.flush().map_err(unwritable)?;
        Ok(bytes)
    }

    /// The answer may be long.
    async fn open(&self, method: Method, path: &str, body: Body) -> Result<Incoming, String> {
        let socket = self.socket.display();
        let stream = UnixStream::connect(&self.socket).await.map_err(|error| {
            format!("no process answers at {socket} ({error}): start handbill serve, run this as its user, or give its --admin-socket")
        })?;
        let (mut sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(|error| self.cut_short(&error))?;
        tokio::spawn(connection);
        let request = Request::builder().method(method).uri(path).header("host", "localhost").body(body);
        let request = request.map_err(|error| error.to_string())?;
        let (head, answer) = sender.send_request(request).await.map_err(|error| self.cut_short(&error))?.into_parts();
        if head.status.is_success() {
            return Ok(answer);
        }
        let body = answer.collect().await.map_err(|error| self.cut_short(&error))?.to_bytes();
        Err(serde_json::from_slice::<Refusal>(&body).map_or_else(|_| foreign(head.status), |refusal| refusal.message))
    }

    fn cut_short(&self, error: &hyper::Error) -> String {
        format!(
            "the process at {} ended before its whole answer was there ({error}): run the command again",
            self.socket.display()
        )
    }
}

fn json(body: &impl Serialize) -> Result<Body, String> {
    serde_json::to_vec(body).map(Body::from).map_err(|error| error.to_string())
}

fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, String> {
    serde_json::from_slice(body).map_err(|error| format!("the answer is not as expected ({error}): {VERSIONS}"))
}

fn foreign(status: StatusCode) -> String {
    format!("the process answers {status}: {VERSIONS}")
}

const VERSIONS: &str = "run the command with the program that serves";

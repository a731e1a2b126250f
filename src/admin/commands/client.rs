//! Requests of the operators' commands to the process, over its socket.

use std::io::Write;
use std::path::PathBuf;

use axum::body::Body;
use http::Request;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::net::UnixStream;

use super::CommandError;
use super::terminal::unwritable;
use crate::settings::SocketAccess;

/// Asks the running process over its socket. Errors are one line for the operator.
pub(super) struct Client {
    socket: PathBuf,
}

impl Client {
    pub(super) fn new(access: &SocketAccess) -> Self {
        Self { socket: access.socket() }
    }

    pub(super) async fn ask<T: DeserializeOwned>(&self, path: &str, body: &impl Serialize) -> Result<T, CommandError> {
        self.upload(path, serde_json::to_vec(body).map_err(|error| error.to_string())?).await
    }

    /// The answer comes after the end of `body`.
    pub(super) async fn upload<T: DeserializeOwned>(
        &self,
        path: &str,
        body: impl Into<Body>,
    ) -> Result<T, CommandError> {
        let answer = self.open(path, body.into()).await?;
        let answer = answer.collect().await.map_err(|error| self.cut_short(&error))?.to_bytes();
        serde_json::from_slice(&answer).map_err(|error| {
            format!("the answer is not as expected ({error}): run the command with the program that serves").into()
        })
    }

    /// Returns the number of bytes.
    pub(super) async fn copy(&self, path: &str, to: &mut impl Write) -> Result<usize, CommandError> {
        let mut body = self.open(path, Body::empty()).await?;
        let unwritable = |error| unwritable("the output", &error);
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
    async fn open(&self, path: &str, body: Body) -> Result<Incoming, CommandError> {
        let socket = self.socket.display();
        let stream = UnixStream::connect(&self.socket).await.map_err(|error| {
            format!("no process answers at {socket} ({error}): start handbill serve, run this as its user, or give its --admin-socket")
        })?;
        let (mut sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(|error| self.cut_short(&error))?;
        tokio::spawn(connection);
        let request = Request::post(path).header("host", "localhost").body(body);
        let request = request.map_err(|error| error.to_string())?;
        let (head, answer) = sender.send_request(request).await.map_err(|error| self.cut_short(&error))?.into_parts();
        if head.status.is_success() {
            return Ok(answer);
        }
        let body = answer.collect().await.map_err(|error| self.cut_short(&error))?.to_bytes();
        Err(String::from_utf8_lossy(&body).into_owned().into())
    }

    fn cut_short(&self, error: &hyper::Error) -> CommandError {
        let socket = self.socket.display();
        CommandError::on_its_way(format!(
            "the process at {socket} ended before its whole answer was there ({error}): run the command again"
        ))
    }
}

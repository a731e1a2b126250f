//! Asks the running process over the operators' socket.

use std::{fmt::Display, io::Write, path::PathBuf};

use axum::body::Body;
use http::Request;
use http_body_util::BodyExt;
use hyper::{body::Incoming, client::conn::http1};
use hyper_util::rt::TokioIo;
use serde::{Serialize, de::DeserializeOwned};
use tokio::net::UnixStream;

use super::super::error::{CommandError, unwritable};
use crate::settings::SocketAccess;

/// Errors are one line for the operator.
pub(super) struct Client {
    socket: PathBuf,
}

impl Client {
    pub(super) fn new(access: &SocketAccess) -> Self {
        Self { socket: access.socket() }
    }

    pub(super) async fn ask<T: DeserializeOwned>(&self, path: &str, body: &impl Serialize) -> Result<T, CommandError> {
        self.upload(path, serde_json::to_vec(body).map_err(CommandError::refused)?).await
    }

    /// Sends `body`, and returns the answer that comes after its end.
    pub(super) async fn upload<T: DeserializeOwned>(
        &self,
        path: &str,
        body: impl Into<Body>,
    ) -> Result<T, CommandError> {
        let answer = self.open(path, body.into()).await?;
        let answer = answer.collect().await.map_err(|error| self.cut_short(&error))?.to_bytes();
        serde_json::from_slice(&answer).map_err(|error| {
            CommandError::failed(format!(
                "the answer is not as expected ({error}): run the command with the program that serves"
            ))
        })
    }

    /// Copies an answer to `to`, which has the name `what`, and returns the number of its bytes.
    pub(super) async fn copy(
        &self,
        path: &str,
        body: &impl Serialize,
        what: impl Display,
        to: &mut impl Write,
    ) -> Result<usize, CommandError> {
        let mut body = self.open(path, serde_json::to_vec(body).map_err(CommandError::refused)?.into()).await?;
        let unwritable = |error| unwritable(&what, &error);
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

    /// Sends a request, and returns its answer, which may be long.
    async fn open(&self, path: &str, body: Body) -> Result<Incoming, CommandError> {
        let socket = self.socket.display();
        let stream = UnixStream::connect(&self.socket).await.map_err(|error| {
            CommandError::refused(format!(
                "no process answers at {socket} ({error}): start handbill serve, run this as its user, or give its --admin-socket"
            ))
        })?;
        let (mut sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(|error| self.cut_short(&error))?;
        tokio::spawn(connection);
        let request = Request::post(path).header("host", "localhost").body(body);
        let request = request.map_err(CommandError::refused)?;
        let (head, answer) = sender.send_request(request).await.map_err(|error| self.cut_short(&error))?.into_parts();
        if head.status.is_success() {
            return Ok(answer);
        }
        let body = answer.collect().await.map_err(|error| self.cut_short(&error))?.to_bytes();
        Err(CommandError::refused(String::from_utf8_lossy(&body)))
    }

    fn cut_short(&self, error: &hyper::Error) -> CommandError {
        let socket = self.socket.display();
        CommandError::failed(format!(
            "the process at {socket} ended before its whole answer was there ({error}): run the command again"
        ))
    }
}

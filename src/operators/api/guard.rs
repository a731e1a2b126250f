//! Admits only requests with the operators' token.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use http::header::AUTHORIZATION;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use thiserror::Error;
use tracing::field::display;
use zeroize::Zeroizing;

use super::refusal::OperatorsRefusal;
use crate::telemetry::metrics::Metrics;
use handbill_core::domain::client::{Peer, private_network};
use handbill_core::log_throttle::LogThrottle;
use handbill_core::ports::clock::SharedClock;

/// Shortest token, in characters. `openssl rand -hex 32` makes 64.
const MIN_TOKEN_CHARS: usize = 32;

/// Shortest time between two warnings. Whoever reaches the listener can cause them, so they must not fill the log.
const WARNING_PAUSE: Duration = Duration::from_mins(1);

/// The file with the token, if there is one. It is read at each request, so the token can be replaced without a
/// restart.
#[derive(Clone)]
pub struct TokenFile(Option<Arc<PathBuf>>);

#[derive(Debug, Error)]
pub enum TokenError {
    #[error("{} cannot be read ({reason}): give --admin-token-file a file that this user can read", path.display())]
    Unreadable { path: PathBuf, reason: std::io::Error },
    /// The token could be guessed.
    #[error("the token in {} has fewer than {MIN_TOKEN_CHARS} characters: make one with `openssl rand -hex 32`", .0.display())]
    Short(PathBuf),
}

impl TokenFile {
    pub fn new(path: Option<PathBuf>) -> Self {
        Self(path.map(Arc::new))
    }

    /// The token without white space around it; `None` if no file is set.
    pub fn read(&self) -> Result<Option<Zeroizing<String>>, TokenError> {
        let Some(path) = &self.0 else { return Ok(None) };
        let path = PathBuf::clone(path);
        let text = match fs::read_to_string(&path) {
            Ok(text) => Zeroizing::new(text),
            Err(reason) => return Err(TokenError::Unreadable { path, reason }),
        };
        let token = Zeroizing::new(text.trim().to_owned());
        if token.chars().count() < MIN_TOKEN_CHARS { Err(TokenError::Short(path)) } else { Ok(Some(token)) }
    }
}

/// Asks for the token, and counts the requests without it.
pub struct Guard {
    file: TokenFile,
    metrics: Arc<Metrics>,
    clock: SharedClock,
    throttle: LogThrottle,
}

impl Guard {
    pub fn new(file: TokenFile, metrics: Arc<Metrics>, clock: SharedClock) -> Self {
        Self { file, metrics, clock, throttle: LogThrottle::new(WARNING_PAUSE) }
    }

    fn refuse(&self, request: &Request) -> OperatorsRefusal {
        self.metrics.operator_tokens_refused.inc();
        if self.throttle.allow(self.clock.monotonic()) {
            // A person's address must not be logged.
            let peer = request.extensions().get();
            let peer_network = peer.and_then(|&Peer(peer)| private_network(peer.ip())).map(display);
            tracing::warn!(
                peer_network,
                "a request to the operators' API had a wrong token, or none: if it was not yours, find out who can reach \
                 --admin-listen"
            );
        }
        OperatorsRefusal::unauthorized()
    }
}

/// Passes `request` on if it has the token.
pub(super) async fn check(
    State(guard): State<Arc<Guard>>,
    request: Request,
    next: Next,
) -> Result<Response, OperatorsRefusal> {
    let file = guard.file.clone();
    let expected = tokio::task::spawn_blocking(move || file.read()).await.map_err(|_| OperatorsRefusal::internal())?;
    let expected = expected.map_err(|error| {
        tracing::error!(%error, "the operators' token cannot be read");
        OperatorsRefusal::forbidden("The token file cannot be used; the log says why.")
    })?;
    let Some(expected) = expected else {
        return Err(OperatorsRefusal::forbidden(
            "Operators' routes are closed, because no token is set. Start Handbill with --admin-token-file FILE (the chart: moderation.tokenSecret), and send that file's token as `Authorization: Bearer TOKEN`.",
        ));
    };
    let sent = request.headers().get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    let sent = sent.and_then(|value| value.strip_prefix("Bearer ")).map(str::trim);
    // Hashes have one length, so the comparison takes the same time whatever was sent.
    let is_right = sent.is_some_and(|sent| bool::from(Sha256::digest(sent).ct_eq(&Sha256::digest(expected.as_str()))));
    if is_right { Ok(next.run(request).await) } else { Err(guard.refuse(&request)) }
}

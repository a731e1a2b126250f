//! The Model Context Protocol over Streamable HTTP (spec §4.6; contract, decision 15).
//!
//! `rmcp` speaks the protocol, also to clients of revisions before 2026-07-28. There are no sessions, so any replica
//! answers any request, with one JSON object.

mod guard;
mod hosts;
mod server;
mod tool_calls;
mod tools;

use std::{sync::Arc, time::Duration};

use axum::routing::{MethodRouter, any};
use axum::{body::Body, extract::Request, response::Response};
use http::Method;
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use tokio::{sync::Semaphore, time::timeout};

pub use self::hosts::AllowedHosts;
use self::server::McpServer;
use crate::http::error::{ApiError, Interface};
use crate::http::{AppState, request::MAX_BODY_BYTES};

/// Each holds a result of up to 4 MB, outside any other budget.
const MOST_AT_ONCE: usize = 16;

const MAX_WAIT: Duration = Duration::from_secs(1);

#[derive(Clone)]
struct McpEndpoint {
    service: Arc<StreamableHttpService<McpServer, NeverSessionManager>>,
    turns: Arc<Semaphore>,
}

/// The route of the tools.
pub fn route(app: Arc<AppState>, allowed: &AllowedHosts) -> MethodRouter {
    let tools = McpEndpoint::new(app, allowed);
    any(move |request: Request| tools.clone().answer(request))
}

impl McpEndpoint {
    fn new(app: Arc<AppState>, allowed: &AllowedHosts) -> Self {
        let server = McpServer::new(app);
        let config = StreamableHttpServerConfig::default()
            .with_legacy_session_mode(false)
            .with_json_response(true)
            .with_max_request_body_bytes(MAX_BODY_BYTES)
            .with_allowed_hosts(allowed.hosts())
            .with_allowed_origins(allowed.origins())
            .enforce_origin_validation();
        let service = StreamableHttpService::new(move || Ok(server.clone()), Arc::default(), config);
        let turns = Arc::new(Semaphore::new(MOST_AT_ONCE));
        Self { service: Arc::new(service), turns }
    }

    async fn answer(self, request: Request) -> Response {
        if *request.method() == Method::POST {
            return self.answer_message(request).await;
        }
        // `rmcp` refuses other methods.
        self.service.handle(request).await.map(Body::new)
    }

    async fn answer_message(self, request: Request) -> Response {
        let mut request = match guard::admit(request).await {
            Ok(request) => request,
            Err(refusal) => return refusal,
        };
        let Ok(Ok(turn)) = timeout(MAX_WAIT, self.turns.acquire_owned()).await else {
            return ApiError::too_many_calls().at(Interface::Tools);
        };
        // The call keeps its turn without its client, since `rmcp` answers in its own task.
        let turn = Arc::new(turn);
        request.extensions_mut().insert(Arc::clone(&turn));
        let answer = self.service.handle(request).await.map(Body::new);
        guard::discreet(answer).await
    }
}

//! The way through the public service: every request comes in and goes out here.
//!
//! The checks of the head come first. Then a read of a page and a call of a tool are answered here, at once if the page is
//! in memory, and anything else by the router. [`finish`](super::finish) completes every answer.

use std::convert::Infallible;
use std::future::Ready;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::Router;
use axum::body::Body;
use axum::response::Response;
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Either, ready};
use http::Request;
use http::request::Parts;
use tower::{Service, ServiceExt};

use super::error_response::{error_response, internal_error};
use super::finish::{Asked, Finish};
use super::forwarded_warning::ForwardedWarning;
use super::mcp_host::McpHost;
use super::named_routes::RouteNames;
use super::reads::{Form, Read};
use super::state::Http;
use crate::http::answer::{Answer, later, now};
use crate::http::metadata;
use crate::http::request::head as request_head;
use crate::mcp::Tools;
use crate::telemetry::http::{NamedRoute, Observed, RequestTelemetry};

#[derive(Clone)]
pub struct Front(Arc<Inner>);

pub(super) struct Inner {
    pub(super) http: Arc<Http>,
    pub(super) tools: Tools,
    pub(super) router: Router,
    pub(super) warning: ForwardedWarning,
    pub(super) telemetry: Arc<RequestTelemetry>,
    pub(super) finish: Finish,
    pub(super) mcp_host: Option<McpHost>,
    pub(super) route_names: RouteNames,
}

/// The part that answers a request.
enum Target {
    Read(Read),
    Tools,
    Router,
}

impl Target {
    fn of(head: &Parts) -> Self {
        if head.uri.path() == metadata::path::MCP {
            return Self::Tools;
        }
        Read::of(head).map_or(Self::Router, Self::Read)
    }

    /// The route, whose name the request is observed by.
    fn route<'a>(&self, head: &Parts, routes: &'a RouteNames) -> Option<&'a Arc<NamedRoute>> {
        match self {
            Self::Read(read) if read.form == Form::Json => Some(&routes.json),
            Self::Read(_) => Some(&routes.page),
            Self::Tools => Some(&routes.tools),
            Self::Router => routes.routed(head.uri.path()),
        }
    }
}

impl Front {
    pub(super) fn new(inner: Inner) -> Self {
        Self(Arc::new(inner))
    }

    /// The answer to a request, not completed yet.
    fn begin(&self, target: Target, head: Parts, body: Body) -> Answer<Response> {
        let Inner { http, tools, router, warning, mcp_host, .. } = &*self.0;
        warning.check(&head);
        if let Err(error) = request_head::check(&head) {
            return now(error_response(error));
        }
        if let Some(error) = mcp_host.as_ref().and_then(|host| host.refuse(&head)) {
            return now(error_response(error));
        }
        match target {
            Target::Read(read) => read.answer(http, head),
            Target::Tools => tools.answer(head, body),
            Target::Router => {
                let routed = router.clone().oneshot(Request::from_parts(head, body));
                later(routed.map(|Ok::<_, Infallible>(response)| response))
            }
        }
    }

    fn complete(&self, asked: Asked, observed: Observed, response: Response) -> Response {
        let mut response = self.0.finish.complete(asked, &self.0.tools, response);
        observed.answered(&mut response);
        response
    }
}

impl Service<Request<Body>> for Front {
    type Response = Response;
    type Error = Infallible;
    type Future = Either<Ready<Result<Response, Infallible>>, BoxFuture<'static, Result<Response, Infallible>>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let (mut head, body) = request.into_parts();
        let (target, asked) = (Target::of(&head), Asked::of(&head));
        let may_be_at_once = !matches!(target, Target::Router);
        let route = target.route(&head, &self.0.route_names).cloned();
        let mut observed = self.0.telemetry.begin(&mut head, route, may_be_at_once);
        let begun = catch_unwind(AssertUnwindSafe(|| observed.run_now(|| self.begin(target, head, body))));
        let answering = match begun {
            Ok(Either::Left(response)) => {
                let response = self.complete(asked, observed, response.into_inner());
                return Either::Left(std::future::ready(Ok(response)));
            }
            Ok(Either::Right(answering)) => answering,
            Err(panic) => ready(internal_error(panic)).boxed(),
        };
        let front = self.clone();
        let completing = async move {
            let answering = AssertUnwindSafe(answering).catch_unwind();
            let response = observed.run(answering).await.unwrap_or_else(internal_error);
            Ok(front.complete(asked, observed, response))
        };
        Either::Right(completing.boxed())
    }
}

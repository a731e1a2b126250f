//! Routes with the templates by which spans, metrics and the log name them. The template of every request is found here, before
//! anything answers it.

use std::sync::Arc;

use axum::Router;
use axum::routing::MethodRouter;

use crate::http::metadata::path;
use crate::telemetry::http::NamedRoute;

/// Routes, of which each has its template noted.
pub(super) struct NamedRoutes<S> {
    router: Router<S>,
    templates: Vec<String>,
}

impl<S: Clone + Send + Sync + 'static> NamedRoutes<S> {
    pub(super) fn new() -> Self {
        Self { router: Router::new(), templates: Vec::new() }
    }

    /// The routes of `router`, which have these templates.
    pub(super) fn of(router: Router<S>, templates: impl IntoIterator<Item = String>) -> Self {
        Self { router, templates: templates.into_iter().collect() }
    }

    pub(super) fn route(mut self, template: &str, methods: MethodRouter<S>) -> Self {
        self.templates.push(template.to_owned());
        Self { router: self.router.route(template, methods), ..self }
    }

    pub(super) fn merge(mut self, other: Self) -> Self {
        self.templates.extend(other.templates);
        Self { router: self.router.merge(other.router), ..self }
    }

    pub(super) fn into_parts(self) -> (Router<S>, RouteNames) {
        let mut routed = matchit::Router::new();
        for template in self.templates {
            // The router has taken each of them, and only a template that is there already is refused.
            let _ = routed.insert(template.as_str(), Arc::new(NamedRoute::new(&template)));
        }
        (self.router, RouteNames { json: named(JSON), page: named(PAGE), tools: named(path::MCP), routed })
    }
}

fn named(template: &str) -> Arc<NamedRoute> {
    Arc::new(NamedRoute::new(template))
}

/// Template of the JSON of a page.
const JSON: &str = "/api/pages/{slug}";

/// Template of the other forms of a page.
pub(super) const PAGE: &str = "/{slug}";

pub(super) struct RouteNames {
    /// The route of most requests, which are told from their heads without a look at all routes, and so are the next two.
    pub(super) json: Arc<NamedRoute>,
    pub(super) page: Arc<NamedRoute>,
    pub(super) tools: Arc<NamedRoute>,
    routed: matchit::Router<Arc<NamedRoute>>,
}

impl RouteNames {
    /// The route that the router takes for `path`; `None` if there is none.
    pub(super) fn routed(&self, path: &str) -> Option<&Arc<NamedRoute>> {
        self.routed.at(path).ok().map(|found| found.value)
    }
}

#[cfg(test)]
mod tests {
    use axum::routing::get;

    use super::*;

    #[test]
    fn every_route_has_its_template_as_its_name_and_the_narrowest_counts() {
        let more =
            NamedRoutes::<()>::of(Router::new().route("/api/{slug}", get(|| async {})), ["/api/{slug}".to_owned()]);
        let routes = NamedRoutes::new().route("/", get(|| async {})).route("/{slug}", get(|| async {}));
        let (_, names) = routes.route("/help", get(|| async {})).merge(more).into_parts();
        let name = |path: &str| names.routed(path).map(|route| route.template().to_owned());
        for (path, template) in [("/", "/"), ("/a", "/{slug}"), ("/help", "/help"), ("/api/a", "/api/{slug}")] {
            assert_eq!(name(path).as_deref(), Some(template), "{path}");
        }
        assert_eq!((name("/a/b"), name("/help/"), name("")), (None, None, None));
    }
}

//! The handler that `rmcp` asks: what this server is, its tools, and the results of calls.

use std::borrow::Cow;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;
use http::request::Parts;
use rmcp::model::{
    CacheScope, CallToolRequestParams, CallToolResponse, CompleteRequestParams, CompleteResult, CustomRequest,
    CustomResult, DiscoverResult, ErrorCode, Implementation, JsonObject, ListPromptsResult,
    ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, MetaObject, PaginatedRequestParams,
    ProtocolVersion, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler};

use super::Mcp;
use super::error::error_result;
use super::page_result::PageSlot;
use super::rmcp_compat::supported_versions;
use super::tools::{INSTRUCTIONS, ToolName};
use crate::api::error::{ApiError, Code};
use crate::api::metadata;
use crate::domain::client::Client;
use crate::telemetry::metrics::ToolLabels;
use crate::telemetry::spans::{self, CallerTrace, RequestSpan};

/// How long a client may keep what `server/discover` says, in milliseconds: it changes with the program alone.
const DISCOVER_TTL_MS: u64 = 60 * 60 * 1000;

/// How long a client may keep the list of tools, in milliseconds.
const TOOLS_TTL_MS: u64 = 5 * 60 * 1000;

/// The member of a result's `_meta` that tells who answered.
const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";

/// Methods that are known here, so that one that comes without what it needs is told apart from an unknown one.
const METHODS: [&str; 5] = ["initialize", "ping", "server/discover", "tools/call", "tools/list"];

/// The handler. Clones share everything.
#[derive(Clone)]
pub(super) struct Server(Arc<Inner>);

struct Inner {
    mcp: Mcp,
    tools: Vec<Tool>,
    identity: Implementation,
    versions: Vec<ProtocolVersion>,
}

impl Server {
    pub(super) fn new(mcp: Mcp) -> Self {
        let identity = Implementation::new(metadata::REGISTRY_NAME, metadata::INTERFACE_VERSION)
            .with_title(metadata::TITLE)
            .with_description(metadata::SUMMARY)
            .with_website_url(mcp.base_url.as_str());
        let quotas = mcp.service.quotas();
        let tools = ToolName::ALL.map(|tool| tool.description(&quotas)).to_vec();
        Self(Arc::new(Inner { mcp, tools, identity, versions: supported_versions() }))
    }

    /// Who answers, for the `_meta` of a result; clients of the revisions before learnt it from `initialize`.
    fn meta(&self, context: &RequestContext<RoleServer>) -> Option<MetaObject> {
        is_modern(context).then(|| {
            let identity = serde_json::to_value(&self.0.identity).expect("it is made of strings");
            MetaObject::from(JsonObject::from_iter([(SERVER_INFO.to_owned(), identity)]))
        })
    }

    /// The client that limits count.
    fn client(&self, context: &RequestContext<RoleServer>) -> Client {
        let parts = head(context);
        self.0.mcp.proxies.client(parts)
    }

    fn count(&self, tool: &'static str, outcome: &'static str) {
        self.0.mcp.metrics.tool_calls.get_or_create(&ToolLabels { tool, outcome }).inc();
    }
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(self.0.identity.clone())
            .with_instructions(INSTRUCTIONS)
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        Cow::Owned(self.0.versions.clone())
    }

    async fn discover(&self, _: RequestContext<RoleServer>) -> Result<DiscoverResult, ErrorData> {
        Ok(DiscoverResult::from_server_info(self.0.versions.clone(), self.get_info())
            .with_ttl_ms(DISCOVER_TTL_MS)
            .with_cache_scope(CacheScope::Public))
    }

    async fn list_tools(
        &self,
        page: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        if page.is_some_and(|page| page.cursor.is_some()) {
            let what = "There is one page of tools, and no cursor to another. Leave out `cursor`.";
            return Err(ErrorData::invalid_params(what, None));
        }
        let mut result = ListToolsResult::with_all_items(self.0.tools.clone());
        if is_modern(&context) {
            result = result.with_ttl_ms(TOOLS_TTL_MS).with_cache_scope(CacheScope::Public);
        }
        result.meta = self.meta(&context);
        Ok(result)
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.0.tools.iter().find(|tool| tool.name == name).cloned()
    }

    async fn call_tool(
        &self,
        call: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Some(tool) = ToolName::parse(&call.name) else {
            self.count("_OTHER", "unknown_tool");
            let names = ToolName::ALL.map(ToolName::as_str).join(", ");
            return Err(ErrorData::invalid_params(
                format!("There is no tool of this name. The tools are {names}."),
                None,
            ));
        };
        let arguments = call.arguments.unwrap_or_default();
        let within = head(&context).extensions.get::<RequestSpan>();
        let caller =
            CallerTrace { traceparent: context.meta.get_traceparent(), tracestate: context.meta.get_tracestate() };
        let span = spans::tool(within, caller, tool.as_str());
        let slot = head(&context).extensions.get::<PageSlot>().expect("`mend` puts it there");
        // On the heap, since a call is large and there are many layers of futures around it.
        let calling = Box::pin(self.0.mcp.call(tool, self.client(&context), arguments, slot));
        // The task that calls this is started by `rmcp`, so that the request must be brought here.
        let calling = async {
            match within {
                Some(within) => within.log(calling).await,
                None => calling.await,
            }
        };
        let calling = span.run(calling);
        // Defect: a panic here ends the task that would answer, and the client waits for ever.
        let (mut result, error) = AssertUnwindSafe(calling).catch_unwind().await.unwrap_or_else(|_panic| {
            tracing::error!("a tool panicked");
            (error_result(&ApiError::internal()), Some(Code::Internal))
        });
        let outcome = error.map_or("ok", Code::as_str);
        self.count(tool.as_str(), outcome);
        span.done(outcome, error.is_some_and(|code| code.status() >= 500));
        result.meta = self.meta(&context);
        Ok(result.into())
    }

    // Defect: `rmcp` takes a request whose `params` do not fit for one with an unknown method.
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        Err(match request.method.as_str() {
            // The revision of 2026-07-28 removed it, so there its parameters cannot be at fault.
            "initialize" if is_modern(&context) => unknown_method(),
            "tools/call" => ErrorData::invalid_params(
                "Send the tool's name as the string `params.name` and its arguments as the object `params.arguments`.",
                None,
            ),
            "initialize" => ErrorData::invalid_params(
                "Send `params` with `protocolVersion`, `capabilities` and `clientInfo`, which has `name` and `version`.",
                None,
            ),
            known if METHODS.contains(&known) => {
                ErrorData::invalid_params("The `params` do not fit the method. Check their members.", None)
            }
            _ => unknown_method(),
        })
    }

    // Defect: without these `rmcp` answers methods that were never declared, with empty lists.
    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        Err(unknown_method())
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        Err(unknown_method())
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Err(unknown_method())
    }

    async fn complete(
        &self,
        _: CompleteRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        Err(unknown_method())
    }
}

/// The head of the request that brought a message.
fn head(context: &RequestContext<RoleServer>) -> &Parts {
    context.extensions.get().expect("the transport names the request of every message")
}

/// Whether the request is of a revision without a handshake.
fn is_modern(context: &RequestContext<RoleServer>) -> bool {
    context.protocol_version().is_some_and(|version| version >= ProtocolVersion::V_2026_07_28)
}

pub(super) fn unknown_method() -> ErrorData {
    let what = "This server does not have this method. It has tools: tools/list and tools/call.";
    ErrorData::new(ErrorCode::METHOD_NOT_FOUND, what, None)
}

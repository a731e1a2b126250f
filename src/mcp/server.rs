//! The protocol's methods.

use std::borrow::Cow;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;
use http::request::Parts;
use rmcp::model::{
    CacheScope, CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, CustomRequest, CustomResult,
    DiscoverResult, ErrorCode, ListToolsResult, MetaObject, PaginatedRequestParams, ProtocolVersion,
    ServerCapabilities, ServerConfig,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler};

use super::tool_calls::{Mcp, tool_error};
use super::tools::{INSTRUCTIONS, ToolName};
use crate::http::error::ApiError;
use crate::http::metadata::{self, MCP_PROTOCOL_VERSIONS};
use crate::telemetry::metrics::ToolLabels;
use crate::telemetry::spans;

/// Only a new release changes the answer.
const DISCOVER_TTL_MS: u64 = 60 * 60 * 1000;

/// A restart with other limits changes the list.
const TOOLS_TTL_MS: u64 = 5 * 60 * 1000;

const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";

type Context = RequestContext<RoleServer>;

/// `rmcp` clones it for each request.
#[derive(Clone)]
pub(super) struct McpServer(Arc<Inner>);

struct Inner {
    mcp: Mcp,
    config: ServerConfig,
    versions: Vec<ProtocolVersion>,
    tools: ListToolsResult,
    server_info: MetaObject,
}

impl McpServer {
    pub(super) fn new(mcp: Mcp) -> Self {
        let identity = metadata::identity(&mcp.base_url);
        let mut server_info = MetaObject::default();
        server_info.insert(SERVER_INFO.to_owned(), serde_json::to_value(&identity).expect("strings serialise"));
        let config = ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(identity)
            .with_instructions(INSTRUCTIONS);
        let spoken = |version: &&ProtocolVersion| MCP_PROTOCOL_VERSIONS.contains(&version.as_str());
        let versions = ProtocolVersion::KNOWN_VERSIONS.iter().filter(spoken).cloned().collect();
        let quotas = mcp.service.quotas();
        let tools = ListToolsResult::with_all_items(ToolName::ALL.map(|tool| tool.description(&quotas)).to_vec());
        Self(Arc::new(Inner { mcp, config, versions, tools, server_info }))
    }

    fn count(&self, tool: &'static str, outcome: &'static str) {
        self.0.mcp.metrics.tool_calls.get_or_create(&ToolLabels { tool, outcome }).inc();
    }
}

impl ServerHandler for McpServer {
    fn get_info(&self) -> ServerConfig {
        self.0.config.clone()
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        Cow::Owned(self.0.versions.clone())
    }

    async fn discover(&self, _: Context) -> Result<DiscoverResult, ErrorData> {
        Ok(DiscoverResult::from_server_info(self.0.versions.clone(), self.0.config.clone())
            .with_ttl_ms(DISCOVER_TTL_MS)
            .with_cache_scope(CacheScope::Public))
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        context: Context,
    ) -> Result<ListToolsResult, ErrorData> {
        if request.is_some_and(|request| request.cursor.is_some()) {
            let advice = "The list of tools is one page, without a cursor. Leave out `cursor`.";
            return Err(ErrorData::invalid_params(advice, None));
        }
        let mut tools = self.0.tools.clone();
        if speaks(&context, &ProtocolVersion::V_2026_07_28) {
            tools = tools.with_ttl_ms(TOOLS_TTL_MS).with_cache_scope(CacheScope::Public);
            tools.meta = Some(self.0.server_info.clone());
        }
        Ok(tools)
    }

    async fn call_tool(&self, call: CallToolRequestParams, context: Context) -> Result<CallToolResponse, ErrorData> {
        let Some(tool) = ToolName::parse(&call.name) else {
            self.count("_OTHER", "unknown_tool");
            let names = ToolName::ALL.map(ToolName::as_str).join(", ");
            let advice = format!("There is no tool with this name. The tools are {names}.");
            return Err(ErrorData::invalid_params(advice, None));
        };
        let mcp = &self.0.mcp;
        let head = context.extensions.get::<Parts>().expect("the HTTP service adds the head");
        let span = spans::tool(head, context.meta.get_traceparent(), tool.as_str());
        let client = mcp.proxies.client(head);
        let calling = async { mcp.call(tool, client, call.arguments.unwrap_or_default()).await };
        let result = span.run(AssertUnwindSafe(calling).catch_unwind()).await.unwrap_or_else(|_panic| {
            // The call failed, not the request, and it counts.
            tracing::error!("a tool panicked");
            Err(ApiError::internal())
        });
        let (outcome, status) =
            result.as_ref().map_or_else(|error| (error.code.as_str(), error.code.status()), |_| ("ok", 200));
        self.count(tool.as_str(), outcome);
        span.done(outcome, status >= 500);
        let mut result = match result {
            // A client that names no revision may not know links.
            Ok(result) => result.for_client(speaks(&context, &ProtocolVersion::V_2025_06_18)),
            // Clients check structured content against the output schema even in an error.
            Err(error) => CallToolResult::error(vec![ContentBlock::text(tool_error(&error))]),
        };
        result.meta = speaks(&context, &ProtocolVersion::V_2026_07_28).then(|| self.0.server_info.clone());
        Ok(result.into())
    }

    /// A known method with wrong parameters comes here too.
    async fn on_custom_request(&self, request: CustomRequest, context: Context) -> Result<CustomResult, ErrorData> {
        Err(match request.method.as_str() {
            "tools/call" => ErrorData::invalid_params(
                "Send the tool's name as the string `params.name` and its arguments as the object `params.arguments`.",
                None,
            ),
            "initialize" if !speaks(&context, &ProtocolVersion::V_2026_07_28) => ErrorData::invalid_params(
                "Send `params` with `protocolVersion`, `capabilities` and `clientInfo`, which has `name` and `version`.",
                None,
            ),
            _ => ErrorData::new(
                ErrorCode::METHOD_NOT_FOUND,
                "This server does not have this method. It has tools: tools/list and tools/call.",
                None,
            ),
        })
    }
}

/// Versions are dates, so text compares as time.
fn speaks(context: &Context, version: &ProtocolVersion) -> bool {
    context.protocol_version().is_some_and(|spoken| spoken.as_str() >= version.as_str())
}

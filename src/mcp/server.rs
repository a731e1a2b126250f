//! The protocol's methods.

use std::{borrow::Cow, panic::AssertUnwindSafe, sync::Arc};

use futures_util::FutureExt;
use http::request::Parts;
use rmcp::model::{
    CacheScope, CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, CustomRequest, CustomResult,
    DiscoverResult, ErrorCode, GetSkillRequestParams, GetSkillResult, ListResourcesResult, ListSkillsResult,
    ListToolsResult, MetaObject, PaginatedRequestParams, ProtocolVersion, ReadResourceRequestParams,
    ReadResourceResponse, ReadResourceResult, Resource, ResourceContents, ServerCapabilities, ServerConfig, Skill,
    SkillFrontmatter, SkillResource, SkillResources,
};
use rmcp::{ErrorData, RoleServer, ServerHandler, service::RequestContext};
use serde_json::json;

use super::tool_calls::{self, tool_error};
use super::tools::{INSTRUCTIONS, ToolName};
use crate::http::metadata::{self, MCP_PROTOCOL_VERSIONS};
use crate::http::{AppState, discovery::skill, error::ApiError};
use crate::telemetry::{metrics::ToolLabels, spans};

/// Only a new release, or another address of the server, changes the answer.
const DISCOVER_TTL_MS: u64 = 60 * 60 * 1000;

/// A restart with other limits changes the list.
const TOOLS_TTL_MS: u64 = 5 * 60 * 1000;

const MARKDOWN: &str = "text/markdown";

const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";

type Context = RequestContext<RoleServer>;

/// `rmcp` clones it for each request.
#[derive(Clone)]
pub(super) struct McpServer(Arc<Inner>);

struct Inner {
    app: Arc<AppState>,
    config: ServerConfig,
    versions: Vec<ProtocolVersion>,
    tools: ListToolsResult,
    server_info: MetaObject,
    /// The text of the one skill.
    skill: String,
}

impl McpServer {
    pub(super) fn new(app: Arc<AppState>) -> Self {
        let identity = metadata::identity(&app.base_url);
        let mut server_info = MetaObject::default();
        server_info.insert(SERVER_INFO.to_owned(), serde_json::to_value(&identity).expect("strings serialise"));
        let capabilities = ServerCapabilities::builder().enable_tools().enable_resources().enable_skills();
        let config = ServerConfig::new(capabilities.build()).with_server_info(identity).with_instructions(INSTRUCTIONS);
        let known = ProtocolVersion::KNOWN_VERSIONS.iter();
        let versions = known.filter(|version| MCP_PROTOCOL_VERSIONS.contains(&version.as_str())).cloned().collect();
        let quotas = app.service.quotas();
        let tools = ListToolsResult::with_all_items(ToolName::ALL.map(|tool| tool.description(&quotas)).to_vec());
        let skill = skill::markdown(&app.base_url, &app.site.mcp_url(&app.base_url));
        Self(Arc::new(Inner { app, config, versions, tools, server_info, skill }))
    }

    /// What 2026-07-28 wants in a result that is the same for everybody: how long to keep it, for whom, and who answers.
    fn hints(&self, context: &Context, ttl_ms: u64) -> (Option<u64>, Option<CacheScope>, Option<MetaObject>) {
        if !speaks(context, &ProtocolVersion::V_2026_07_28) {
            return (None, None, None);
        }
        (Some(ttl_ms), Some(CacheScope::Public), Some(self.0.server_info.clone()))
    }

    fn skill(&self) -> Skill {
        let file = SkillResource::from_bytes(skill::URI, self.0.skill.as_bytes());
        let frontmatter = SkillFrontmatter::new(skill::NAME, skill::DESCRIPTION);
        Skill::new(skill::URI, frontmatter, SkillResources::Files(vec![file]))
    }

    fn count(&self, tool: &'static str, outcome: &'static str) {
        self.0.app.telemetry.metrics.tool_calls.get_or_create(&ToolLabels { tool, outcome }).inc();
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
        without_cursor(request)?;
        let mut tools = self.0.tools.clone();
        (tools.ttl_ms, tools.cache_scope, tools.meta) = self.hints(&context, TOOLS_TTL_MS);
        Ok(tools)
    }

    async fn call_tool(&self, call: CallToolRequestParams, context: Context) -> Result<CallToolResponse, ErrorData> {
        let Some(tool) = ToolName::parse(&call.name) else {
            self.count("_OTHER", "unknown_tool");
            let names = ToolName::ALL.map(ToolName::as_str).join(", ");
            let advice = format!("There is no tool with this name. The tools are {names}.");
            return Err(ErrorData::invalid_params(advice, None));
        };
        let app = &self.0.app;
        let head = context.extensions.get::<Parts>().expect("the HTTP service adds the head");
        let span = spans::tool(head, context.meta.get_traceparent(), tool.as_str());
        let client = app.proxies.client(head);
        let calling = async { tool_calls::call(app, tool, client, call.arguments.unwrap_or_default()).await };
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

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        context: Context,
    ) -> Result<ListResourcesResult, ErrorData> {
        without_cursor(request)?;
        let resource = Resource::new(skill::URI, skill::NAME)
            .with_description(skill::DESCRIPTION)
            .with_mime_type(MARKDOWN)
            .with_size(self.0.skill.len() as u64);
        let mut resources = ListResourcesResult::with_all_items(vec![resource]);
        (resources.ttl_ms, resources.cache_scope, resources.meta) = self.hints(&context, DISCOVER_TTL_MS);
        Ok(resources)
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: Context,
    ) -> Result<ReadResourceResponse, ErrorData> {
        if request.uri != skill::URI {
            let advice = format!("The one resource is `{}`.", skill::URI);
            // The guard lets no key through.
            return Err(ErrorData::resource_not_found(advice, Some(json!({"uri": request.uri}))));
        }
        let text = ResourceContents::text(&self.0.skill, skill::URI).with_mime_type(MARKDOWN);
        let mut read = ReadResourceResult::new(vec![text]);
        (read.ttl_ms, read.cache_scope, read.meta) = self.hints(&context, DISCOVER_TTL_MS);
        Ok(read.into())
    }

    async fn list_skills(
        &self,
        request: Option<PaginatedRequestParams>,
        context: Context,
    ) -> Result<ListSkillsResult, ErrorData> {
        without_cursor(request)?;
        let mut skills = ListSkillsResult::with_all_items(vec![self.skill()]);
        (skills.ttl_ms, skills.cache_scope, skills.meta) = self.hints(&context, DISCOVER_TTL_MS);
        Ok(skills)
    }

    async fn get_skill(&self, request: GetSkillRequestParams, context: Context) -> Result<GetSkillResult, ErrorData> {
        if request.uri != skill::URI {
            return Err(ErrorData::invalid_params(format!("The one skill is `{}`.", skill::URI), None));
        }
        let mut got = GetSkillResult::new(self.skill());
        (got.ttl_ms, got.cache_scope, got.meta) = self.hints(&context, DISCOVER_TTL_MS);
        Ok(got)
    }

    /// A known method with wrong parameters comes here too.
    async fn on_custom_request(&self, request: CustomRequest, context: Context) -> Result<CustomResult, ErrorData> {
        Err(match request.method.as_str() {
            "tools/call" => ErrorData::invalid_params(
                "Send the tool's name as the string `params.name` and its arguments as the object `params.arguments`.",
                None,
            ),
            "skills/get" | "resources/read" => {
                ErrorData::invalid_params(format!("Send the string `params.uri`: `{}`.", skill::URI), None)
            }
            "initialize" if !speaks(&context, &ProtocolVersion::V_2026_07_28) => ErrorData::invalid_params(
                "Send `params` with `protocolVersion`, `capabilities` and `clientInfo`, which has `name` and `version`.",
                None,
            ),
            _ => ErrorData::new(ErrorCode::METHOD_NOT_FOUND, "", None),
        })
    }
}

fn without_cursor(request: Option<PaginatedRequestParams>) -> Result<(), ErrorData> {
    match request.and_then(|request| request.cursor) {
        Some(_) => Err(ErrorData::invalid_params("The list is one page, without a cursor. Leave out `cursor`.", None)),
        None => Ok(()),
    }
}

/// Versions are dates, so text compares as time.
fn speaks(context: &Context, version: &ProtocolVersion) -> bool {
    context.protocol_version().is_some_and(|spoken| spoken.as_str() >= version.as_str())
}

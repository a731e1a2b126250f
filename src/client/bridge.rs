//! `handbill mcp`: the tools of a server for agents that speak the Model Context Protocol over standard input and output,
//! with the keys of the key file.
//!
//! Each message is passed to the server's `/mcp`, and its answer back. Four things differ from the server: a key that
//! `create_page` returns is kept before the agent sees it; a call without `edit_key` gets the kept key; the list of tools
//! says so; and there is one more tool, `list_pages`, which shows the kept pages without their keys.

use std::io::{self, BufRead, Write};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use serde_json::{Value, json};

use super::api::{Api, CreatedPage, not_handbill};
use super::args::ConnectionArgs;

use super::error::ClientError;
use super::key_file::{KeptKey, KeyFile};
use super::keys::{forget_page, keep};
use super::reference::PageReference;
use crate::domain::origin::Origin;

/// The member of `_meta` that names the revision in revisions without a handshake.
const VERSION_IN_META: &str = "io.modelcontextprotocol/protocolVersion";

/// The name of the tool that only the bridge has.
const LIST_PAGES: &str = "list_pages";

/// JSON-RPC's code for an internal error.
const INTERNAL_ERROR: i32 = -32603;

/// JSON-RPC's code for a message that is not JSON.
const PARSE_ERROR: i32 = -32700;

struct Bridge {
    api: Api,
    server: Origin,
    keys: KeyFile,
    /// The revision that `initialize` agreed on.
    agreed: Option<String>,
}

/// Answers messages until standard input ends.
pub(super) async fn run(connection: ConnectionArgs) -> Result<(), ClientError> {
    let mut bridge = Bridge {
        api: Api::new(connection.wait)?,
        server: connection.server,
        keys: KeyFile::in_directory(connection.keys.keys_dir)?,
        agreed: None,
    };
    for line in io::stdin().lock().lines() {
        let line = line.map_err(|error| ClientError::Failed(format!("could not read standard input ({error})")))?;
        if line.trim().is_empty() {
            continue;
        }
        let answer = match serde_json::from_str(&line) {
            Ok(message) => bridge.answer(message).await,
            Err(_) => Some(failure(&Value::Null, PARSE_ERROR, "The line is not one JSON-RPC message.")),
        };
        let Some(answer) = answer else { continue };
        let mut out = io::stdout();
        let written = writeln!(out, "{answer}").and_then(|()| out.flush());
        written.map_err(|error| ClientError::Failed(format!("could not write to standard output ({error})")))?;
    }
    Ok(())
}

impl Bridge {
    /// The answer to `message`; `None` for a notification.
    async fn answer(&mut self, mut message: Value) -> Option<Value> {
        let id = message.get("id").cloned();
        let method = message["method"].as_str().unwrap_or_default().to_owned();
        let tool = message["params"]["name"].as_str().unwrap_or_default().to_owned();
        if method == "tools/call" && tool == LIST_PAGES {
            return id.map(|id| self.list_pages(&id, &message));
        }
        if method == "tools/call"
            && let Err(error) = self.add_key(&mut message)
        {
            return id.map(|id| failure(&id, INTERNAL_ERROR, &error.to_string()));
        }
        let mut answer = match self.forward(&message, &method, &tool).await {
            Ok(answer) => answer?,
            Err(error) => return id.map(|id| failure(&id, INTERNAL_ERROR, &error.to_string())),
        };
        match method.as_str() {
            "initialize" => self.agreed = answer["result"]["protocolVersion"].as_str().map(str::to_owned),
            "tools/list" => describe_kept_keys(&mut answer),
            // The error may show the key, and clients write this stream to their logs. The agent has the key.
            "tools/call" if tool == "create_page" && self.keep_key(&message, &answer).is_err() => {
                let path = self.keys.path();
                eprintln!(
                    "handbill: the key of a new page could not be kept in {}; only the agent has it",
                    path.display()
                );
            }
            "tools/call" if tool == "delete_page" => self.forget(&answer),
            _ => {}
        }
        Some(answer)
    }

    /// The server's answer; `None` if it has none, as for a notification.
    async fn forward(&self, message: &Value, method: &str, tool: &str) -> Result<Option<Value>, ClientError> {
        let in_meta = message["params"]["_meta"][VERSION_IN_META].as_str();
        let mut headers = HeaderMap::new();
        let mut set = |name, value: &str| {
            if let Ok(value) = HeaderValue::try_from(value) {
                headers.insert(HeaderName::from_static(name), value);
            }
        };
        set("accept", "application/json, text/event-stream");
        if let Some(version) = in_meta.or(self.agreed.as_deref()).filter(|_| method != "initialize") {
            set("mcp-protocol-version", version);
        }
        if in_meta.is_some() {
            set("mcp-method", method);
            if !tool.is_empty() {
                set("mcp-name", tool);
            }
        }
        let body = Bytes::from(message.to_string());
        let answer = self.api.send(Method::POST, &self.server, "/mcp", headers, Some(body)).await?;
        if answer.body.is_empty() && answer.status.is_success() {
            return Ok(None);
        }
        serde_json::from_slice(&answer.body).map(Some).map_err(|_| not_handbill(&self.server))
    }

    /// The page that the arguments of a call name.
    fn page_in(&self, message: &Value) -> Option<PageReference> {
        PageReference::parse(message["params"]["arguments"]["slug"].as_str()?, &self.server).ok()
    }

    /// Adds the kept key to a call that has none.
    fn add_key(&self, message: &mut Value) -> Result<(), ClientError> {
        let needs_key = matches!(message["params"]["name"].as_str(), Some("update_page" | "delete_page"));
        let has_key = message["params"]["arguments"]["edit_key"].as_str().is_some_and(|key| !key.trim().is_empty());
        let Some(page) = self.page_in(message).filter(|page| page.server == self.server) else { return Ok(()) };
        if needs_key
            && !has_key
            && let Some(kept) = self.keys.find(&page)?
        {
            message["params"]["arguments"]["edit_key"] = kept.edit_key.into();
        }
        Ok(())
    }

    fn keep_key(&self, message: &Value, answer: &Value) -> Result<(), ClientError> {
        let created = &answer["result"]["structuredContent"];
        let Ok(created) = serde_json::from_value::<CreatedPage>(created.clone()) else { return Ok(()) };
        let title = message["params"]["arguments"]["title"].as_str().map(str::to_owned);
        keep(&self.keys, &created, title, None)
    }

    /// Forgets the key of a page that was deleted.
    fn forget(&self, answer: &Value) {
        let deleted = &answer["result"]["structuredContent"];
        let slug = deleted["slug"].as_str().filter(|_| deleted["deleted"] == true);
        let Some(Ok(page)) = slug.map(|slug| PageReference::parse(slug, &self.server)) else { return };
        if let Err(error) = forget_page(&self.keys, &page) {
            eprintln!("handbill: {error}");
        }
    }

    fn list_pages(&self, id: &Value, message: &Value) -> Value {
        let pages = match self.keys.pages() {
            Ok(pages) => pages,
            Err(error) => return failure(id, INTERNAL_ERROR, &error.to_string()),
        };
        let on_server = pages.iter().filter(|page| page.reference().is_some_and(|page| page.server == self.server));
        let list: Vec<_> = on_server
            .map(|KeptKey { url, title, created_at, .. }| json!({"url": url, "title": title, "created_at": created_at}))
            .collect();
        let list = json!({"pages": list});
        let mut result = json!({
            "content": [{"type": "text", "text": list.to_string()}],
            "structuredContent": list,
            "isError": false,
        });
        if message["params"]["_meta"][VERSION_IN_META].is_string() {
            result["resultType"] = json!("complete");
        }
        json!({"jsonrpc": "2.0", "id": id, "result": result})
    }
}

/// Makes `edit_key` optional in the list of tools, and adds `list_pages`.
fn describe_kept_keys(answer: &mut Value) {
    let Some(tools) = answer["result"]["tools"].as_array_mut() else { return };
    for tool in tools.iter_mut() {
        if let Some(key) = tool.pointer_mut("/inputSchema/properties/edit_key/description") {
            *key = json!(
                "The page's edit key. Leave it out if list_pages shows the page: its key is kept on this machine."
            );
        }
        if let Some(required) = tool["inputSchema"]["required"].as_array_mut() {
            required.retain(|name| name != "edit_key");
        }
    }
    tools.push(json!({
        "name": LIST_PAGES,
        "title": "List the kept pages",
        "description": "Lists the pages whose edit keys are kept on this machine, newest last. They can be updated and deleted without `edit_key`.",
        "inputSchema": {"type": "object", "properties": {}, "additionalProperties": false},
        "outputSchema": {
            "type": "object",
            "properties": {"pages": {"type": "array", "items": {
                "type": "object",
                "properties": {
                    "url": {"type": "string", "format": "uri", "description": "The page's public address."},
                    "title": {"type": ["string", "null"], "description": "The title when it was published."},
                    "created_at": {"type": ["string", "null"], "description": "When the page was created."},
                },
                "required": ["url", "title", "created_at"],
            }}},
            "required": ["pages"],
        },
        "annotations": {"readOnlyHint": true, "destructiveHint": false, "idempotentHint": true, "openWorldHint": false},
    }));
}

fn failure(id: &Value, code: i32, message: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}})
}

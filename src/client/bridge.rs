//! `handbill mcp`: the tools of a server for agents that speak the Model Context Protocol over standard input and output,
//! with the keys of the key file.
//!
//! Each message is passed to the server's `/mcp`, and its answer back. Four things differ from the server: `create_page`
//! goes to the REST API with a key that was made and kept here, so that a lost answer loses no page; a call without
//! `edit_key` gets the kept key; the list of tools says so; and there is one more tool, `list_pages`, which shows the kept
//! pages without their keys.

use std::io::{self, BufRead, Write};

use bytes::Bytes;
use http::header::RETRY_AFTER;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use super::api::{Api, CreatedPage, not_handbill};
use super::args::ConnectionArgs;
use super::error::ClientError;
use super::key_file::{KeptKey, KeyFile};
use super::keys::{forget_page, keep};
use super::publishing::Outgoing;
use super::reference::PageReference;
use handbill_core::domain::edit_key::{EditKey, PUBLISHED_KEY_WARNING};
use handbill_core::domain::origin::Origin;

/// The member of `_meta` that names the revision in revisions without a handshake.
const VERSION_IN_META: &str = "io.modelcontextprotocol/protocolVersion";

/// The name of the tool that only the bridge has.
const LIST_PAGES: &str = "list_pages";

/// Most bytes of an answer that the bridge changes or learns from. The longest is the list of tools, with about 30 KB. Once
/// it is read, `[0,0,…]` takes sixteen times its bytes. Pages are larger, and are passed on as they are.
const MAX_READ_BYTES: usize = 1024 * 1024;

/// What the server says of keys, and what is true here.
const DIFFERENT_WORDS: [(&str, &str); 5] = [
    (
        "The key is shown only then and cannot be recovered: give it to the user, save it for later changes, and never publish it.",
        "The key is saved on this machine; never publish it.",
    ),
    (
        "Send the page's edit key as the argument `edit_key`. It was shown once, when the page was created.",
        "No key for this page is saved here; list_pages shows the pages that can be changed.",
    ),
    ("take the `slug` and the key;", "take the `slug`;"),
    (
        "Returns `url` and `edit_key`. The key is shown only now and cannot be recovered: give it to the user, never publish it.",
        "Returns `url` and `edit_key`. The key is saved on this machine; never publish it.",
    ),
    ("Needs its edit key.", "Uses the edit key that is saved on this machine."),
];

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
        api: Api::new(connection.wait),
        server: connection.server()?,
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
    /// The answer to `message`, in one line; `None` for a notification.
    async fn answer(&mut self, mut message: Value) -> Option<String> {
        let id = message.get("id").cloned();
        let method = message["method"].as_str().unwrap_or_default().to_owned();
        let tool = message["params"]["name"].as_str().unwrap_or_default().to_owned();
        if method == "tools/call" && tool == LIST_PAGES {
            return id.map(|id| self.list_pages(&id, &message));
        }
        if method == "tools/call"
            && tool == "create_page"
            && let (Some(id), Some([title, content])) = (&id, new_page_in(&message))
        {
            let created = self.create(&message, title, content).await;
            return Some(match created {
                Ok(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string(),
                Err(error) => failure(id, INTERNAL_ERROR, &error.to_string()),
            });
        }
        if method == "tools/call"
            && let Err(error) = self.add_key(&mut message)
        {
            return id.map(|id| failure(&id, INTERNAL_ERROR, &error.to_string()));
        }
        let is_keyless = message["params"]["arguments"]["edit_key"].as_str().is_none_or(|key| key.trim().is_empty());
        let mut answer = match self.forward(&message, &method, &tool).await {
            Ok(answer) => answer?,
            Err(error) => return id.map(|id| failure(&id, INTERNAL_ERROR, &error.to_string())),
        };
        let is_about_keys = match method.as_str() {
            "initialize" | "tools/list" => true,
            // Such an answer is an error, which holds no text of a page.
            "tools/call" => is_keyless && matches!(&*tool, "update_page" | "delete_page"),
            _ => false,
        };
        if is_about_keys && answer.len() <= MAX_READ_BYTES {
            for (on_a_server, here) in DIFFERENT_WORDS {
                answer = answer.replace(on_a_server, here);
            }
        }
        let is_read = match method.as_str() {
            "initialize" | "tools/list" => true,
            "tools/call" => tool == "delete_page",
            _ => false,
        };
        if !is_read {
            return Some(answer);
        }
        if answer.len() > MAX_READ_BYTES {
            let server = &self.server;
            let advice = format!(
                "{server} gave an answer of more than {MAX_READ_BYTES} bytes to {method}, which no Handbill server does: check --server"
            );
            return id.map(|id| failure(&id, INTERNAL_ERROR, &advice));
        }
        let mut answer: Value = serde_json::from_str(&answer).unwrap_or_default();
        match method.as_str() {
            "initialize" => self.agreed = answer["result"]["protocolVersion"].as_str().map(str::to_owned),
            "tools/list" => describe_kept_keys(&mut answer),
            _ => self.forget(&answer),
        }
        Some(answer.to_string())
    }

    /// The server's answer, which is JSON in one line; `None` if it has none, as for a notification.
    async fn forward(&self, message: &Value, method: &str, tool: &str) -> Result<Option<String>, ClientError> {
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
        if answer.body().is_empty() && answer.status().is_success() {
            return Ok(None);
        }
        let text = String::from_utf8(answer.into_body().into()).map_err(|_| not_handbill(&self.server))?;
        serde_json::from_str::<IgnoredAny>(&text).map_err(|_| not_handbill(&self.server))?;
        // In JSON a line break is white space: within a string it has another form.
        Ok(Some(if text.contains(['\n', '\r']) { text.replace(['\n', '\r'], " ") } else { text }))
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

    /// The result of a create, whose key is on disk before the page is sent.
    async fn create(&self, message: &Value, title: &str, content: &str) -> Result<Value, ClientError> {
        let outgoing = Outgoing::begin(&self.keys, &self.server, title, content)?;
        let answer = self.api.send_create(&self.server, &outgoing).await?;
        let status = answer.status();
        let mut shown: Value = serde_json::from_slice(answer.body()).map_err(|_| not_handbill(&self.server))?;
        let texts = if status.is_success() {
            let created = CreatedPage::in_answer(&answer, &self.server)?;
            match keep(&self.keys, &created, Some(title.to_owned()), None) {
                Ok(()) => outgoing.end(),
                // The error shows the key, and clients write this stream to their logs. The agent has the key.
                Err(_) => eprintln!(
                    "handbill: the key of a new page could not be kept in {}; only the agent has it",
                    self.keys.path().display()
                ),
            }
            let holds_key = [title, content].into_iter().any(EditKey::stands_in);
            [Some(shown.to_string()), holds_key.then(|| PUBLISHED_KEY_WARNING.to_owned())]
        } else {
            shown["status"] = status.as_u16().into();
            let after = answer.headers().get(RETRY_AFTER).and_then(|after| after.to_str().ok()?.parse::<u64>().ok());
            if let Some(after) = after {
                shown["retry_after"] = after.into();
            }
            [Some(shown.to_string()), None]
        };
        let texts = texts.into_iter().flatten().map(|text| json!({"type": "text", "text": text}));
        let mut result = json!({"content": texts.collect::<Vec<_>>(), "isError": !status.is_success()});
        if status.is_success() {
            result["structuredContent"] = shown;
        }
        Ok(completed(result, message))
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

    fn list_pages(&self, id: &Value, message: &Value) -> String {
        let pages = match self.keys.pages() {
            Ok(pages) => pages,
            Err(error) => return failure(id, INTERNAL_ERROR, &error.to_string()),
        };
        let on_server = pages.iter().filter(|page| page.reference().is_some_and(|page| page.server == self.server));
        let list: Vec<_> = on_server
            .rev()
            .map(|KeptKey { url, title, created_at, .. }| json!({"url": url, "title": title, "created_at": created_at}))
            .collect();
        let list = json!({"pages": list});
        let result = json!({
            "content": [{"type": "text", "text": list.to_string()}],
            "structuredContent": list,
            "isError": false,
        });
        json!({"jsonrpc": "2.0", "id": id, "result": completed(result, message)}).to_string()
    }
}

/// Title and content of a create whose arguments fit. All others go to the server, whose error says what is wrong.
fn new_page_in(message: &Value) -> Option<[&str; 2]> {
    let arguments = message["params"]["arguments"].as_object()?;
    let are_known =
        arguments.iter().all(|(name, value)| matches!(name.as_str(), "title" | "content") || value.is_null());
    are_known.then_some([arguments.get("title")?.as_str()?, arguments.get("content")?.as_str()?])
}

/// `result` as the revision of `message` has it.
fn completed(mut result: Value, message: &Value) -> Value {
    if message["params"]["_meta"][VERSION_IN_META].is_string() {
        result["resultType"] = json!("complete");
    }
    result
}

/// Makes `edit_key` optional in the list of tools, and adds `list_pages`.
fn describe_kept_keys(answer: &mut Value) {
    // An error has no tools, and must not get any.
    let Some(tools) = answer.pointer_mut("/result/tools").and_then(Value::as_array_mut) else { return };
    for tool in tools.iter_mut() {
        if let Some(key) = tool.pointer_mut("/inputSchema/properties/edit_key/description") {
            *key = json!(
                "The page's edit key. Leave it out if list_pages shows the page: its key is saved on this machine."
            );
        }
        if let Some(required) = tool.pointer_mut("/inputSchema/required").and_then(Value::as_array_mut) {
            required.retain(|name| name != "edit_key");
        }
    }
    tools.push(json!({
        "name": LIST_PAGES,
        "title": "List your pages",
        "description": "Lists the pages whose edit keys are saved on this machine, newest first. They can be updated and deleted without `edit_key`.",
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

fn failure(id: &Value, code: i32, message: &str) -> String {
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}}).to_string()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::outbound::tests::{ENDLESS, hostile_server};

    /// The answer of a bridge to a request with `method`, if its server answers with `head` and `body`.
    async fn answer_to(method: &str, head: &'static str, body: &'static [u8], is_endless: bool) -> String {
        let home = tempfile::tempdir().unwrap();
        let mut bridge = Bridge {
            api: Api::new(Duration::ZERO),
            server: Origin::parse(&hostile_server(head, body, is_endless).await).unwrap(),
            keys: KeyFile::in_directory(Some(home.path().to_owned())).unwrap(),
            agreed: None,
        };
        bridge.answer(json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": {}})).await.unwrap()
    }

    #[tokio::test]
    async fn an_agent_learns_that_a_server_answers_without_an_end() {
        let answer: Value =
            serde_json::from_str(&answer_to("tools/call", ENDLESS, &[b' '; 16384], true).await).unwrap();
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(7), &json!(INTERNAL_ERROR)));
        let message = answer["error"]["message"].as_str().unwrap();
        assert!(message.contains("an answer of more than 16 MiB"), "{message}");
    }

    #[tokio::test]
    async fn an_answer_that_would_fill_the_memory_once_it_is_read_is_not_read() {
        let zeros = format!("[{}0]", "0,".repeat(MAX_READ_BYTES)).leak().as_bytes();
        for method in ["initialize", "tools/list"] {
            let answer = answer_to(method, ENDLESS, zeros, false).await;
            assert!(answer.contains("more than 1048576 bytes"), "{answer}");
        }
    }

    #[tokio::test]
    async fn an_answer_to_the_list_of_tools_without_tools_stays_as_it_is() {
        let answers: [&'static [u8]; 5] =
            [br#"{"error":{"code":-32000}}"#, b"[]", br#"{"result":[]}"#, br#""x""#, br#"{"result":{"tools":"x"}}"#];
        for body in answers {
            let answer = answer_to("tools/list", ENDLESS, body, false).await;
            assert_eq!(answer.as_bytes(), body);
        }
        let odd = answer_to("tools/list", ENDLESS, br#"{"result":{"tools":["x",{"inputSchema":"x"}]}}"#, false).await;
        assert!(odd.contains(LIST_PAGES), "{odd}");
    }

    #[tokio::test]
    async fn an_answer_is_passed_on_as_it_is_in_one_line() {
        let answer = answer_to("tools/call", ENDLESS, b"{\"z\": 1.0,\n \"a\": \"b\\n\"}\r\n", false).await;
        assert_eq!(answer, "{\"z\": 1.0,  \"a\": \"b\\n\"}  ");
    }
}

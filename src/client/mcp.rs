//! `handbill mcp`: a local MCP server over standard input and output, with the saved keys.
//!
//! It passes each message to the server's `/mcp`, except that `create_page` goes to the REST API with a key that is
//! saved first, and that the agent never sees. Calls get the saved key, and there is one more tool, `list_pages`.

use std::io::{self, BufRead};

use http::{HeaderMap, HeaderName, HeaderValue, Method};
use serde_json::{Value, json};

use super::api::{Api, not_handbill, retry_after};
use super::args::ConnectionArgs;
use super::key_file::{KeyFile, SavedKey};
use super::page::PageReference;
use super::print_line;
use super::publish::{Draft, publish};
use super::{ClientError, Result};
use handbill_pages::values::edit_key::{EditKey, PUBLISHED_KEY_WARNING};
use handbill_pages::values::origin::Origin;

/// Member of `_meta` for the revision, if there was no handshake.
const VERSION_IN_META: &str = "io.modelcontextprotocol/protocolVersion";

const LIST_PAGES: &str = "list_pages";

/// What the server says of keys, and what is true here.
const DIFFERENT_WORDS: [(&str, &str); 5] = [
    (
        "create_page returns `url` and `edit_key`. The key is shown only then and cannot be recovered: give it to the user, save it for later changes, and never publish it.",
        "create_page returns `url`. The edit key is saved on this machine.",
    ),
    (
        "Send the page's edit key as the argument `edit_key`. It was shown once, when the page was created.",
        "No key for this page is saved here; list_pages shows the pages that can be changed.",
    ),
    ("take the `slug` and the key;", "take the `slug`;"),
    (
        "Returns `url` and `edit_key`. The key is shown only now and cannot be recovered: give it to the user, never publish it. The result also has a text for the user alone: the secret edit link, `<url>/edit#<edit_key>`.",
        "Returns `url`. The edit key is saved on this machine.",
    ),
    ("Needs its edit key.", "Uses the edit key that is saved on this machine."),
];

const INTERNAL_ERROR: i32 = -32603;

const PARSE_ERROR: i32 = -32700;

struct Bridge {
    api: Api,
    server: Origin,
    keys: KeyFile,
    /// The revision from `initialize`.
    agreed: Option<String>,
}

pub(super) fn run(connection: &ConnectionArgs) -> Result<()> {
    let (keys, server) = (connection.keys()?, connection.server()?);
    let mut bridge = Bridge { api: Api::new(connection.wait), server, keys, agreed: None };
    for line in io::stdin().lock().lines() {
        let line = line.map_err(|error| ClientError::cannot("read standard input", &error))?;
        if line.trim().is_empty() {
            continue;
        }
        let answer = match serde_json::from_str(&line) {
            Ok(message) => bridge.answer(message),
            Err(_) => Some(failure(&Value::Null, PARSE_ERROR, "The line is not one JSON-RPC message.")),
        };
        let Some(answer) = answer else { continue };
        print_line(&answer.to_string())?;
    }
    Ok(())
}

impl Bridge {
    /// `None` for a notification.
    fn answer(&mut self, message: Value) -> Option<Value> {
        let id = message.get("id").cloned();
        self.try_answer(message).unwrap_or_else(|error| id.map(|id| failure(&id, INTERNAL_ERROR, &error.to_string())))
    }

    fn try_answer(&mut self, mut message: Value) -> Result<Option<Value>> {
        let method = message["method"].as_str().unwrap_or_default().to_owned();
        let tool = message["params"]["name"].as_str().filter(|_| method == "tools/call").unwrap_or_default().to_owned();
        let is_change = matches!(&*tool, "update_page" | "delete_page");
        if tool == LIST_PAGES {
            return self.list_pages(&message).map(Some);
        }
        if tool == "create_page"
            && let Some(draft) = draft_in(&message)
        {
            return self.create(&message, draft).map(Some);
        }
        let has_key = !is_change || self.add_key(&mut message)?;
        let Some(mut answer) = self.forward(&message, &method)? else { return Ok(None) };
        // Without a key, the answer has no page's text that could be replaced.
        if matches!(&*method, "initialize" | "tools/list") || !has_key {
            for (on_a_server, here) in DIFFERENT_WORDS {
                answer = answer.replace(on_a_server, here);
            }
        }
        let mut answer: Value = serde_json::from_str(&answer).map_err(|_| not_handbill(&self.server))?;
        match (&*method, &*tool) {
            ("initialize", _) => self.agreed = answer["result"]["protocolVersion"].as_str().map(str::to_owned),
            ("tools/list", _) => describe_saved_keys(&mut answer),
            (_, "delete_page") => self.forget(&answer),
            _ => {}
        }
        Ok(Some(answer))
    }

    /// `None` for a notification.
    fn forward(&self, message: &Value, method: &str) -> Result<Option<String>> {
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
            // A resource is named by its address.
            let params = &message["params"];
            if let Some(name) = params["name"].as_str().or(params["uri"].as_str()) {
                set("mcp-name", name);
            }
        }
        let answer = self.api.send(Method::POST, &self.server, "/mcp", headers, Some(message))?;
        let is_nothing = answer.body().is_empty() && answer.status().is_success();
        Ok(Some(answer.into_body()).filter(|_| !is_nothing))
    }

    /// Returns whether the call has a key now.
    fn add_key(&self, message: &mut Value) -> Result<bool> {
        let arguments = &mut message["params"]["arguments"];
        if arguments["edit_key"].as_str().is_some_and(|key| !key.trim().is_empty()) {
            return Ok(true);
        }
        let page = arguments["slug"].as_str().and_then(|slug| PageReference::parse(slug, &self.server).ok());
        let Some(page) = page.filter(|page| page.server == self.server) else { return Ok(false) };
        let saved = self.keys.find(&page)?;
        if let Some(SavedKey { edit_key, .. }) = &saved {
            arguments["edit_key"] = edit_key.as_str().into();
        }
        Ok(saved.is_some())
    }

    fn create(&self, message: &Value, draft: Draft) -> Result<Value> {
        let holds_key = [&draft.title, &draft.content].into_iter().any(|text| EditKey::stands_in(text));
        Ok(match publish(&self.api, &self.keys, &self.server, draft)? {
            Ok(SavedKey { url, created_at, .. }) => {
                let slug = url.rsplit('/').next();
                let created = json!({"slug": slug, "url": url, "created_at": created_at});
                let mut answer = result(message, &created, false);
                if holds_key && let Some(texts) = answer["result"]["content"].as_array_mut() {
                    texts.push(json!({"type": "text", "text": PUBLISHED_KEY_WARNING}));
                }
                answer
            }
            Err(refusal) => {
                let mut shown: Value = serde_json::from_str(refusal.body()).map_err(|_| not_handbill(&self.server))?;
                shown["status"] = refusal.status().as_u16().into();
                if let Some(after) = retry_after(&refusal) {
                    shown["retry_after"] = after.into();
                }
                result(message, &shown, true)
            }
        })
    }

    fn forget(&self, answer: &Value) {
        let deleted = &answer["result"]["structuredContent"];
        let slug = deleted["slug"].as_str().filter(|_| deleted["deleted"] == true);
        let Some(Ok(page)) = slug.map(|slug| PageReference::parse(slug, &self.server)) else { return };
        if let Err(error) = self.keys.forget(&page) {
            eprintln!("handbill: {error}");
        }
    }

    fn list_pages(&self, message: &Value) -> Result<Value> {
        let keys = self.keys.keys()?;
        let here = keys.iter().rev().filter(|saved| saved.page().is_some_and(|page| page.server == self.server));
        let pages: Vec<_> = here
            .map(
                |SavedKey { url, title, created_at, .. }| json!({"url": url, "title": title, "created_at": created_at}),
            )
            .collect();
        Ok(result(message, &json!({"pages": pages}), false))
    }
}

/// A call whose arguments fit; the server explains what is wrong with others.
fn draft_in(message: &Value) -> Option<Draft> {
    let mut others = message["params"]["arguments"].as_object()?.clone();
    others.retain(|_, value| !value.is_null());
    let mut text = |name| Some(others.remove(name)?.as_str()?.to_owned());
    let title = text("title")?;
    let content = text("content")?;
    let has_key = others.contains_key("edit_key");
    (!has_key).then_some(Draft { title, content, others, source: None })
}

/// The form depends on the revision.
fn result(message: &Value, shown: &Value, is_error: bool) -> Value {
    let mut result = json!({"content": [{"type": "text", "text": shown.to_string()}], "isError": is_error});
    if !is_error {
        result["structuredContent"] = shown.clone();
    }
    if message["params"]["_meta"][VERSION_IN_META].is_string() {
        result["resultType"] = json!("complete");
    }
    json!({"jsonrpc": "2.0", "id": message["id"], "result": result})
}

fn describe_saved_keys(answer: &mut Value) {
    // An error has no tools.
    let Some(tools) = answer.pointer_mut("/result/tools").and_then(Value::as_array_mut) else { return };
    for tool in tools.iter_mut() {
        if let Some(key) = tool.pointer_mut("/inputSchema/properties/edit_key/description") {
            *key = json!(
                "The page's edit key. Leave it out if list_pages shows the page: its key is saved on this machine."
            );
        }
        for schema in ["/inputSchema/required", "/outputSchema/required"] {
            if let Some(required) = tool.pointer_mut(schema).and_then(Value::as_array_mut) {
                required.retain(|name| name != "edit_key");
            }
        }
    }
    tools.push(json!({
        "name": LIST_PAGES,
        "title": "List your pages",
        "description": "Lists the pages whose edit keys are saved on this machine, newest first. They can be updated and deleted without `edit_key`.",
        "inputSchema": {"type": "object", "properties": {}, "additionalProperties": false},
        "annotations": {"readOnlyHint": true, "openWorldHint": false},
    }));
}

fn failure(id: &Value, code: i32, message: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}})
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::api::tests::{ENDLESS, hostile_server};
    use super::*;

    /// The answer of a bridge to a request with `method`, if its server answers with `body`.
    fn answer_to(method: &str, body: &'static [u8], is_endless: bool) -> Value {
        let home = tempfile::tempdir().unwrap();
        let mut bridge = Bridge {
            api: Api::new(Duration::ZERO),
            server: hostile_server(ENDLESS, body, is_endless),
            keys: KeyFile::in_directory(home.path().to_owned()),
            agreed: None,
        };
        bridge.answer(json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": {}})).unwrap()
    }

    #[test]
    fn arguments_of_a_newer_server_are_published_with_a_saved_key() {
        let draft = |arguments| draft_in(&json!({"params": {"arguments": arguments}}));
        let newer = draft(json!({"title": "T", "content": "c", "author": "A", "absent": null})).unwrap();
        assert_eq!(Value::from(newer.others), json!({"author": "A"}));
        assert!(draft(json!({"title": "T", "content": "c", "edit_key": "hbk_"})).is_none());
    }

    #[test]
    fn an_agent_learns_that_a_server_answers_without_an_end() {
        let answer = answer_to("tools/call", &[b' '; 16384], true);
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(7), &json!(INTERNAL_ERROR)));
        let message = answer["error"]["message"].as_str().unwrap();
        assert!(message.contains("is larger than request limit: 16777216"), "{message}");
    }

    #[test]
    fn an_answer_to_the_list_of_tools_without_tools_stays_as_it_is() {
        for body in [r#"{"error":{"code":-32000}}"#, "[]", r#"{"result":[]}"#, r#""x""#, r#"{"result":{"tools":"x"}}"#]
        {
            assert_eq!(answer_to("tools/list", body.as_bytes(), false), serde_json::from_str::<Value>(body).unwrap());
        }
        let odd = answer_to("tools/list", br#"{"result":{"tools":["x",{"inputSchema":"x"}]}}"#, false);
        assert!(odd.to_string().contains(LIST_PAGES), "{odd}");
    }
}

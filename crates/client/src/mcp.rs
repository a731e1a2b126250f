//! `handbill mcp`: a local MCP server over standard input and output, with the saved keys.
//!
//! It passes each message to the server's `/mcp`, except that `create_page` goes to the REST API with a key that is
//! saved first, and that the agent never sees. Calls get the saved key, and there is one more tool, `list_pages`.

use std::io::{self, BufRead};

use http::{HeaderName, HeaderValue, Method};
use serde_json::{Value, json};
use ureq::Agent;

use crate::api::{Api, not_handbill, retry_after};
use crate::args::ConnectionArgs;
use crate::key_file::{KeyFile, SavedKey};
use crate::page::PageReference;
use crate::publish::{Draft, Published, publish};
use crate::{ClientError, Result, print_line};
use handbill_pages::values::edit_key::{PUBLISHED_KEY_WARNING, holds_any_key};
use handbill_pages::values::origin::Origin;

/// Member of `_meta` for the revision, if there was no handshake.
const VERSION_IN_META: &str = "io.modelcontextprotocol/protocolVersion";

const LIST_PAGES: &str = "list_pages";

/// Follows what a server says, of any version.
const KEYS_ARE_SAVED: &str = " Here, edit keys are saved on this machine: no result shows one, and no call needs one. \
    The user sees a page's edit link with `handbill key --link <url>`.";

const NO_KEY: &str = "No key for this page is saved here; list_pages shows the pages that can be changed.";

const INTERNAL_ERROR: i32 = -32603;

const PARSE_ERROR: i32 = -32700;

struct Bridge<'a> {
    api: Api<'a>,
    server: Origin,
    keys: KeyFile,
    /// The revision from `initialize`.
    agreed: Option<String>,
}

pub(crate) fn run(connection: &ConnectionArgs, agent: &Agent) -> Result<()> {
    let (keys, server) = (connection.keys()?, connection.server()?);
    let mut bridge = Bridge { api: Api { agent, wait: connection.wait }, server, keys, agreed: None };
    for line in io::stdin().lock().lines() {
        let line = line.map_err(|error| ClientError::cannot("read standard input", &error))?;
        let answer = match serde_json::from_str(&line) {
            Ok(message) => bridge.answer(message),
            Err(_) => Some(failure(&Value::Null, PARSE_ERROR, "The line is not one JSON-RPC message.")),
        };
        let Some(answer) = answer else { continue };
        print_line(&answer.to_string())?;
    }
    Ok(())
}

impl Bridge<'_> {
    /// `None` for a notification.
    fn answer(&mut self, message: Value) -> Option<Value> {
        let id = message.get("id").cloned();
        let answer = self.try_answer(message);
        let mut answer =
            answer.unwrap_or_else(|error| id.as_ref().map(|id| failure(id, INTERNAL_ERROR, &error.to_string())))?;
        // A server that has not read a request cannot name it, and the client would wait for an answer to it.
        if let (Some(answer), Some(id)) = (answer.as_object_mut(), id) {
            answer.insert("id".to_owned(), id);
        }
        Some(answer)
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
        if is_change
            && let Some(page) = self.page_without_key(&message)
            && let Some(saved) = self.keys.find(&page)?
        {
            message["params"]["arguments"]["edit_key"] = saved.edit_key.into();
        }
        let Some(mut answer) = self.forward(&message, &method)? else { return Ok(None) };
        match (&*method, &*tool) {
            ("initialize" | "server/discover", _) => {
                self.agreed = answer["result"]["protocolVersion"].as_str().map(str::to_owned);
                append(&mut answer, "/result/instructions", KEYS_ARE_SAVED);
            }
            ("tools/list", _) => describe_saved_keys(&mut answer),
            (_, "delete_page") => self.forget(&answer),
            _ => {}
        }
        if is_change {
            advise_of_missing_key(&mut answer);
        }
        Ok(Some(answer))
    }

    /// `None` for a notification.
    fn forward(&self, message: &Value, method: &str) -> Result<Option<Value>> {
        let params = &message["params"];
        let in_meta = params["_meta"][VERSION_IN_META].as_str();
        // A resource is named by its address. Older revisions ignore the last two.
        let headers = [
            ("accept", Some("application/json, text/event-stream")),
            ("mcp-protocol-version", in_meta.or(self.agreed.as_deref()).filter(|_| method != "initialize")),
            ("mcp-method", Some(method)),
            ("mcp-name", params["name"].as_str().or(params["uri"].as_str())),
        ];
        let headers = headers
            .into_iter()
            .filter_map(|(name, value)| Some((HeaderName::from_static(name), HeaderValue::try_from(value?).ok()?)));
        let headers = headers.collect();
        let answer = self.api.send(Method::POST, &self.server, "/mcp", headers, Some(message))?;
        if answer.body().is_null() && !answer.status().is_success() {
            return Err(not_handbill(&self.server));
        }
        Ok(Some(answer.into_body()).filter(|body| !body.is_null()))
    }

    /// The page of a call without a key. The server explains what is wrong with another call.
    fn page_without_key(&self, message: &Value) -> Option<PageReference> {
        let arguments = &message["params"]["arguments"];
        let has_key = arguments["edit_key"].as_str().is_some_and(|key| !key.trim().is_empty());
        let page = PageReference::parse(arguments["slug"].as_str()?, &self.server).ok()?;
        (!has_key && page.server == self.server).then_some(page)
    }

    fn create(&self, message: &Value, draft: Draft) -> Result<Value> {
        let others = draft.others.values().filter_map(Value::as_str);
        let holds_key = others.chain([&*draft.title, &*draft.content]).any(holds_any_key);
        Ok(match publish(&self.api, &self.keys, &self.server, draft)? {
            Published::Saved(SavedKey { url, created_at, .. }) => {
                let slug = url.rsplit('/').next();
                let created = json!({"slug": slug, "url": url, "created_at": created_at});
                let mut answer = result(message, &created, false);
                if holds_key && let Some(texts) = answer["result"]["content"].as_array_mut() {
                    texts.push(json!({"type": "text", "text": PUBLISHED_KEY_WARNING}));
                }
                answer
            }
            Published::Refused(refusal) => {
                let (status, after) = (refusal.status().as_u16(), retry_after(&refusal));
                let mut shown = refusal.into_body();
                if !shown.is_object() {
                    return Err(not_handbill(&self.server));
                }
                shown["status"] = status.into();
                if let Some(after) = after {
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
        let pages: Vec<_> = here.map(SavedKey::without_key).collect();
        Ok(result(message, &json!({"pages": pages}), false))
    }
}

/// A call whose arguments fit; the server explains what is wrong with others.
fn draft_in(message: &Value) -> Option<Draft> {
    let mut others = message["params"]["arguments"].as_object()?.clone();
    others.retain(|_, value| !value.is_null());
    let [title, content] = ["title", "content"].map(|name| Some(others.remove(name)?.as_str()?.to_owned()));
    let has_key = others.contains_key("edit_key");
    let (title, content) = title.zip(content).filter(|_| !has_key)?;
    Some(Draft { title, content, others, source: None })
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

fn append(answer: &mut Value, pointer: &str, words: &str) {
    if let Some(Value::String(text)) = answer.pointer_mut(pointer) {
        text.push_str(words);
    }
}

/// The server knows first whether there is such a page.
fn advise_of_missing_key(answer: &mut Value) {
    let Some(Value::String(text)) = answer.pointer_mut("/result/content/0/text") else { return };
    if let Ok(mut error) = serde_json::from_str::<Value>(text)
        && error["error"] == "missing_key"
    {
        error["message"] = NO_KEY.into();
        *text = error.to_string();
    }
}

fn describe_saved_keys(answer: &mut Value) {
    // An error has no tools.
    let Some(tools) = answer.pointer_mut("/result/tools").and_then(Value::as_array_mut) else { return };
    for tool in tools.iter_mut() {
        for schema in ["/inputSchema/required", "/outputSchema/required"] {
            if let Some(required) = tool.pointer_mut(schema).and_then(Value::as_array_mut) {
                required.retain(|name| name != "edit_key");
            }
        }
        if let Some(results) = tool.pointer_mut("/outputSchema/properties").and_then(Value::as_object_mut) {
            results.remove("edit_key");
        }
        append(tool, "/description", KEYS_ARE_SAVED);
        append(tool, "/inputSchema/properties/edit_key/description", KEYS_ARE_SAVED);
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

    use super::*;
    use crate::tests::{ENDLESS, agent, hostile_server};

    /// The answer of a bridge to a request with `method`, if its server answers with `body`.
    fn answer_to(method: &str, body: &'static [u8], is_endless: bool) -> Value {
        let home = tempfile::tempdir().unwrap();
        let mut bridge = Bridge {
            api: Api { agent: &agent(), wait: Duration::ZERO },
            server: hostile_server(ENDLESS, body, is_endless),
            keys: KeyFile::in_directory(home.path().to_owned()),
            agreed: None,
        };
        bridge.answer(json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": {}})).unwrap()
    }

    #[test]
    fn arguments_of_a_newer_server_are_published_with_a_saved_key() {
        fn draft(arguments: &Value) -> Option<Draft> {
            draft_in(&json!({"params": {"arguments": arguments}}))
        }

        let newer = draft(&json!({"title": "T", "content": "c", "author": "A", "absent": null})).unwrap();
        assert_eq!(Value::from(newer.others), json!({"author": "A"}));
        assert!(draft(&json!({"title": "T", "content": "c", "edit_key": "hbk_"})).is_none());
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
        for body in
            [r#"{"error":1,"id":7}"#, "[]", r#"{"result":[],"id":7}"#, r#""x""#, r#"{"result":{"tools":"x"},"id":7}"#]
        {
            assert_eq!(answer_to("tools/list", body.as_bytes(), false), serde_json::from_str::<Value>(body).unwrap());
        }
        let odd = answer_to("tools/list", br#"{"result":{"tools":["x",{"inputSchema":"x"}]}}"#, false);
        assert!(odd.to_string().contains(LIST_PAGES), "{odd}");
    }
}

//! A small client of the Model Context Protocol, of any revision.

use std::collections::HashSet;
use std::time::Duration;

use serde_json::{Value, json};

use crate::in_process::app::TestApp;
use crate::in_process::exchange::{Answer, Request, holds_a_key};

pub(crate) const MODERN: &str = "2026-07-28";

pub(crate) const LEGACY: [&str; 2] = ["2025-11-25", "2025-06-18"];

/// A revision of clients that name none.
pub(crate) const UNNAMED: &str = "2025-03-26";

pub(crate) const REVISIONS: [&str; 3] = [MODERN, LEGACY[0], LEGACY[1]];

pub(crate) fn opening(revision: &str) -> Value {
    json!({"protocolVersion": revision, "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}})
}

/// Time after which a request counts as never answered. Nothing depends on it being short.
pub(crate) const TEST_TIMEOUT: Duration = Duration::from_mins(2);

pub(crate) const HOST: &str = "pages.example";

/// A request with one message, without anything that only some revisions ask for.
pub(crate) fn post(body: impl Into<axum::body::Body>) -> Request {
    Request::new("POST", "/mcp").header("host", HOST).json(body).header("accept", "application/json, text/event-stream")
}

/// A client of one revision. Clones are the same client.
#[derive(Clone)]
pub(crate) struct Client {
    pub(crate) app: TestApp,
    pub(crate) revision: &'static str,
    peer: String,
}

impl Client {
    pub(crate) fn new(app: &TestApp, revision: &'static str) -> Self {
        Self { app: app.clone(), revision, peer: "192.0.2.1".to_owned() }
    }

    pub(crate) fn each(app: &TestApp) -> impl Iterator<Item = Self> {
        REVISIONS.into_iter().map(|revision| Self::new(app, revision))
    }

    pub(crate) fn is_modern(&self) -> bool {
        self.revision == MODERN
    }

    pub(crate) fn peer(self, peer: &str) -> Self {
        Self { peer: peer.to_owned(), ..self }
    }

    pub(crate) fn message(&self, method: &str, mut params: Value) -> Value {
        if self.is_modern() {
            params["_meta"] = json!({
                "io.modelcontextprotocol/protocolVersion": self.revision,
                "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
                "io.modelcontextprotocol/clientCapabilities": {},
            });
        }
        json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params})
    }

    /// The request that carries `message`, with the headers that this client's revision asks for.
    pub(crate) fn carrying(&self, message: &Value) -> Request {
        let mut request = post(message.to_string()).peer(&self.peer);
        // A client that has agreed on nothing yet, or is older than this header, sends none.
        if self.revision != UNNAMED {
            request = request.header("mcp-protocol-version", self.revision);
        }
        if self.is_modern() {
            request = request.header("mcp-method", message["method"].as_str().unwrap_or_default());
        }
        let params = &message["params"];
        match params["name"].as_str().or(params["uri"].as_str()) {
            Some(name) if self.is_modern() => request.header("mcp-name", name),
            _ => request,
        }
    }

    pub(crate) fn request(&self, method: &str, params: Value) -> Request {
        self.carrying(&self.message(method, params))
    }

    pub(crate) async fn ask(&self, method: &str, params: Value) -> Answer {
        self.app.send(self.request(method, params)).await
    }

    pub(crate) async fn result(&self, method: &str, params: Value) -> Value {
        let answer = self.ask(method, params).await;
        assert_eq!(answer.expect_status(200).header("content-type"), "application/json");
        let body = answer.json();
        assert_eq!((&body["jsonrpc"], &body["id"]), (&json!("2.0"), &json!(7)), "{body}");
        let result = &body["result"];
        assert!(result.is_object() && body.get("error").is_none(), "{body}");
        let is_described = result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"].is_string();
        if method != "initialize" && method != "ping" {
            assert_eq!(is_described, self.is_modern(), "{result}");
            assert_eq!(result.get("resultType"), self.is_modern().then(|| json!("complete")).as_ref(), "{result}");
        }
        result.clone()
    }

    pub(crate) async fn tools(&self) -> Vec<Value> {
        self.result("tools/list", json!({})).await["tools"].as_array().unwrap().clone()
    }

    /// Calls a tool. Checks its result against the rules for all results and against the tool's output schema.
    pub(crate) async fn call(&self, tool: &str, arguments: Value) -> Outcome {
        let result = self.result("tools/call", json!({"name": tool, "arguments": arguments})).await;
        let content = result["content"].as_array().unwrap();
        assert_eq!(content[0]["type"], "text", "{result}");
        let text: Value = serde_json::from_str(content[0]["text"].as_str().unwrap()).unwrap();
        if result["isError"] == true {
            assert_eq!(content.len(), 1, "{result}");
            assert!(result.get("structuredContent").is_none(), "{result}");
            assert!(!holds_a_key(result.to_string().as_bytes()), "an error holds a key: {result}");
            return Outcome::Failed(text);
        }
        assert_eq!(result["structuredContent"], text);
        let links: Vec<_> = text.get("url").filter(|_| self.revision != UNNAMED).into_iter().collect();
        let linked: Vec<_> = content[1..].iter().filter_map(|block| block.get("uri")).collect();
        assert_eq!(linked, links, "{result}");
        let tools = self.tools().await;
        let schema = &tools.iter().find(|listed| listed["name"] == tool).unwrap()["outputSchema"];
        check_shape(schema, &text);
        Outcome::Done(text)
    }

    pub(crate) async fn published(&self) -> (String, String) {
        let page =
            self.call("create_page", json!({"title": "Hello, world", "content": "A *first* page."})).await.done();
        (page["slug"].as_str().unwrap().to_owned(), page["edit_key"].as_str().unwrap().to_owned())
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Outcome {
    Done(Value),
    Failed(Value),
}

impl Outcome {
    #[track_caller]
    pub(crate) fn done(self) -> Value {
        match self {
            Self::Done(value) => value,
            Self::Failed(error) => panic!("{error}"),
        }
    }

    /// Fails unless this is the error `code` with `status`, in the shape that every error has. Returns its message.
    #[track_caller]
    pub(crate) fn expect_error(self, status: u16, code: &str) -> Failed {
        let Self::Failed(error) = self else { panic!("{self:?} is no error") };
        let members: HashSet<&str> = error.as_object().unwrap().keys().map(String::as_str).collect();
        let waits = matches!(status, 429 | 503);
        let mut expected = HashSet::from(["error", "message", "status"]);
        expected.extend(waits.then_some("retry_after"));
        assert_eq!(members, expected, "{error}");
        assert_eq!((&error["status"], &error["error"]), (&json!(status), &json!(code)), "{error}");
        let message = error["message"].as_str().unwrap().to_owned();
        assert!(message.ends_with('.'), "a message is made of sentences: {error}");
        for header in ["Authorization", "Retry-After", "Content-Type", "ETag", "If-Match", "header"] {
            assert!(!message.contains(header), "a tool has no headers: {error}");
        }
        let retry_after = error.get("retry_after").map_or(0, |seconds| seconds.as_u64().unwrap());
        assert!(!waits || retry_after >= 1, "{error}");
        Failed { message, retry_after }
    }
}

#[derive(Debug)]
pub(crate) struct Failed {
    pub(crate) message: String,
    pub(crate) retry_after: u64,
}

#[track_caller]
pub(crate) fn check_shape(schema: &Value, value: &Value) {
    let validator = jsonschema::draft202012::options().should_validate_formats(true).build(schema).unwrap();
    let faults: Vec<String> = validator.iter_errors(value).map(|fault| fault.to_string()).collect();
    assert!(faults.is_empty(), "{value} is not as described: {faults:?}");
}

impl Answer {
    /// Fails unless this refuses a request with a JSON-RPC error of `code` and with `status`. Returns the error.
    #[track_caller]
    pub(crate) fn refuses(&self, status: u16, code: i64) -> Value {
        assert_eq!(self.expect_status(status).header("content-type"), "application/json");
        let body = self.json();
        assert_eq!((&body["jsonrpc"], &body["error"]["code"]), (&json!("2.0"), &json!(code)), "{body}");
        body["error"].clone()
    }
}

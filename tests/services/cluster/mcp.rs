//! Agents' calls through the load balancer, which sends each to the next replica. No replica holds anything that the
//! next one lacks, for clients with a handshake and for clients without one.

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HOST};
use http::{Method, Request, StatusCode};
use serde_json::{Value, json};

use super::service::{Service, Settings};
use crate::connection::send;
use crate::support::revision::{MODERN, REVISIONS, headers, message, opening};

/// A client that opens a connection for each message, so that each goes to the next replica.
struct Client<'a> {
    service: &'a Service,
    revision: &'static str,
}

impl Client<'_> {
    async fn post(&self, message: &Value) -> (StatusCode, Value) {
        let mut request = Request::builder().method(Method::POST).uri("/mcp");
        request = request.header(HOST, self.service.balancer.to_string()).header(CONTENT_TYPE, "application/json");
        for (name, value) in headers(self.revision, message) {
            request = request.header(name, value);
        }
        let request = request.body(Bytes::from(message.to_string())).expect("it is valid");
        let answer = send(self.service.balancer, request).await.expect("it is answered");
        assert!(!answer.headers().contains_key("mcp-session-id"), "{answer:?}");
        (answer.status(), serde_json::from_slice(answer.body()).unwrap_or_default())
    }

    async fn result(&self, method: &str, params: Value) -> Value {
        let (status, body) = self.post(&message(self.revision, method, params)).await;
        assert_eq!(status, StatusCode::OK, "{method}: {body}");
        assert!(body["result"].is_object(), "{method}: {body}");
        body["result"].clone()
    }

    async fn call(&self, tool: &str, arguments: Value) -> Value {
        self.result("tools/call", json!({"name": tool, "arguments": arguments})).await
    }

    async fn done(&self, tool: &str, arguments: Value) -> Value {
        let result = self.call(tool, arguments).await;
        assert_eq!(result["isError"], false, "{tool}: {result}");
        result["structuredContent"].clone()
    }

    async fn failed(&self, tool: &str, arguments: Value, code: &str) -> Value {
        let result = self.call(tool, arguments).await;
        assert_eq!(result["isError"], true, "{tool}: {result}");
        let error: Value = serde_json::from_str(result["content"][0]["text"].as_str().unwrap()).unwrap();
        assert_eq!(error["error"], code, "{tool}: {error}");
        error
    }

    /// Sends the three messages that a client of this revision begins with.
    async fn begin(&self) {
        if self.revision == MODERN {
            let discovered = self.result("server/discover", json!({})).await;
            assert!(discovered["supportedVersions"].as_array().unwrap().contains(&json!(self.revision)));
            assert_eq!(self.result("server/discover", json!({})).await, discovered);
        } else {
            let agreed = self.result("initialize", opening(self.revision)).await;
            assert_eq!(agreed["protocolVersion"], self.revision);
            let mut initialized = message(self.revision, "notifications/initialized", json!({}));
            initialized.as_object_mut().unwrap().remove("id");
            let (status, body) = self.post(&initialized).await;
            assert_eq!((status, body), (StatusCode::ACCEPTED, Value::Null));
        }
        let listed = self.result("tools/list", json!({})).await;
        assert_eq!(listed["tools"].as_array().unwrap().len(), 4);
    }

    /// One page's whole life. Together with the opening messages it takes ten messages, a number that three does not
    /// divide, so in three rounds each message reaches each replica.
    async fn live(&self, round: usize) {
        let created = self.done("create_page", json!({"title": "A page", "content": "first"})).await;
        let (slug, key) = (&created["slug"], &created["edit_key"]);
        let page = self.done("get_page", json!({"slug": slug})).await;
        assert_eq!((&page["content"], &page["url"]), (&json!("first"), &created["url"]));
        let content = format!("round {round} of {}", self.revision);
        let own = json!({"slug": slug, "edit_key": key, "content": content});
        assert_eq!(self.done("update_page", own).await["content"], json!(content));
        self.failed("update_page", json!({"slug": slug, "content": "x"}), "missing_key").await;
        assert_eq!(self.done("get_page", json!({"slug": slug})).await["content"], json!(content));
        self.done("delete_page", json!({"slug": slug, "edit_key": key})).await;
        self.failed("get_page", json!({"slug": slug}), "gone").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_message_of_a_client_may_go_to_another_replica() {
    let service = Service::start(Settings::unlimited()).await;
    for revision in REVISIONS {
        let client = Client { service: &service, revision };
        for round in 0..3 {
            client.begin().await;
            client.live(round).await;
        }
    }
    for replica in &service.replicas {
        let (_, metrics) = replica.ask("/metrics").await;
        for (tool, outcome) in [
            ("create_page", "ok"),
            ("get_page", "ok"),
            ("get_page", "gone"),
            ("update_page", "ok"),
            ("update_page", "missing_key"),
            ("delete_page", "ok"),
        ] {
            let served = format!(r#"handbill_mcp_tool_calls_total{{tool="{tool}",outcome="{outcome}"}}"#);
            assert!(metrics.contains(&served), "{served} is not in {metrics}");
        }
    }
}

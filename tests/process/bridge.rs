//! `handbill mcp`, the bridge by which an agent on this machine uses the keys that are saved here.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Stdio};

use handbill_test_support::client::tool_call;
use handbill_test_support::server::{Watchdog, text};
use serde_json::{Value, json};

use super::commands::{User, with_a_disk_that_fills};

/// `handbill mcp` as an agent's client runs it.
struct Agent {
    child: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
    modern: bool,
}

impl Agent {
    fn start(user: &User, modern: bool) -> Self {
        let mut child = user.command(&["mcp"]).stdin(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut agent = Self { child, lines, modern };
        if !modern {
            let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
            assert_eq!(agent.ask("initialize", params)["result"]["protocolVersion"], "2025-11-25");
            agent.say(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        }
        agent
    }

    fn say(&mut self, message: &Value) {
        writeln!(self.child.stdin.as_mut().unwrap(), "{message}").unwrap();
    }

    fn ask(&mut self, method: &str, mut params: Value) -> Value {
        if self.modern {
            params["_meta"] = json!({
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
                "io.modelcontextprotocol/clientCapabilities": {},
            });
        }
        self.say(&json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}));
        let watchdog = Watchdog::over(&self.child);
        let line = self.lines.next().expect("there is an answer").unwrap();
        watchdog.call_off();
        serde_json::from_str(&line).unwrap()
    }

    #[track_caller]
    fn call(&mut self, tool: &str, arguments: &Value) -> Value {
        let answer = self.ask("tools/call", json!({"name": tool, "arguments": arguments}));
        assert_eq!(answer["result"]["isError"], false, "{answer}");
        answer["result"]["structuredContent"].clone()
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn an_agent_changes_a_page_later_without_its_key() {
    for modern in [false, true] {
        let user = User::new();
        let mut agent = Agent::start(&user, modern);
        let tools = agent.ask("tools/list", json!({}))["result"]["tools"].clone();
        let names: Vec<_> = tools.as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["create_page", "delete_page", "get_page", "update_page", "list_pages"]);
        assert_eq!(tools[3]["inputSchema"]["required"], json!(["slug"]));
        assert_eq!(tools[0]["outputSchema"]["required"], json!(["slug", "url", "created_at"]));
        assert_eq!(tools[0]["outputSchema"]["properties"].get("edit_key"), None, "no result shows it");
        let created = agent.call("create_page", &json!({"title": "By an agent", "content": "One."}));
        assert!(!created.to_string().contains("hbk_"), "the key stays on this machine");
        drop(agent);

        let mut agent = Agent::start(&user, modern);
        let pages = agent.call("list_pages", &json!({}));
        assert_eq!((&pages["pages"][0]["url"], &pages["pages"][0]["title"]), (&created["url"], &json!("By an agent")));
        assert!(!pages.to_string().contains("hbk_"));
        let edits = json!({"slug": created["url"], "edits": [{"old": "One", "new": "Two"}]});
        agent.call("update_page", &edits);
        assert_eq!(user.done(&["get", created["slug"].as_str().unwrap()], ""), "Two.");
        agent.call("delete_page", &json!({"slug": created["slug"]}));
        assert_eq!(agent.call("list_pages", &json!({})), json!({"pages": []}));
        for (slug, code) in [("a-page-22222222", "not_found"), (created["slug"].as_str().unwrap(), "gone")] {
            let absent = agent.ask("tools/call", json!({"name": "update_page", "arguments": {"slug": slug}}));
            let error: Value = serde_json::from_str(absent["result"]["content"][0]["text"].as_str().unwrap()).unwrap();
            assert_eq!((&absent["result"]["isError"], &error["error"]), (&json!(true), &json!(code)), "{absent}");
        }
        let skill = agent.ask("resources/read", json!({"uri": "skill://handbill/SKILL.md"}));
        let text = skill["result"]["contents"][0]["text"].as_str().unwrap();
        assert!(text.starts_with("---\nname: handbill\n"), "{text}");
        // What the server says of keys is true here too.
        for described in [&tools[0]["description"], &tools[3]["inputSchema"]["properties"]["edit_key"]["description"]] {
            let described = described.as_str().unwrap();
            assert!(
                described.ends_with("The user sees a page's edit link with `handbill key --link <url>`."),
                "{described}"
            );
        }
        let slug = user.published("text");
        user.done(&["key", "--forget", &slug], "");
        let keyless = agent.ask("tools/call", json!({"name": "update_page", "arguments": {"slug": slug}}));
        assert!(keyless.to_string().contains("No key for this page is saved here; list_pages shows"), "{keyless}");
    }
}

#[test]
fn an_agent_whose_page_is_refused_gets_the_error_of_a_tool() {
    let user = User::of_server_with(&["--create-limit", "1"]);
    let mut agent = Agent::start(&user, true);
    let whole =
        json!({"name": "update_page", "arguments": {"slug": "a-page-22222222", "content": "y".repeat(140_000)}});
    let too_large = agent.ask("tools/call", whole);
    assert_eq!((&too_large["id"], &too_large["error"]["data"]["status"]), (&json!(1), &json!(413)), "{too_large}");
    let mut refused = |arguments: Value| {
        let result = agent.ask("tools/call", json!({"name": "create_page", "arguments": arguments}))["result"].clone();
        assert_eq!((&result["isError"], result.get("structuredContent")), (&json!(true), None), "{result}");
        serde_json::from_str::<Value>(result["content"][0]["text"].as_str().unwrap()).unwrap()
    };
    for (arguments, error) in [
        (json!({"title": "T", "content": ""}), "empty_content"),
        (json!({"title": "T"}), "invalid_body"),
        (json!({"title": "T", "content": "c", "edit_key": "hbk_"}), "invalid_body"),
    ] {
        let refused = refused(arguments);
        assert_eq!((&refused["error"], &refused["status"]), (&json!(error), &json!(400)), "{refused}");
    }
    user.done(&["publish", "--title", "T"], "The one page of this hour.");
    let limited = refused(json!({"title": "T", "content": "c"}));
    assert_eq!((&limited["error"], &limited["status"]), (&json!("rate_limited"), &json!(429)), "{limited}");
    assert!(limited["retry_after"].as_u64().is_some_and(|seconds| seconds > 0), "{limited}");
}

#[test]
fn an_agent_learns_that_the_server_cannot_be_reached() {
    let user = User::new();
    let mut agent = Agent::start(&user, false);
    let created = agent.call("create_page", &json!({"title": "T", "content": "c"}));
    user.server.stop_now();
    let answer = agent.ask("tools/call", json!({"name": "get_page", "arguments": {"slug": created["slug"]}}));
    // The bridge may notice the end only when it uses its connection.
    let message = answer["error"]["message"].as_str().unwrap();
    assert!(message.contains("cannot reach") || message.contains("gave no whole answer"), "{answer}");
    agent.say(&json!("no message"));
    writeln!(agent.child.stdin.as_mut().unwrap(), "{{").unwrap();
    drop(agent.child.stdin.take());
    let codes: Vec<Value> = agent
        .lines
        .by_ref()
        .map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap()["error"]["code"].clone())
        .collect();
    assert_eq!(codes.last(), Some(&json!(-32700)), "{codes:?}");
}

#[test]
fn a_key_that_cannot_be_saved_for_an_agent_is_in_its_answer() {
    let user = User::new();
    let server = with_a_disk_that_fills(&user);
    let call = tool_call("create_page", &json!({"title": "T", "content": "c"}));
    let output = user.run(&["mcp", "--server", &server], &format!("{call}\n"));
    assert!(text(&output.stdout).contains("hbk_"), "{}", text(&output.stdout));
    assert_eq!(text(&output.stderr), "", "a client logs this stream");
}

//! A key reaches nothing that lasts or that operators see. The test presents it by every way in, correctly and in every
//! wrong place, while everything that can be logged is logged. Then it searches all that the process left.
//!
//! It also searches the traces that a collector receives.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use aho_corasick::AhoCorasick;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE, Engine};
use handbill_pages::values::hex;
use handbill_test_support::client::{Connection, JSON, MCP_ACCEPT, bearer, get, post, request, tool_call};
use handbill_test_support::server::Server;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tempfile::tempdir;
use walkdir::WalkDir;

use crate::collector::{Collector, Manner};

/// How many bytes of a key are searched for at once. They are too many to occur by chance, and a multiple of three, so
/// that Base64 has them in whole groups.
const PART_OF_A_KEY: usize = 12;

const FORM: (&str, &str) = ("Content-Type", "application/x-www-form-urlencoded");

type Form = fn(&[u8]) -> Vec<u8>;

/// The ways in which bytes are written as text, each with its name.
const FORMS: [(&str, Form); 8] = [
    ("as it is", <[u8]>::to_vec),
    ("in hexadecimal", |bytes| each(bytes, "", |text, byte| write!(text, "{byte:02x}"))),
    ("in upper-case hexadecimal", |bytes| each(bytes, "", |text, byte| write!(text, "{byte:02X}"))),
    ("as percent escapes", |bytes| each(bytes, "", |text, byte| write!(text, "%{byte:02x}"))),
    ("as upper-case percent escapes", |bytes| each(bytes, "", |text, byte| write!(text, "%{byte:02X}"))),
    ("as a list of numbers", |bytes| each(bytes, ", ", |text, byte| write!(text, "{byte}"))),
    ("in Base64", |bytes| BASE64_STANDARD.encode(bytes).trim_end_matches('=').into()),
    ("in Base64 for URLs", |bytes| BASE64_URL_SAFE.encode(bytes).trim_end_matches('=').into()),
];

fn each(bytes: &[u8], between: &str, write: fn(&mut String, u8) -> std::fmt::Result) -> Vec<u8> {
    let mut text = String::new();
    for (at, &byte) in bytes.iter().enumerate() {
        text.push_str(if at == 0 { "" } else { between });
        write(&mut text, byte).expect("a text takes anything");
    }
    text.into_bytes()
}

/// The byte patterns that must not be found, in every form.
struct Secrets {
    search: AhoCorasick,
    names: Vec<String>,
}

impl Secrets {
    /// Every run of [`PART_OF_A_KEY`] bytes in `key`, so that all three alignments of Base64 are covered. The hash is
    /// searched for in each form, in hexadecimal only if `is_off_disk`: so the head of a page has it.
    fn of(key: &str, is_off_disk: bool) -> Self {
        let opaque = key.strip_prefix("hbk_").expect("it is a key").as_bytes();
        let parts = opaque.windows(PART_OF_A_KEY).flat_map(|part| {
            let part_of = |name| format!("part {:?} of a key {name}", String::from_utf8_lossy(part));
            FORMS.map(|(name, form)| (part_of(name), form(part)))
        });
        let hash_of_key = Sha256::digest(key);
        let hash = FORMS.into_iter().filter(|(name, _)| is_off_disk || *name != "in hexadecimal");
        let hash = hash.map(|(name, form)| (format!("the hash of a key {name}"), form(&hash_of_key)));
        let (names, patterns): (Vec<_>, Vec<_>) = parts.chain(hash).unzip();
        Self { search: AhoCorasick::new(patterns).expect("they are few"), names }
    }

    #[track_caller]
    fn are_not_in(&self, place: &str, bytes: &[u8]) {
        if let Some(found) = self.search.find(bytes) {
            let around = &bytes[found.start().saturating_sub(300)..(found.end() + 100).min(bytes.len())];
            panic!("{} is in {place}: {}", self.names[found.pattern()], String::from_utf8_lossy(around));
        }
    }
}

/// A page and the server that keeps it. No answer to any of its requests may hold the key.
struct Presenter<'a> {
    server: &'a Server,
    slug: &'a str,
    key: &'a str,
    secrets: &'a Secrets,
}

impl Presenter<'_> {
    #[track_caller]
    fn asks(&self, method: &str, target: &str, headers: &[(&str, &str)], body: &str, status: u16) -> Value {
        let answer = request(self.server.address, method, target, headers, body.as_bytes()).unwrap();
        assert_eq!(answer.status, status, "{method} {target} {headers:?} {body}: {}", answer.text());
        let token = status == 200 && target == "/oauth/token";
        if !token {
            self.secrets.are_not_in("an answer", &answer.body);
            for (_, value) in &answer.headers {
                self.secrets.are_not_in("a header of an answer", value.as_bytes());
            }
        }
        serde_json::from_slice(&answer.body).unwrap_or_default()
    }

    fn by_rest(&self) {
        let Self { slug, key, .. } = *self;
        let api = format!("/api/pages/{slug}");
        let authorization = bearer(key);
        let with_key = [JSON, ("Authorization", authorization.as_str())];
        self.asks("PATCH", &api, &with_key, r#"{"content": "y"}"#, 200);
        self.asks("PATCH", &api, &with_key, &json!({"content": format!("my key is {key}")}).to_string(), 400);
        self.asks("PATCH", &api, &with_key, &format!(r#"{{"{key}": "{key}"}}"#), 400);
        self.asks("PATCH", &api, &[JSON, ("Authorization", key)], "{}", 401);
        self.asks("PATCH", &api, &[JSON, ("X-Key", key), ("Cookie", key)], "{}", 401);
        self.asks("PATCH", &api, &[JSON, with_key[1], ("If-Match", key)], "{}", 412);
        self.asks("DELETE", &format!("{api}?edit_key={key}"), &[], "", 401);
        self.asks("DELETE", &format!("{api}?{key}"), &with_key[1..], "", 401);
        self.asks("DELETE", &format!("{api}?q=%22Bearer%20{key}%22"), &with_key[1..], "", 401);
        self.asks("DELETE", &api, &[with_key[1], ("If-None-Match", "*")], "", 412);
        self.asks("PATCH", &api, &[JSON, with_key[1], ("If-None-Match", key)], "{}", 200);
        self.asks("GET", &format!("/{key}"), &[("Referer", key), ("User-Agent", key)], "", 404);
        self.asks("GET", &format!("/api/pages/{key}"), &[], "", 404);
        self.asks("POST", "/api/pages", &[JSON], &format!(r#"{{"{key}": 1}}"#), 400);
        self.asks("POST", "/api/pages", &[("Content-Type", key)], key, 400);
        self.asks(key, "/", &[], "", 405);
        self.asks("POST", "/", &[("Content-Type", key)], key, 400);
        self.asks("POST", &format!("/?{key}={key}"), &[("Content-Type", "text/markdown")], "# T", 400);
        self.asks("POST", "/", &[("Origin", key)], key, 403);
        self.asks("GET", &format!("/{key}/edit"), &[], "", 404);
        self.asks("GET", &format!("/assets/{key}/{key}"), &[], "", 404);
    }

    fn by_mcp(&self) {
        let Self { slug, key, .. } = *self;
        for modern in [true, false] {
            let call = |tool: &str, arguments: Value, error: &str| {
                let answer = self.calls(modern, tool, &arguments);
                let text = answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}"));
                let text: Value = serde_json::from_str(text).unwrap();
                assert_eq!(text["error"].as_str().unwrap_or_default(), error, "{tool} {arguments}: {answer}");
            };
            call("update_page", json!({"slug": slug, "edit_key": key, "content": "z"}), "");
            call("get_page", json!({"slug": slug}), "");
            call("get_page", json!({"slug": key}), "not_found");
            call("get_page", json!({"slug": slug, key: key}), "invalid_body");
            call("update_page", json!({"slug": slug, "edit_key": key, "title": key}), "invalid_body");
            call("update_page", json!({"slug": slug, "edit_key": key, "content": [key]}), "invalid_body");
            call("update_page", json!({"slug": slug, "edit_key": [key]}), "invalid_body");
            call("update_page", json!({"slug": slug, "edit_key": format!("{key}x")}), "invalid_key");
            call("update_page", json!({"slug": slug, "edit_key": format!("Bearer {key}")}), "");
            call("delete_page", json!({"slug": slug, "edit_key": format!("Basic {key}")}), "invalid_key");
            call("get_page", json!({"slug": format!("https://pages.example/{slug}?key={key}")}), "not_found");
            call("create_page", json!({"title": {key: key}, "content": "x"}), "invalid_body");
            // Each of these messages is itself wrong, and is refused in its own way.
            for (tool, arguments) in [(key, json!({})), ("get_page", json!(key)), ("get_page", json!([key]))] {
                let answer = self.calls(modern, tool, &arguments);
                assert!(answer["error"]["code"].is_i64(), "{answer}");
            }
            self.messages(modern, key, &json!({"key": key}));
            let headers =
                [JSON, MCP_ACCEPT, ("MCP-Protocol-Version", key), ("Mcp-Method", key), ("Mcp-Session-Id", key)];
            self.asks("POST", "/mcp", &headers, r#"{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}"#, 400);
            self.asks("POST", "/mcp", &[JSON, MCP_ACCEPT], key, 400);
            let list = r#"{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}"#;
            self.asks("POST", &format!("/mcp?authorization=Bearer%20{key}"), &[JSON, MCP_ACCEPT], list, 400);
            self.asks("POST", "/mcp", &[JSON, MCP_ACCEPT, ("Origin", key)], list, 403);
        }
    }

    fn calls(&self, modern: bool, tool: &str, arguments: &Value) -> Value {
        self.messages(modern, "tools/call", &json!({"name": tool, "arguments": arguments}))
    }

    /// The answer to a message that is sent as by a client of that generation.
    fn messages(&self, modern: bool, method: &str, params: &Value) -> Value {
        let mut params = params.clone();
        let name = params["name"].as_str().unwrap_or_default().to_owned();
        let revision = if modern { "2026-07-28" } else { "2025-11-25" };
        let mut headers = vec![JSON, MCP_ACCEPT, ("MCP-Protocol-Version", revision)];
        if modern {
            params["_meta"] = json!({
                "io.modelcontextprotocol/protocolVersion": revision,
                "io.modelcontextprotocol/clientInfo": {"name": self.key, "version": self.key},
                "io.modelcontextprotocol/clientCapabilities": {},
            });
            headers.extend([("Mcp-Method", method), ("Mcp-Name", name.as_str())]);
            headers.retain(|(_, value)| !value.is_empty());
        }
        // The key is not used as the message's id, which must come back in the answer.
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let answer = request(self.server.address, "POST", "/mcp", &headers, message.to_string().as_bytes()).unwrap();
        self.secrets.are_not_in("an answer", &answer.body);
        answer.json()
    }

    fn by_token(&self) {
        let Self { slug, key, .. } = *self;
        let basic =
            |user: &str, password: &str| format!("Basic {}", BASE64_STANDARD.encode(format!("{user}:{password}")));
        let ask = |headers: &[(&str, &str)], body: &str, status: u16, error: &str| {
            let answer = self.asks("POST", "/oauth/token", headers, body, status);
            assert_eq!(answer["error"].as_str().unwrap_or_default(), error, "{body}: {answer}");
        };
        let grant = "grant_type=client_credentials";
        let right = basic(slug, key);
        ask(&[FORM], &format!("{grant}&client_id={slug}&client_secret={key}"), 200, "");
        ask(&[FORM, ("Authorization", &right)], grant, 200, "");
        ask(&[FORM], &format!("{grant}&client_id={key}&client_secret={slug}"), 401, "invalid_client");
        ask(&[FORM, ("Authorization", &basic(key, slug))], grant, 401, "invalid_client");
        ask(&[FORM, ("Authorization", &basic(slug, &format!("{key}x")))], grant, 401, "invalid_client");
        ask(&[FORM, ("Authorization", &format!("Basic {slug}:{key}"))], grant, 401, "invalid_client");
        ask(&[FORM, ("Authorization", &bearer(key))], grant, 401, "invalid_client");
        ask(&[FORM], &format!("grant_type={key}&client_id={slug}&client_secret={key}"), 400, "unsupported_grant_type");
        ask(&[FORM], &format!("{grant}&client_id={slug}&client_secret={key}&scope={key}"), 400, "invalid_scope");
        ask(
            &[FORM],
            &format!("{grant}&client_id={slug}&client_secret={key}&client_secret={key}"),
            400,
            "invalid_request",
        );
        ask(&[FORM, ("Authorization", &right)], &format!("{grant}&client_secret={key}"), 400, "invalid_request");
        ask(&[FORM], &format!("{key}={key}"), 400, "invalid_request");
        ask(&[JSON], &json!({"client_id": slug, "client_secret": key}).to_string(), 400, "invalid_request");
        ask(&[FORM], &format!("{grant}&client_id={slug}&client_secret={key}&{key}=%ff"), 400, "invalid_request");
        self.asks("POST", &format!("/oauth/token?q=Bearer%20{key}"), &[FORM], grant, 400);
        let in_query = format!("/oauth/token?client_id={slug}&client_secret={key}");
        self.asks("POST", &in_query, &[FORM], grant, 400);
        self.asks("GET", &in_query, &[], "", 405);
    }

    fn deletes(&self) {
        let Self { slug, key, .. } = *self;
        let authorization = bearer(key);
        let with_key = [JSON, ("Authorization", authorization.as_str())];
        let answer = self.calls(true, "delete_page", &json!({"slug": slug, "edit_key": key}));
        assert_eq!(answer["result"]["structuredContent"]["deleted"], json!(true), "{answer}");
        self.asks("DELETE", &format!("/api/pages/{slug}"), &with_key[1..], "", 410);
        self.calls(false, "delete_page", &json!({"slug": slug, "edit_key": key}));
        let form = format!("grant_type=client_credentials&client_id={slug}&client_secret={key}");
        self.asks("POST", "/oauth/token", &[FORM], &form, 401);
    }
}

#[test]
fn a_key_is_in_no_log_trace_or_metric_and_on_disk_as_its_hash() {
    let directory = tempdir().unwrap();
    // This enables every event and every span of every library, and names the library that logs whole results.
    let everything = "trace,rmcp=trace,rmcp::service=trace";
    let collector = Collector::start(Manner::Takes);
    let settings = ["--log", everything, "--token-limit", "0", "--otlp-endpoint", &collector.endpoint()];
    let server = Server::start(directory.path(), &settings);
    let create = tool_call("create_page", &json!({"title": "Kept", "content": "x"}));
    let created = request(server.address, "POST", "/mcp", &[JSON, MCP_ACCEPT], create.as_bytes()).unwrap().json();
    let kept = created["result"]["structuredContent"].clone();
    let deleted = post(server.address, "Deleted", "x").unwrap().json();
    let keys = [&kept, &deleted].map(|page| page["edit_key"].as_str().unwrap());
    let answers = keys.map(|key| Secrets::of(key, true));
    for (page, secrets) in [&kept, &deleted].into_iter().zip(&answers) {
        let (slug, key) = (page["slug"].as_str().unwrap(), page["edit_key"].as_str().unwrap());
        let presenter = Presenter { server: &server, slug, key, secrets };
        presenter.by_rest();
        presenter.by_mcp();
        presenter.by_token();
        if page == &deleted {
            presenter.deletes();
        }
        let mut nonsense = Connection::open(server.address).unwrap();
        nonsense.send(format!("GET /{key}\0 {key}\r\n{key}\r\n\r\n")).unwrap();
        assert_eq!(nonsense.answer().unwrap().status, 400);
    }
    // Nothing forbids a key in the text of another page. On disk, this page has the key as it was sent.
    let other = "hbk_0123456789abcdefghijklmnopqrstuvwxyzABCDEFG";
    assert_eq!(post(server.address, "Notes", &format!("My other key is *{other}*.")).unwrap().status, 201);
    let metrics = get(server.admin, "/metrics").unwrap();
    let (_, stdout, log) = server.stop();
    assert!(log.contains(r#""level":"DEBUG""#), "everything of ours is logged");
    assert!(collector.spans().len() > 100, "everything is traced");
    let traces = collector.messages().concat();
    let files = files(directory.path());
    let hash = hex::encode(&Sha256::digest(keys[0]));
    let is_on_disk = files.iter().any(|(_, bytes)| bytes.windows(hash.len()).any(|window| window == hash.as_bytes()));
    assert!(is_on_disk, "the hash of the page's key is on disk, so this looks at the right files");

    Secrets::of(other, true).are_not_in("the log", log.as_bytes());
    Secrets::of(other, true).are_not_in("traces", &traces);
    for (key, nowhere) in keys.iter().zip(&answers) {
        nowhere.are_not_in("the log", log.as_bytes());
        nowhere.are_not_in("output", stdout.as_bytes());
        nowhere.are_not_in("metrics", &metrics.body);
        nowhere.are_not_in("traces", &traces);
        let only_hashed = Secrets::of(key, false);
        for (name, bytes) in &files {
            only_hashed.are_not_in(name, bytes);
        }
    }
    let traces = String::from_utf8_lossy(&traces);
    for page in [&kept, &deleted] {
        let slug = page["slug"].as_str().unwrap();
        assert!(!log.contains(slug) && !metrics.text().contains(slug) && !traces.contains(slug), "{slug}");
    }
    assert!(traces.contains("/api/pages/{slug}") && !traces.contains("127.0.0.1"), "a trace names routes alone");
}

fn files(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let entries = WalkDir::new(folder).into_iter().map(Result::unwrap).filter(|entry| entry.file_type().is_file());
    entries.map(|entry| (entry.path().display().to_string(), fs::read(entry.path()).unwrap())).collect()
}

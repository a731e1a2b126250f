//! What operators see: logs and metrics, and that no key is ever among it.

use std::collections::HashSet;
use std::fs;
use std::path::Path;

use serde_json::Value;
use sha2::{Digest, Sha256};
use tempfile::tempdir;

use crate::client::{Connection, JSON, bearer, get, page_json, post, request};
use crate::support::Server;

/// Long enough that chance alone does not put it anywhere.
const PART_OF_A_KEY: usize = 12;

#[test]
fn logs_are_one_json_object_a_line_with_one_line_for_each_request_and_its_id() {
    let directory = tempdir().unwrap();
    let server = Server::start(directory.path(), &[]);
    let mut ids = HashSet::new();
    for target in ["/", "/robots.txt", "/nowhere/at/all", "/api/pages/nothing-22222222?secret=sesame"] {
        let answer = get(server.address, target).unwrap();
        ids.insert(answer.header("x-request-id").expect("an answer has an id").to_owned());
    }
    assert_eq!(ids.len(), 4);
    let (_, stdout, log) = server.stop();
    assert_eq!(stdout, "");
    let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    let answered: Vec<_> = lines.iter().filter(|line| line["message"] == "answered").collect();
    let logged: HashSet<_> =
        answered.iter().map(|line| line["span"]["request_id"].as_str().unwrap().to_owned()).collect();
    assert_eq!((answered.len(), logged), (4, ids));
    for part in ["nowhere", "nothing-22222222", "secret", "sesame"] {
        assert!(!log.contains(part), "{part:?} is in {log}");
    }
}

#[test]
fn text_that_is_not_written_to_a_terminal_has_no_escape_sequences() {
    let directory = tempdir().unwrap();
    let server = Server::start(directory.path(), &["--log-format", "text"]);
    get(server.address, "/").unwrap();
    let (_, _, log) = server.stop();
    assert!(log.contains("answered") && !log.contains('\u{1b}'), "{log}");
}

#[test]
fn a_key_is_in_no_log_and_no_metric_and_on_disk_only_as_its_hash() {
    let directory = tempdir().unwrap();
    // Every event there is, of every library.
    let server = Server::start(directory.path(), &["--log", "trace"]);
    let page = post(server.address, "Secret", "x").unwrap().json();
    let (slug, key) = (page["slug"].as_str().unwrap(), page["edit_key"].as_str().unwrap());
    let api = format!("/api/pages/{slug}");
    let authorization = bearer(key);
    let ask = |method: &str, target: &str, headers: &[(&str, &str)], body: &str| {
        request(server.address, method, target, headers, body.as_bytes()).unwrap().status
    };
    let with_key = [JSON, ("Authorization", authorization.as_str())];
    assert_eq!(ask("PATCH", &api, &with_key, r#"{"content": "y"}"#), 200);
    assert_eq!(ask("PATCH", &api, &with_key, &format!(r#"{{"content": "my key is {key}"}}"#)), 400);
    assert_eq!(ask("PATCH", &api, &with_key, &format!(r#"{{"{key}": "{key}"}}"#)), 400);
    assert_eq!(ask("PATCH", &api, &[JSON, ("Authorization", key)], "{}"), 401);
    assert_eq!(ask("PATCH", &api, &[JSON, ("X-Key", key), ("Cookie", key)], "{}"), 401);
    assert_eq!(ask("DELETE", &format!("{api}?edit_key={key}"), &[], ""), 401);
    assert_eq!(ask("DELETE", &format!("{api}?{key}"), &with_key[1..], ""), 401);
    assert_eq!(ask("GET", &format!("/{key}"), &[], ""), 404);
    assert_eq!(ask("GET", &format!("/api/pages/{key}"), &[], ""), 404);
    assert_eq!(ask("POST", "/api/pages", &[JSON], &format!(r#"{{"{key}": 1}}"#)), 400);
    assert_eq!(ask("POST", "/api/pages", &[("Content-Type", key)], key), 400);
    assert_eq!(ask(key, "/", &[], ""), 405);
    let form = ("Content-Type", "application/x-www-form-urlencoded");
    let client = format!("grant_type=client_credentials&client_id={slug}&client_secret={key}");
    assert_eq!(ask("POST", "/oauth/token", &[form], &client), 200);
    assert_eq!(ask("POST", "/oauth/token", &[form, ("Authorization", authorization.as_str())], &client), 400);
    assert_eq!(ask("POST", "/oauth/token", &[form], &format!("{client}&scope={key}")), 400);
    assert_eq!(
        ask("POST", "/oauth/token", &[form], &format!("grant_type={key}&client_id={key}&client_secret={key}")),
        400
    );
    assert_eq!(
        ask("POST", "/oauth/token", &[form], &format!("grant_type=client_credentials&client_id={key}&client_secret=x")),
        401
    );
    assert_eq!(ask("POST", &format!("/oauth/token?client_secret={key}"), &[form], &client), 400);
    let mut nonsense = Connection::open(server.address).unwrap();
    nonsense.send(format!("GET /{key}\0 {key}\r\n{key}\r\n\r\n")).unwrap();
    assert_eq!(nonsense.answer().unwrap().status, 400);
    // The same key where a tool takes it, and where it does not belong.
    let call = |tool: &str, arguments: &str| {
        let name = format!(r#"{{"name": "{tool}", "arguments": {arguments}}}"#);
        let message = format!(r#"{{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {name}}}"#);
        ask("POST", "/mcp", &[JSON], &message)
    };
    let own = format!(r#""slug": "{slug}", "edit_key": "{key}""#);
    assert_eq!(call("update_page", &format!(r#"{{{own}, "title": "z"}}"#)), 200);
    assert_eq!(call("update_page", &format!(r#"{{{own}, "content": "my key is {key}"}}"#)), 200);
    assert_eq!(call("update_page", &format!(r#"{{{own}, "{key}": "{key}"}}"#)), 200);
    assert_eq!(call("get_page", &format!(r#"{{"slug": "{key}"}}"#)), 200);
    assert_eq!(call("get_page", &format!(r#"["{key}"]"#)), 200);
    assert_eq!(call(key, "{}"), 200);
    assert_eq!(ask("POST", "/mcp", &[JSON, ("Origin", key)], key), 403);
    assert_eq!(ask("POST", "/mcp", &[JSON], key), 400);
    assert_eq!(ask("POST", "/mcp", &[JSON], &format!(r#"{{"jsonrpc": "2.0", "id": 1, "method": "{key}"}}"#)), 200);
    let version = [JSON, ("MCP-Protocol-Version", key)];
    assert_eq!(ask("POST", "/mcp", &version, r#"{"jsonrpc": "2.0", "id": 1, "method": "ping"}"#), 400);
    let modern = [JSON, ("MCP-Protocol-Version", "2026-07-28"), ("Mcp-Method", key), ("Mcp-Name", key)];
    assert_eq!(ask("POST", "/mcp", &modern, r#"{"jsonrpc": "2.0", "id": 1, "method": "ping"}"#), 400);
    let metrics = get(server.admin, "/metrics").unwrap();
    let (_, stdout, log) = server.stop();
    assert!(log.lines().count() > 10, "everything is logged");

    let hash: [u8; 32] = Sha256::digest(key.as_bytes()).into();
    let files = files(directory.path());
    assert!(files.iter().any(|bytes| holds(bytes, &hash)), "its hash is on disk");
    let hash = hash.iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"));
    let opaque = key.strip_prefix("hbk_").unwrap().as_bytes();
    for part in opaque.windows(PART_OF_A_KEY) {
        for (place, bytes) in [("the log", log.as_bytes()), ("output", stdout.as_bytes()), ("metrics", &metrics.body)] {
            assert!(!holds(bytes, part), "{:?} is in {place}", String::from_utf8_lossy(part));
        }
        assert!(!files.iter().any(|bytes| holds(bytes, part)), "part of the key is on disk");
    }
    assert!(!log.contains(&hash), "nor is its hash in the log");
    assert!(!log.contains(slug) && !metrics.text().contains(slug));
}

#[test]
fn a_key_that_a_tool_gives_out_is_in_no_log_however_much_is_logged_and_whatever_of() {
    let directory = tempdir().unwrap();
    // A directive for the library that logs whole results, more telling than any for all of them.
    let server = Server::start(directory.path(), &["--log", "trace,rmcp=trace,rmcp::service=trace"]);
    let create = r#"{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params":
        {"name": "create_page", "arguments": {"title": "Secret", "content": "x"}}}"#;
    let answer = request(server.address, "POST", "/mcp", &[JSON], create.as_bytes()).unwrap();
    let key = answer.json()["result"]["structuredContent"]["edit_key"].as_str().unwrap().to_owned();
    let (_, stdout, log) = server.stop();
    assert!(log.contains("answered"), "{log}");
    for part in key.strip_prefix("hbk_").unwrap().as_bytes().windows(PART_OF_A_KEY) {
        assert!(!holds(log.as_bytes(), part) && !holds(stdout.as_bytes(), part), "a part of the key is in the log");
    }
}

fn files(directory: &Path) -> Vec<Vec<u8>> {
    fs::read_dir(directory).unwrap().map(|entry| fs::read(entry.unwrap().path()).unwrap()).collect()
}

fn holds(bytes: &[u8], part: &[u8]) -> bool {
    // Nearly every place fails at the first byte, which is found fast.
    let mut rest = bytes;
    while let Some(at) = rest.iter().position(|&byte| byte == part[0]) {
        if rest[at..].starts_with(part) {
            return true;
        }
        rest = &rest[at + 1..];
    }
    false
}

#[test]
fn metrics_are_openmetrics_with_bounded_labels() {
    let directory = tempdir().unwrap();
    let server = Server::start(directory.path(), &[]);
    let page = post(server.address, "Counted", "x").unwrap().json();
    let slug = page["slug"].as_str().unwrap();
    let series = |text: &str| text.lines().filter(|line| !line.starts_with('#')).count();
    let scrape = || get(server.admin, "/metrics").unwrap();
    let ask_everything = |round: usize| {
        get(server.address, &format!("/{slug}")).unwrap();
        get(server.address, &format!("/nothing-{round}-22222222")).unwrap();
        get(server.address, &format!("/nowhere/{round}?q={round}")).unwrap();
        request(server.address, &format!("ODD{round}"), "/", &[], b"").unwrap();
        request(server.address, "POST", "/api/pages", &[JSON], page_json(&format!("{round}"), "x").as_bytes()).unwrap();
    };
    ask_everything(0);
    let first = scrape();
    (1..30).for_each(ask_everything);
    let second = scrape();
    assert_eq!(first.header("content-type"), Some("application/openmetrics-text; version=1.0.0; charset=utf-8"));
    assert_eq!(series(first.text()), series(second.text()), "the number of series does not grow with what is asked");
    assert!(!second.text().contains(slug) && !second.text().contains("ODD") && !second.text().contains("nowhere"));
    check_openmetrics(second.text());
    for name in
        ["http_server_request_duration_seconds_count", "handbill_store_duration_seconds_bucket", "handbill_connections"]
    {
        assert!(second.text().lines().any(|line| line.starts_with(name)), "{name}");
    }
}

/// Checks each line against the grammar of OpenMetrics 1.0, and that families do not interleave.
fn check_openmetrics(text: &str) {
    let body = text.strip_suffix("# EOF\n").expect("it ends with its end");
    let (mut family, mut kind, mut finished) = (String::new(), String::new(), HashSet::new());
    let mut series = HashSet::new();
    for line in body.lines() {
        if let Some(comment) = line.strip_prefix("# ") {
            let mut words = comment.splitn(3, ' ');
            let (what, name, value) = (words.next().unwrap(), words.next().unwrap(), words.next().expect(line));
            assert!(matches!(what, "HELP" | "TYPE" | "UNIT"), "{line}");
            if name != family {
                assert!(finished.insert(std::mem::replace(&mut family, name.to_owned())), "{name} comes twice");
                kind.clear();
            }
            match what {
                "TYPE" => value.clone_into(&mut kind),
                "UNIT" => assert!(name.ends_with(&format!("_{value}")), "{line}"),
                _ => assert!(!value.is_empty()),
            }
            continue;
        }
        let (name_and_labels, value) = line.rsplit_once(' ').expect(line);
        assert!(value.parse::<f64>().is_ok(), "{line}");
        assert!(series.insert(name_and_labels.to_owned()), "{line} comes twice");
        let (name, labels) = name_and_labels.split_once('{').unwrap_or((name_and_labels, "}"));
        let suffix = name.strip_prefix(&family).unwrap_or_else(|| panic!("{line} is not of {family}"));
        let allowed: &[&str] = match kind.as_str() {
            "counter" => &["_total", "_created"],
            "histogram" => &["_bucket", "_count", "_sum"],
            "info" => &["_info"],
            "gauge" => &[""],
            _ => panic!("{family} is a {kind:?}"),
        };
        assert!(allowed.contains(&suffix), "{line}");
        let labels = labels.strip_suffix('}').expect(line);
        for label in labels.split(',').filter(|label| !label.is_empty()) {
            let (key, value) = label.split_once('=').expect(line);
            assert!(key.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'), "{line}");
            assert!(value.len() >= 2 && value.starts_with('"') && value.ends_with('"'), "{line}");
        }
    }
}

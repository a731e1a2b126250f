//! What `/metrics` may hold: documented names, and labels whose values are from closed sets.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde_json::json;
use tempfile::tempdir;

use crate::client::{JSON, MCP_ACCEPT, bearer, get, page_json, post, request};
use crate::collector::{Collector, Manner};
use crate::support::{Server, handbill};

/// The values that a label may have, whatever is asked; a number or an id where it is none of the listed ones.
fn is_allowed(key: &str, value: &str) -> bool {
    let among = |values: &[&str]| values.contains(&value);
    match key {
        "le" => value == "+Inf" || value.parse::<f64>().is_ok(),
        "http_request_method" => among(&["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "_OTHER"]),
        "http_route" => among(&[
            "",
            "/",
            "/{slug}",
            "/api/pages",
            "/api/pages/{slug}",
            "/assets/{name}",
            "/favicon.ico",
            "/mcp",
            "/oauth/token",
            "/openapi.json",
            "/robots.txt",
        ]),
        "http_response_status_code" => {
            among(&["200", "201", "204", "304", "400", "401", "404", "405", "406", "410", "412", "413", "429", "431"])
        }
        "operation" => {
            among(&["lookup", "insert_if_absent", "compare_and_set", "reserve", "release", "create", "edit", "token"])
        }
        "limit" => among(&["create", "edit", "token"]),
        "outcome" => among(&[
            "done",
            "slug_taken",
            "active",
            "deleted",
            "absent",
            "stale",
            "held",
            "taken",
            "admitted",
            "refused",
            "exported",
            "failed",
            "dropped",
            "ok",
            "unknown_tool",
            "invalid_body",
            "not_found",
            "gone",
            "invalid_key",
            "missing_key",
        ]),
        "tool" => among(&["create_page", "get_page", "update_page", "delete_page", "_OTHER"]),
        "version" => value == env!("CARGO_PKG_VERSION"),
        "commit" => value == option_env!("GIT_COMMIT").unwrap_or("unknown"),
        // Of exemplars alone.
        "trace_id" => value.len() == 32 && value.bytes().all(|byte| byte.is_ascii_hexdigit()),
        _ => false,
    }
}

/// The labels of a line, those of its exemplar included. No value holds a quotation mark.
fn labels(line: &str) -> Vec<(&str, &str)> {
    let parts: Vec<_> = line.split('"').collect();
    let pairs =
        parts.chunks_exact(2).map(|pair| (pair[0].trim_end_matches('=').rsplit(['{', ',']).next().unwrap(), pair[1]));
    pairs.collect()
}

/// Asks for a bit of everything, much of it in words that nobody has asked in before.
fn ask_around(server: &Server) {
    let page = post(server.address, "Counted", &"# Long\n".repeat(1000)).unwrap().json();
    let (slug, key) = (page["slug"].as_str().unwrap(), page["edit_key"].as_str().unwrap());
    let (api, authorization) = (format!("/api/pages/{slug}"), bearer(key));
    let with_key = [JSON, ("Authorization", authorization.as_str())];
    let ask = |method: &str, target: &str, headers: &[(&str, &str)], body: &str| {
        request(server.address, method, target, headers, body.as_bytes()).unwrap()
    };
    for target in
        ["/", &format!("/{slug}?a=b"), &format!("/{slug}.md"), &api, "/nothing-22222222", "/no/where", "/openapi.json"]
    {
        ask("GET", target, &[("X-Forwarded-For", "198.51.100.7")], "");
        ask("HEAD", target, &[], "");
        ask("OPTIONS", target, &[], "");
        ask("INVENTED", target, &[], "");
        ask("PUT", target, &[], "x");
    }
    ask("PATCH", &api, &with_key, &page_json("Counted again", "y"));
    ask("PATCH", &api, &[JSON], "{}");
    ask("POST", "/api/pages", &[JSON], "{");
    ask("POST", "/oauth/token", &[], "");
    for (tool, arguments) in [
        ("create_page", json!({"title": "By a tool", "content": "x"})),
        ("get_page", json!({"slug": slug})),
        ("get_page", json!({"slug": "nothing-22222222"})),
        ("invented_tool", json!({})),
        ("update_page", json!({"slug": slug, "edit_key": "wrong"})),
        ("delete_page", json!({"slug": slug, "edit_key": key})),
        ("get_page", json!({"slug": slug})),
    ] {
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": arguments}});
        ask("POST", "/mcp", &[JSON, MCP_ACCEPT], &call.to_string());
    }
}

#[test]
fn every_name_is_documented_and_every_label_has_a_value_of_a_closed_set() {
    let (collector, directory) = (Collector::start(Manner::Takes), tempdir().unwrap());
    let command = handbill(["--otlp-endpoint", &collector.endpoint()]);
    let server = Server::start_as(command, directory.path(), &[]);
    ask_around(&server);
    let metrics = get(server.admin, "/metrics").unwrap();
    let document = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/observability.md");
    let document = fs::read_to_string(document).unwrap();
    let mut keys = BTreeSet::new();
    for line in metrics.text().lines().filter(|line| !line.starts_with('#')) {
        let name = line.split(['{', ' ']).next().unwrap();
        let documented = ["_bucket", "_count", "_sum"].iter().find_map(|part| name.strip_suffix(part)).unwrap_or(name);
        assert!(document.contains(&format!("`{documented}`")), "{documented} is not in docs/observability.md");
        for (key, value) in labels(line) {
            assert!(is_allowed(key, value), "{key}={value:?} in {line}");
            keys.insert(key.to_owned());
        }
    }
    for key in ["http_route", "outcome", "tool", "limit", "commit", "trace_id"] {
        assert!(keys.contains(key), "{key} is not among {keys:?}");
    }
}

#[test]
fn the_process_and_its_runtime_tell_of_themselves() {
    let directory = tempdir().unwrap();
    let server = Server::start(directory.path(), &[]);
    let figures = || {
        let metrics = get(server.admin, "/metrics").unwrap();
        let text = metrics.text().to_owned();
        move |name: &str| -> f64 {
            let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
            value.unwrap_or_else(|| panic!("no {name} in {text}")).parse().unwrap()
        }
    };
    let before = figures();
    assert!(before("process_start_time_seconds") > 1_700_000_000.0);
    assert!(before("process_resident_memory_bytes") > 1_000_000.0);
    assert!(before("process_open_fds") >= 3.0 && before("process_max_fds") > before("process_open_fds"));
    assert!(before("process_threads") >= 2.0 && before("tokio_workers") >= 1.0);
    assert!(before("tokio_alive_tasks") >= 1.0 && before("tokio_global_queue_depth") >= 0.0);
    let content = "* a\n".repeat(10_000);
    let mut after = before;
    // However fast the machine is, some work is seen in the end.
    loop {
        let (cpu, busy) = (after("process_cpu_seconds_total"), after("tokio_worker_busy_seconds_total"));
        assert_eq!(post(server.address, "Busy", &content).unwrap().status, 201);
        let now = figures();
        if now("process_cpu_seconds_total") > cpu && now("tokio_worker_busy_seconds_total") > busy {
            break;
        }
        after = now;
    }
}

#[test]
fn a_header_of_a_peer_that_is_not_trusted_is_counted_and_told_of_once_without_an_address() {
    const TOLD: &str = "name its network in --trusted-proxies";
    let directory = tempdir().unwrap();
    let server = Server::start(directory.path(), &[]);
    let ask = |server: &Server, target: &str, header: (&str, &str)| {
        request(server.address, "GET", target, &[header], b"").unwrap();
    };
    let ask_all = |server: &Server| {
        ask(server, "/", ("X-Forwarded-For", "198.51.100.7"));
        ask(server, "/nowhere/at/all", ("Forwarded", "for=198.51.100.7"));
        ask(server, "/mcp", ("X-Forwarded-For", "198.51.100.7"));
        ask(server, "/", ("X-Forwarded-Proto", "https"));
    };
    let counted = |server: &Server| {
        let metrics = get(server.admin, "/metrics").unwrap();
        let value = metrics.text().lines().find_map(|line| line.strip_prefix("handbill_untrusted_forwarded_total "));
        value.expect("it is there from the start").to_owned()
    };
    ask_all(&server);
    assert_eq!(counted(&server), "3");
    let (.., log) = server.stop();
    let told: Vec<_> = log.lines().filter(|line| line.contains(TOLD)).collect();
    assert!(told.len() == 1 && told[0].contains(r#""peer_network":"127.0.0.0/24""#), "{log}");
    assert!(!log.contains("198.51.100.7") && !told[0].contains("127.0.0.1"), "{log}");

    let server = Server::start(directory.path(), &["--trusted-proxies", "127.0.0.0/8"]);
    ask_all(&server);
    assert_eq!(counted(&server), "0");
    let (.., log) = server.stop();
    assert!(!log.contains(TOLD), "{log}");
}

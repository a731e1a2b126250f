//! The allowed content of `/metrics`: the metrics, labels and values that `docs/monitoring.md` lists, and nothing else.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use handbill_test_support::client::{JSON, MCP_ACCEPT, bearer, get, page_json, post, request, tool_call};
use handbill_test_support::server::{Server, handbill, on};
use serde_json::json;
use tempfile::tempdir;

use crate::collector::{Collector, Manner};

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
    let markdown = ("Content-Type", "text/markdown");
    ask("POST", "/", &[markdown], "# By a shell");
    ask("POST", "/?action=preview", &[markdown], "text");
    ask("POST", "/", &[("Sec-Fetch-Site", "cross-site")], "");
    for (tool, arguments) in [
        ("create_page", json!({"title": "By a tool", "content": "x"})),
        ("get_page", json!({"slug": slug})),
        ("get_page", json!({"slug": "nothing-22222222"})),
        ("invented_tool", json!({})),
        ("update_page", json!({"slug": slug, "edit_key": "wrong"})),
        ("delete_page", json!({"slug": slug, "edit_key": key})),
        ("get_page", json!({"slug": slug})),
    ] {
        ask("POST", "/mcp", &[JSON, MCP_ACCEPT], &tool_call(tool, &arguments));
    }
}

#[test]
fn a_scrape_holds_exactly_what_is_documented() {
    let (collector, directory) = (Collector::start(Manner::Takes), tempdir().unwrap());
    let blocklist = directory.path().join("blocklist");
    fs::write(&blocklist, "blocked.example\n").unwrap();
    let mut command = handbill(["--otlp-endpoint", &collector.endpoint()]);
    command.arg("--blocklist-file").arg(&blocklist);
    let server = Server::start_as(command, &directory.path().join("data"), &[]);
    ask_around(&server);
    post(server.address, "Refused", "https://blocked.example/").unwrap();
    on(&directory.path().join("data"), ["inspect", "nothing-22222222"]);
    request(server.address, "POST", "/?action=preview", &[("Content-Type", "text/markdown")], b"# T").unwrap();
    let documented = documented();
    let routes = &documented["http_server_request_duration_seconds"]["http_route"];
    for route in routes {
        get(server.address, &route.replace(['{', '}'], "")).unwrap();
    }
    let metrics = get(server.admin, "/metrics").unwrap();
    assert_eq!(undocumented(metrics.text()), BTreeSet::new());
    for name in documented.keys() {
        let holds = |line: &str| {
            let named = line.split(['{', ' ']).next();
            named.is_some_and(|named| named == name || named.strip_suffix("_count") == Some(name))
        };
        assert!(metrics.text().lines().any(holds), "{name} is listed and not there: {}", metrics.text());
    }
    for route in routes {
        let label = format!("http_route=\"{route}\"");
        assert!(metrics.text().contains(&label), "{label} is listed and not there");
    }
}

#[test]
fn a_header_of_an_untrusted_peer_is_counted_and_told_of_once() {
    const TOLD: &str = "add its network to --trusted-proxies";
    let directory = tempdir().unwrap();
    let server = Server::start(directory.path(), &[]);
    let ask = |server: &Server, target: &str, header: (&str, &str)| {
        request(server.address, "GET", target, &[header], b"").unwrap();
    };
    let ask_all = |server: &Server| {
        ask(server, "/", ("X-Forwarded-For", "198.51.100.7"));
        ask(server, "/nowhere/at/all", ("X-Forwarded-For", "198.51.100.7"));
        ask(server, "/mcp", ("X-Forwarded-For", "198.51.100.7"));
        ask(server, "/", ("X-Forwarded-Proto", "https"));
    };
    let counted = |server: &Server| server.metric("handbill_untrusted_forwarded_total");
    ask_all(&server);
    assert_eq!(counted(&server), 3);
    let (.., log) = server.stop();
    let told: Vec<_> = log.lines().filter(|line| line.contains(TOLD)).collect();
    assert!(told.len() == 1 && told[0].contains(r#""peer_network":"127.0.0.0/24""#), "{log}");
    assert!(!log.contains("198.51.100.7") && !told[0].contains("127.0.0.1"), "{log}");

    let server = Server::start(directory.path(), &["--trusted-proxies", "127.0.0.0/8"]);
    ask_all(&server);
    assert_eq!(counted(&server), 0);
    let (.., log) = server.stop();
    assert!(!log.contains(TOLD), "{log}");
}

type Labels = BTreeMap<String, BTreeSet<String>>;

fn documented() -> BTreeMap<String, Labels> {
    let document = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/monitoring.md");
    let document = fs::read_to_string(document).expect("it is there");
    let (_, section) = document.split_once("\n## Metrics\n").expect("it has the section");
    let (section, _) = section.split_once("\n## ").expect("another follows");
    let rows = || section.lines().filter(|line| line.starts_with("| `")).map(cells);
    let own = rows().filter(|row| row.len() == 2).map(|row| (quoted(row[0]).remove(0), quoted(row[1])));
    let mut shared: BTreeMap<String, Vec<String>> = own.collect();
    shared.insert("version".to_owned(), vec![env!("CARGO_PKG_VERSION").to_owned()]);
    shared.insert("commit".to_owned(), vec![option_env!("GIT_COMMIT").unwrap_or("unknown").to_owned()]);
    let mut metrics = BTreeMap::new();
    for row in rows().filter(|row| row.len() == 4) {
        let mut labels = Labels::new();
        for part in row[2].split(';') {
            if let Some((name, values)) = part.split_once(':') {
                labels.insert(quoted(name).remove(0), quoted(values).into_iter().collect());
                continue;
            }
            for name in quoted(part) {
                let values = shared.get(&name).unwrap_or_else(|| panic!("no values of {name} in {row:?}"));
                labels.insert(name, values.iter().cloned().collect());
            }
        }
        metrics.extend(quoted(row[0]).into_iter().map(|name| (name, labels.clone())));
    }
    assert!(metrics.len() > 20, "the table was found");
    metrics
}

fn undocumented(scrape: &str) -> BTreeSet<String> {
    let documented = documented();
    let mut faults = BTreeSet::new();
    for line in scrape.lines().filter(|line| !line.starts_with('#')) {
        let name = line.split(['{', ' ']).next().expect("there is a first part");
        let parts = ["_bucket", "_count", "_sum"];
        let known = documented.get_key_value(name).or_else(|| {
            let family = parts.iter().find_map(|part| name.strip_suffix(part))?;
            documented.get_key_value(family)
        });
        let Some((family, labels)) = known else {
            faults.insert(format!("{name} is not listed"));
            continue;
        };
        for (label, value) in pairs(line) {
            let is_bound = label == "le" && name.ends_with("_bucket");
            // To Prometheus a label without a value is a label that is absent.
            if !is_bound && !value.is_empty() && !labels.get(label).is_some_and(|values| values.contains(value)) {
                faults.insert(format!("{family} is not listed with {label}={value:?}"));
            }
        }
    }
    faults
}

fn cells(row: &str) -> Vec<&str> {
    row.trim().trim_matches('|').split('|').map(str::trim).collect()
}

fn quoted(text: &str) -> Vec<String> {
    text.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// The labels with their values. No value holds a quotation mark.
fn pairs(text: &str) -> Vec<(&str, &str)> {
    let parts: Vec<_> = text.split('"').collect();
    let pairs = parts.chunks_exact(2);
    pairs.filter_map(|pair| Some((pair[0].trim_end_matches('=').rsplit(['{', ',']).next()?, pair[1]))).collect()
}

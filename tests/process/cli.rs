//! The command line: which values are refused and how, which source a setting comes from, and what each subcommand
//! does.

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};

use handbill_store_sqlite::JOURNAL_FILE;
use handbill_test_support::client::{Connection, get, post, request};
use handbill_test_support::server::{FREE_PORTS, Server, handbill, program, refused, run, text, with_data};
use serde_json::Value;
use tempfile::tempdir;

fn refusal(command: Command) -> String {
    println!("{command:?}");
    refused(&run(command, b"")).to_owned()
}

fn refused_with(data_dir: &Path) -> String {
    refusal(with_data(handbill(FREE_PORTS), data_dir))
}

/// The types of the settings and their tests say which values make sense.
#[test]
fn a_value_that_makes_no_sense_is_refused_with_its_option_and_a_value_that_works() {
    for (option, value, works) in [
        ("listen", "localhost:80", "127.0.0.1:8080"),
        ("admin-listen", ":9090", "127.0.0.1:8080"),
        ("allowed-hosts", "a.example,b c", "pages.example"),
        ("base-url", "https://a.example/path", "https://pages.example"),
        ("mcp-base-url", "https://mcp.pages.example/mcp", "https://pages.example"),
        ("site-links", "imprint=https://a.example/", "terms=URL"),
        ("trusted-proxies", "10.0.0.0/8,nonsense", "10.0.0.0/8"),
        ("cache-size", "512mb", "64MiB"),
        ("max-connections", "0", "4096"),
        ("max-connections", "x", "4096"),
        ("edge-max-age", "301s", "1m"),
        ("edge-max-age", "1500ms", "1m"),
        ("drain-delay", "5", "15s"),
        ("drain-timeout", "-5s", "15s"),
        ("store", "nonsense", "sqlite"),
        ("create-limit", "-1", "10"),
        ("edit-limit", "1000001", "60"),
        ("token-limit", "1.5", "60"),
        ("limit-networks", "10.0.0.0/8=0", "192.0.2.0/24=30"),
        ("rate-window", "1500ms", "1h"),
        ("rate-window", "x", "1h"),
        ("otlp-endpoint", "http://u:p@c.example", "http://collector:4318"),
        ("log-format", "xml", "json"),
        ("log", "handbill=nonsense", "info,handbill=debug"),
        ("abuse-contact", "abuse", "abuse@example.org"),
        ("scylla-nodes", "db-1", "db-1.example:9042"),
        ("scylla-keyspace", "a b", "handbill"),
        ("scylla-consistency", "quorum", "local"),
        ("redis-mode", "nonsense", "cluster"),
        ("redis-timeout", "1", "100ms"),
    ] {
        let mut by_variable = handbill::<&str>([]);
        by_variable.env(variable(option), value);
        let empty = handbill([format!("--{option}=")]);
        for command in [handbill([format!("--{option}={value}")]), by_variable] {
            let line = refusal(command);
            assert!(line.contains(&format!("--{option}")) && line.contains(works), "{line}");
        }
        assert!(refusal(empty).contains(&format!("--{option}")), "{option}");
    }
    let mut switch = handbill::<&str>([]);
    switch.env("HANDBILL_NOINDEX_ALL", "maybe");
    let line = refusal(switch);
    assert!(line.contains("--noindex-all") && line.contains("true or false"), "{line}");
    assert!(refused_with(Path::new("/etc/passwd")).contains("--data-dir"));
}

fn variable(option: &str) -> String {
    format!("HANDBILL_{}", option.replace('-', "_").to_uppercase())
}

#[test]
fn settings_that_cannot_work_are_refused_and_so_by_the_check() {
    let folder = tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (data, empty, missing) = (path("data"), path("empty"), path("missing"));
    fs::write(&empty, "").unwrap();
    let base = [&FREE_PORTS[..], &["--data-dir", &data]].concat();
    let nodes = ["--store", "scylla", "--scylla-nodes", "127.0.0.1:1"];
    let redis = ["--redis-url", "redis://127.0.0.1:1"];
    let scylla = [&nodes[..], &redis].concat();
    for (with, wrong, told) in [
        (&nodes[..2], &redis[..], "--scylla-nodes"),
        (&[&nodes[..2], &redis].concat(), &["--scylla-nodes", "a.example"], "--scylla-nodes"),
        (&scylla, &["--scylla-keyspace", "2A"], "--scylla-keyspace"),
        (&scylla, &["--scylla-username", "alone"], "--scylla-password-file"),
        (&scylla, &["--scylla-password-file", &missing], "--scylla-password-file"),
        (&scylla, &["--scylla-username", "user", "--scylla-password-file", &missing], "--scylla-password-file"),
        (&scylla, &["--scylla-ca-file", &missing], "--scylla-ca-file"),
        (&scylla, &["--scylla-client-cert-file", &empty], "--scylla-ca-file"),
        (&[], &["--redis-url", "nonsense"], "--redis-url"),
        (&redis, &["--redis-client-cert-file", &empty], "rediss://"),
    ] {
        let own = [&base[..], with, wrong].concat();
        let line = refusal(handbill(&own));
        assert!(line.contains(told), "{wrong:?}: {line}");
        assert_eq!(refusal(handbill([&["serve", "--check-config"][..], &own].concat())), line);
    }
    let cluster = ["migrate", "--store", "scylla", "--scylla-nodes", "127.0.0.1:1"];
    for (option, value) in [("scylla-replication-factor", "0"), ("scylla-consistency", "some"), ("schema-wait", "soon")]
    {
        let line = refusal(handbill([&cluster[..], &[&format!("--{option}={value}")]].concat()));
        assert!(line.contains(&format!("--{option}")), "{option}={value}: {line}");
    }
}

#[test]
fn an_empty_variable_counts_as_not_set() {
    let help = run(handbill(["serve", "--help"]), b"");
    let variables = text(&help.stdout).split("[env: ").skip(1).map(|rest| rest.split(['=', ']']).next().unwrap());
    let mut command = handbill(["--create-limit", "0"]);
    let mut count = 0;
    for variable in variables {
        command.env(variable, "");
        count += 1;
    }
    assert!(count > 30, "{count}");
    let server = Server::temporary_as(command, &[]);
    assert_eq!(post(server.address, "Started", "x").unwrap().status, 201);
}

#[test]
fn settings_of_a_store_that_is_not_chosen_have_no_effect() {
    let directory = tempdir().unwrap();
    let of_scylla = [
        ("scylla-nodes", "127.0.0.1:1"),
        ("scylla-keyspace", "other"),
        ("scylla-datacenter", "other"),
        ("scylla-consistency", "global"),
        ("scylla-username", "alone"),
        ("scylla-password-file", "/absent"),
        ("scylla-ca-file", "/absent"),
        ("scylla-client-cert-file", "/absent"),
    ];
    let mut by_variable = handbill::<&str>([]);
    by_variable.envs(of_scylla.map(|(option, value)| (variable(option), value)));
    // It is no option of `serve`.
    by_variable.env("HANDBILL_SCYLLA_REPLICATION_FACTOR", "many");
    let by_flag = handbill(of_scylla.map(|(option, value)| format!("--{option}={value}")));
    for command in [by_variable, by_flag] {
        let server = Server::start_as(command, directory.path(), &[]);
        assert_eq!(get(server.admin, "/readyz").unwrap().status, 200);
        let (status, _, log) = server.stop();
        assert!(status.success() && !log.contains("scylla") && !log.contains("SCYLLA"), "{log}");
    }

    let socket = format!("--admin-socket={}", directory.path().join("scylla.sock").display());
    let scylla = ["--store=scylla", "--scylla-nodes=127.0.0.1:1", "--redis-url=redis://127.0.0.1:1", &socket];
    // No user can create a directory there.
    let server = Server::start_as(handbill(scylla), Path::new("/proc/nonsense"), &[]);
    assert_eq!(get(server.admin, "/livez").unwrap().status, 200);
    drop(server);
    // The choice itself may come from a variable.
    let mut chosen = handbill([&FREE_PORTS[..], &["--scylla-nodes", "127.0.0.1:1"]].concat());
    chosen.env("HANDBILL_STORE", "scylla");
    assert!(refusal(chosen).contains("--redis-url"));
}

#[test]
fn an_unknown_option_or_command_is_refused_with_one_line() {
    for (args, told) in [
        (&["--nonsense"][..], "--nonsense"),
        (&["nonsense"], "nonsense"),
        (&["render", "nonsense"], "nonsense"),
        (&["--listen"], "--listen"),
        (&["--listen", "a\nb\n\nc"], "--listen"),
        (&["--store", "redis"], "possible values: sqlite, scylla"),
        (&["--listn", "127.0.0.1:0"], "--listen"),
        (&["takedown", "a-page-22222222"], "--reason"),
        (&["export", "--journal", "--hidden"], "--journal"),
        (&["Cargo.toml"], "`handbill publish Cargo.toml`"),
    ] {
        let line = refusal(handbill(args));
        assert!(line.contains(told), "{line}");
    }
}

#[test]
fn the_first_help_is_one_screen_with_every_command() {
    let output = run(handbill(["--help"]), b"");
    let help = text(&output.stdout);
    assert!(help.lines().count() <= 50, "{help}");
    let (mut rest, mut listed) = (help, 0);
    for (heading, first) in [("Pages", "publish"), ("Server", "serve"), ("Operators", "migrate"), ("More", "openapi")] {
        rest = rest.split_once(&format!("\n{heading}:\n")).unwrap_or_else(|| panic!("no {heading} in {help}")).1;
        let group = rest.split("\n\n").next().unwrap();
        assert!(group.trim_start().starts_with(first), "{heading}: {group}");
        listed += group.lines().count();
    }
    assert_eq!(listed, 22, "a command that this test does not know:\n{help}");
    assert!(help.lines().all(|line| line.chars().count() <= 80) && !help.contains("--listen"), "{help}");
}

#[test]
fn without_a_command_a_terminal_is_told_how_to_publish() {
    let mut script = Command::new("/usr/bin/script");
    let binary = program();
    // It ends at once, because nobody can create a directory there.
    script.args(["-qec", &format!("'{binary}' --data-dir /proc/handbill"), "/dev/null"]).env_clear();
    script.stdout(Stdio::piped()).stderr(Stdio::piped());
    let output = run(script, b"");
    let first = text(&output.stdout).lines().next().unwrap_or_default();
    assert!(first.contains("server") && first.contains("`handbill publish "), "{first}");
}

#[test]
fn a_port_in_use_is_refused_with_one_line() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let directory = tempdir().unwrap();
    for (option, other) in [("--listen", "--admin-listen"), ("--admin-listen", "--listen")] {
        let line = refusal(with_data(handbill([option, &address, other, "127.0.0.1:0"]), directory.path()));
        assert!(line.contains(&address) && line.contains(option), "{line}");
    }
}

#[test]
fn a_data_directory_that_another_process_uses_is_refused() {
    let directory = tempdir().unwrap();
    let server = Server::start(directory.path(), &[]);
    let line = refused_with(directory.path());
    assert!(line.contains("another process answers at") && line.contains("--data-dir"), "{line}");
    assert_eq!(post(server.address, "Still here", "x").unwrap().status, 201);
}

#[test]
fn a_data_directory_that_cannot_be_one_is_refused_with_one_line() {
    let directory = tempdir().unwrap();
    let file = directory.path().join("a\nfile");
    fs::write(&file, "x").unwrap();
    assert!(refused_with(&file).contains("not a directory"));
    assert!(refused_with(&file.join("below")).contains("not a directory"));
    // No user can create a directory there, not even root.
    refused_with(Path::new("/proc/handbill"));
}

#[test]
fn a_flag_beats_a_variable_and_an_unknown_one_is_warned_about() {
    let mut command = handbill(["--base-url", "https://flag.example"]);
    command.env("HANDBILL_LISTTEN", "nonsense").env("HANDBILL_BASE_URL", "https://variable.example");
    command.env("HANDBILL_CREATE_LIMIT", "1");
    let server = Server::temporary_as(command, &[]);
    server.wait_for_log("HANDBILL_LISTTEN");
    let page = post(server.address, "From the flag", "x").unwrap().json();
    assert!(page["url"].as_str().unwrap().starts_with("https://flag.example/"), "{page}");
    assert_eq!(post(server.address, "One too many", "x").unwrap().status, 429);
}

#[test]
fn the_version_is_that_of_the_package() {
    let output = run(handbill(["--version"]), b"");
    assert_eq!(text(&output.stdout), format!("handbill {}\n", env!("CARGO_PKG_VERSION")));
    assert!(output.status.success());
}

#[test]
fn render_writes_what_a_page_would_hold() {
    let server = Server::temporary(&[]);
    let markdown = "A *first* page with <b>no</b> markup and a [link](https://a.example/).";
    let page = post(server.address, "Rendered", markdown).unwrap().json();
    let path = format!("/api/pages/{}", page["slug"].as_str().unwrap());
    let html = get(server.address, &path).unwrap().json()["content_html"].as_str().unwrap().to_owned();

    let output = run(handbill(["render"]), markdown.as_bytes());
    assert!(output.status.success());
    assert_eq!(text(&output.stdout), html);

    let refused = run(handbill(["render"]), b"\xff");
    assert_eq!((refused.status.code(), text(&refused.stderr).lines().count()), (Some(2), 1));
}

#[test]
fn openapi_prints_what_the_service_serves() {
    let server = Server::temporary(&["--base-url", "https://pages.example"]);
    let openapi = || handbill(["openapi", "--base-url", "https://pages.example"]);
    let output = run(openapi(), b"");
    assert!(output.status.success());
    assert_eq!(text(&output.stdout), get(server.address, "/openapi.json").unwrap().text());

    let mut to_full_disk = openapi();
    to_full_disk.stdout(fs::File::create("/dev/full").unwrap());
    assert_eq!(run(to_full_disk, b"").status.code(), Some(1));
}

#[test]
fn healthcheck_tells_a_process_that_lives_from_none() {
    let server = Server::temporary(&[]);
    let check = |address: &str| run(handbill(["healthcheck", "--admin-listen", address]), b"");
    let port = server.admin.port();
    for address in [format!("127.0.0.1:{port}"), format!("0.0.0.0:{port}")] {
        assert_eq!(check(&address).status.code(), Some(0), "{address}");
    }
    // The public listener answers, but does not report liveness.
    assert_eq!(check(&server.address.to_string()).status.code(), Some(1));
    for (path, code) in [("/openapi.json", 0), ("/a-page-22222222", 1)] {
        let output = run(handbill(["healthcheck", &format!("http://{}{path}", server.address)]), b"");
        assert_eq!(output.status.code(), Some(code), "{path}");
    }
    let admin = server.admin.to_string();
    server.stop();
    let output = check(&admin);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(text(&output.stderr).lines().count(), 1);
}

#[test]
fn migrate_says_that_sqlite_needs_none_and_asks_for_the_store() {
    let output = run(handbill(["migrate"]), b"");
    assert!(output.status.success());
    assert_eq!(text(&output.stdout), "This store needs no migration.\n");
    let mut command = handbill(["migrate"]);
    command.env("HANDBILL_SCYLLA_NODES", "127.0.0.1:9");
    let output = run(command, b"");
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(2), ""));
    assert!(text(&output.stderr).contains("give --store scylla"), "{output:?}");
}

#[test]
fn the_start_says_where_everything_is_and_its_curl_publishes() {
    let directory = tempdir().unwrap();
    let data = directory.path().join("made/for this");
    let server = Server::start(&data, &[]);
    let [listens, operators, data_line, publish] = &server.announcement[..] else { panic!("four lines") };
    assert!(listens.contains(&format!("http://{}", server.address)), "{listens}");
    assert!(operators.contains(&format!("http://{}/metrics", server.admin)), "{operators}");
    let place = data.canonicalize().unwrap();
    assert!(data_line.ends_with(&format!("{} (0 pages, 0 deletions)", place.display())), "{data_line}");
    let curl = publish.strip_prefix("Publish:").unwrap().trim();
    let mut command = Command::new("/bin/sh");
    command.args(["-c", &format!("{curl} --silent --show-error --fail-with-body")]).env("no_proxy", "127.0.0.1");
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let output = run(command, b"");
    assert!(output.status.success(), "{}", text(&output.stderr));
    let page: Value = serde_json::from_slice(&output.stdout).unwrap();
    let url = page["url"].as_str().unwrap();
    let path = url.strip_prefix(&format!("http://{}", server.address)).unwrap();
    assert_eq!(request(server.address, "GET", path, &[], b"").unwrap().status, 200);
}

#[test]
fn a_public_service_without_a_contact_for_reports_starts_with_a_warning() {
    let warns = |settings: &[&str]| {
        let (status, _, log) = Server::temporary(settings).stop();
        assert!(status.success(), "{log}");
        log.contains("--abuse-contact")
    };
    assert!(warns(&["--base-url", "https://pages.example"]));
    assert!(!warns(&["--base-url", "https://pages.example", "--abuse-contact", "abuse@pages.example"]));
    assert!(!warns(&[]));
}

#[test]
fn a_lost_database_stops_the_start_without_new_store() {
    let directory = tempdir().unwrap();
    let lost = r#"{"kind":"delete","slug":"a-page-22222222","version":2,"at":"2026-11-21T04:30:00.123Z"}"#;
    fs::write(directory.path().join(JOURNAL_FILE), format!("{lost}\n")).unwrap();
    let line = refused_with(directory.path());
    assert!(line.contains("a journal and no database") && line.contains("--new-store"), "{line}");
    let server = Server::start(directory.path(), &["--new-store"]);
    assert!(server.announcement[2].ends_with("(0 pages, 1 deletion)"), "{:?}", server.announcement);
    server.stop();
    let again = handbill([&FREE_PORTS[..], &["--new-store"]].concat());
    let line = refusal(with_data(again, directory.path()));
    assert!(line.contains("leave --new-store out"), "{line}");
}

#[test]
fn serving_goes_on_where_nobody_reads_what_it_says() {
    let directory = tempdir().unwrap();
    // The server cannot report its port here, so it gets one that was free a moment ago, at an address that nobody else
    // uses.
    let address = TcpListener::bind("127.83.71.2:0").unwrap().local_addr().unwrap();
    let command = handbill(["--listen", &address.to_string(), "--admin-listen", "127.0.0.1:0", "--log", "trace"]);
    let mut command = with_data(command, directory.path());
    let broken_pipe = || {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        writer
    };
    command.stdout(broken_pipe()).stderr(broken_pipe());
    let mut child = command.spawn().unwrap();
    let mut connection = loop {
        if let Ok(connection) = Connection::open(address) {
            break connection;
        }
        assert!(child.try_wait().unwrap().is_none(), "it has ended");
    };
    let answer = connection.get("/robots.txt");
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(answer.expect("it answers").status, 200);
}

#[test]
fn the_check_of_settings_listens_nowhere_and_touches_no_store() {
    let folder = tempdir().unwrap();
    let data = folder.path().join("data");
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let check = handbill(["serve", "--check-config", "--listen", &taken.local_addr().unwrap().to_string()]);
    let output = run(with_data(check, &data), b"");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert_eq!((text(&output.stdout), text(&output.stderr)), ("The settings are valid.\n", ""));
    assert!(!data.exists());
}

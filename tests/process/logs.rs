//! Logs and metrics, as operators see them. `scrub` checks that no key is ever among them.

use std::collections::HashSet;
use std::io::{BufRead, BufReader, PipeReader};
use std::thread;

use handbill_test_support::client::{Connection, get, post};
use handbill_test_support::server::{FREE_PORTS, Server, Watchdog, handbill, handbill_after, pid, with_data};
use rustix::process::{Signal, kill_process};
use serde_json::Value;
use tempfile::{TempDir, tempdir};

use super::connections::until_metrics;

#[test]
fn logs_are_json_with_one_line_for_each_request_and_its_id() {
    let server = Server::temporary(&[]);
    let mut ids = HashSet::new();
    for target in ["/", "/robots.txt", "/nowhere/at/all", "/api/pages/nothing-22222222?secret=sesame"] {
        let answer = get(server.address, target).unwrap();
        ids.insert(answer.header("x-request-id").expect("an answer has an id").to_owned());
    }
    assert_eq!(ids.len(), 4);
    let address = server.address;
    let (_, stdout, log) = server.stop();
    assert_eq!(stdout, "");
    let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    let answered: Vec<_> = lines.iter().filter(|line| line["message"] == "answered").collect();
    let logged: HashSet<_> = answered.iter().map(|line| line["request_id"].as_str().unwrap().to_owned()).collect();
    assert_eq!((answered.len(), logged), (4, ids));
    let started: Vec<_> = lines.iter().filter(|line| line["message"] == "started").collect();
    assert_eq!(started.len(), 1, "{lines:?}");
    let started = started[0];
    assert_eq!(started["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(started["listen"], address.to_string());
    assert!(started["pages"].as_str().is_some_and(|pages| pages.ends_with("(0 pages, 0 deletions)")), "{started}");
    assert!(started["connections"].as_u64().is_some_and(|most| most > 0), "{started}");
    let errors: Vec<_> = answered.iter().map(|line| line["error"].clone()).collect();
    assert_eq!(errors.iter().filter(|error| *error == "not_found").count(), 2, "{errors:?}");
    for part in ["nowhere", "nothing-22222222", "secret", "sesame", "\"client\""] {
        assert!(!log.contains(part), "{part:?} is in {log}");
    }
}

#[test]
fn all_that_a_start_says_is_json_without_a_terminal() {
    let directory = tempdir().unwrap();
    let mut command = with_data(handbill([&["serve"][..], &FREE_PORTS].concat()), directory.path());
    let (output, writer) = std::io::pipe().unwrap();
    command.stdout(writer.try_clone().unwrap()).stderr(writer);
    let mut child = command.spawn().unwrap();
    drop(command);
    let watchdog = Watchdog::over(&child);
    let mut lines = BufReader::new(output).lines().map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap());
    let started = lines.find(|line| line["message"] == "started").unwrap();
    assert!(started["listen"].as_str().is_some_and(|address| address.starts_with("127.0.0.1:")), "{started}");
    kill_process(pid(&child), Signal::TERM).unwrap();
    assert_eq!(lines.last().unwrap()["message"], "drained: every request was answered");
    assert!(child.wait().unwrap().success());
    watchdog.call_off();
}

#[test]
fn text_not_written_to_a_terminal_has_no_escape_sequences() {
    let server = Server::temporary(&["--log-format", "text"]);
    get(server.address, "/").unwrap();
    let (_, _, log) = server.stop();
    assert!(log.contains("answered") && !log.contains('\u{1b}'), "{log}");
}

/// A server with standard error in a pipe that nobody reads, and that pipe. The log of 20 000 requests has filled it.
fn unread(directory: &TempDir) -> (Server, PipeReader) {
    const REQUESTS: usize = 20_000;
    const CLIENTS: usize = 4;
    let (stderr, writer) = std::io::pipe().unwrap();
    let mut command = handbill(["--log", "trace", "--create-limit", "0"]);
    command.stderr(writer);
    let server = Server::start_as(command, directory.path(), &[]);
    let address = server.address;
    let clients = [(); CLIENTS].map(|()| {
        thread::spawn(move || {
            let mut connection = Connection::open(address).unwrap();
            for _ in 0..REQUESTS / CLIENTS {
                assert_eq!(connection.get("/robots.txt").expect("it is answered").status, 200);
            }
        })
    });
    for client in clients {
        client.join().unwrap();
    }
    (server, stderr)
}

#[test]
fn a_standard_error_that_nobody_reads_holds_up_nothing() {
    let directory = tempdir().unwrap();
    let (server, _stderr) = unread(&directory);
    assert_eq!(get(server.admin, "/livez").unwrap().status, 200);
    assert_eq!(post(server.address, "Unread", "x").unwrap().status, 201);
    let dropped = server.metric("handbill_log_lines_dropped_total");
    assert!((1..20_000).contains(&dropped), "{dropped}");
    server.signal(Signal::TERM);
    let (status, ..) = server.finish();
    assert_eq!(status.code(), Some(0));
}

#[test]
fn an_act_waits_for_a_log_that_nobody_reads_and_no_client_does() {
    let directory = tempdir().unwrap();
    let (server, stderr) = unread(&directory);
    let created = post(server.address, "Unread", "x").unwrap().json();
    let slug = created["slug"].as_str().unwrap();
    // One more than the process has threads for clients.
    let acts: Vec<_> = (0..=thread::available_parallelism().unwrap().get())
        .map(|_| {
            let act = handbill(["takedown", "--reason", "spam", "--by", "desk", slug]);
            with_data(act, directory.path()).spawn().unwrap()
        })
        .collect();
    let acted = |line: &str| {
        let line = line.strip_prefix("handbill_operator_actions_total{action=\"takedown\"")?;
        line.rsplit(' ').next()?.parse::<usize>().ok()
    };
    until_metrics(&server, |metrics| metrics.lines().filter_map(acted).sum::<usize>() == acts.len());
    assert_eq!(get(server.address, &format!("/{slug}")).unwrap().status, 410);

    let log = thread::spawn(|| std::io::read_to_string(stderr).unwrap());
    let count = acts.len();
    for act in acts {
        let watchdog = Watchdog::over(&act);
        assert!(act.wait_with_output().unwrap().status.success());
        watchdog.call_off();
    }
    server.signal(Signal::TERM);
    server.finish();
    assert_eq!(log.join().unwrap().matches("\"audit\":true").count(), count);
}

#[test]
fn a_start_that_is_refused_ends_though_nobody_reads_why() {
    // The shell writes until the pipe is full.
    let fill = "exec 3>&2; { dd if=/dev/zero of=/dev/fd/3 oflag=nonblock bs=4096 2>/dev/null || true; }";
    for args in [&["--listen", "nonsense"][..], &["--listen", "127.0.0.1:0", "--admin-listen", "192.0.2.1:1"]] {
        let mut child = handbill_after(fill).args(args).spawn().unwrap();
        let watchdog = Watchdog::over(&child);
        let status = child.wait().unwrap();
        watchdog.call_off();
        assert_eq!(status.code(), Some(2), "{args:?}");
    }
}

//! `SIGTERM` and `SIGINT`: requests in flight are finished, idle connections are closed, and nothing that was
//! answered is lost.

use std::fs::OpenOptions;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::process::Command;

use handbill_store_sqlite::DATABASE_FILE;
use handbill_test_support::client::{Answer, Connection, JSON, get, page_json, post, request_bytes};
use handbill_test_support::server::{Server, Watchdog, handbill, pid, text};
use rusqlite::Connection as Database;
use rustix::process::{Signal, kill_process};
use tempfile::tempdir;

struct Upload {
    connection: Connection,
    body: String,
}

impl Upload {
    fn begin(address: SocketAddr, title: &str) -> Self {
        let body = page_json(title, "A page.");
        let length = body.len().to_string();
        let headers = [JSON, ("Expect", "100-continue"), ("Content-Length", length.as_str())];
        let mut connection = Connection::open(address).unwrap();
        connection.send(request_bytes("POST", "/api/pages", &headers, b"")).unwrap();
        assert_eq!(connection.answer().unwrap().status, 100, "the server reads the body");
        Self { connection, body }
    }

    fn finish(mut self) -> Answer {
        self.connection.send(&self.body).unwrap();
        self.connection.answer().unwrap()
    }
}

fn wait_until_refused(address: SocketAddr) {
    loop {
        match Connection::open(address) {
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => return,
            // The connection was taken from the queue, or reset in it.
            _ => {}
        }
    }
}

#[test]
fn each_signal_finishes_what_is_in_flight_and_refuses_the_new() {
    for signal in [Signal::TERM, Signal::INT] {
        let directory = tempdir().unwrap();
        let server = Server::start(directory.path(), &["--drain-timeout", "1h"]);
        let mut resting = Connection::open(server.address).unwrap();
        assert_eq!(resting.get("/").unwrap().status, 200);
        let upload = Upload::begin(server.address, "Slow");
        server.signal(signal);
        assert_eq!(resting.rest().unwrap(), b"");
        wait_until_refused(server.address);
        assert_eq!(get(server.admin, "/readyz").unwrap().status, 503);
        assert_eq!(get(server.admin, "/livez").unwrap().status, 200);
        let answer = upload.finish();
        assert_eq!((answer.status, answer.closes()), (201, true));
        let (status, _, log) = server.finish();
        assert_eq!(status.code(), Some(0), "{log}");

        let server = Server::start(directory.path(), &[]);
        let slug = answer.json()["slug"].as_str().unwrap().to_owned();
        assert_eq!(get(server.address, &format!("/api/pages/{slug}")).unwrap().json()["content"], "A page.");
    }
}

#[test]
fn during_the_delay_requests_go_on_and_a_second_signal_exits() {
    let mut server = Server::temporary(&["--drain-delay", "1h", "--drain-timeout", "1h"]);
    assert_eq!(get(server.admin, "/readyz").unwrap().json()["ready"], true);
    let mut kept = Connection::open(server.address).unwrap();
    assert!(!kept.get("/").unwrap().closes());
    let _upload = Upload::begin(server.address, "Never finished");
    server.signal(Signal::TERM);
    server.wait_for_log("draining");
    let ready = get(server.admin, "/readyz").unwrap();
    assert_eq!(ready.status, 503);
    assert_eq!(ready.json()["missing"]["process"], "draining");
    assert!(get(server.admin, "/metrics").unwrap().text().contains("handbill_draining 1"));
    assert_eq!(post(server.address, "During the delay", "x").unwrap().status, 201);
    assert!(kept.get("/").unwrap().closes(), "a connection that was kept is told to go");
    // A second signal counts only a second after the first.
    while server.child.try_wait().unwrap().is_none() {
        server.signal(Signal::TERM);
    }
    let (status, ..) = server.finish();
    assert_eq!(status.code(), Some(1));
}

#[test]
fn a_request_still_in_flight_after_the_timeout_is_cut_off() {
    let server = Server::temporary(&["--drain-timeout", "0s"]);
    let _upload = Upload::begin(server.address, "Never finished");
    server.signal(Signal::TERM);
    let (status, ..) = server.finish();
    assert_eq!(status.code(), Some(1));
}

/// A program that reads the database delays the end of the store by two seconds. The pause is looked at each second.
#[test]
fn a_store_that_closes_slowly_causes_no_error() {
    let directory = tempdir().unwrap();
    let server = Server::start(directory.path(), &[]);
    let reader = Database::open(directory.path().join(DATABASE_FILE)).unwrap();
    reader.execute_batch("BEGIN; SELECT count(*) FROM pages").unwrap();
    assert_eq!(post(server.address, "A page", "Text.").unwrap().status, 201);
    let (status, _, log) = server.stop();
    assert_eq!(status.code(), Some(0), "{log}");
    assert!(log.contains("was not applied to its file") && !log.contains("ERROR"), "{log}");
}

#[test]
fn a_hangup_is_ignored() {
    let server = Server::temporary(&[]);
    server.signal(Signal::HUP);
    assert_eq!(get(server.admin, "/readyz").unwrap().status, 200);
    server.signal(Signal::TERM);
    let (status, _, log) = server.finish();
    assert_eq!(status.code(), Some(0), "{log}");
}

/// For `open`, on Linux.
const O_NONBLOCK: i32 = 0o4000;

#[test]
fn a_stuck_process_ends_with_1_after_the_time_for_draining() {
    let directory = tempdir().unwrap();
    let password = directory.path().join("password");
    assert!(Command::new("mkfifo").arg(&password).status().unwrap().success());
    let mut command = handbill(["--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--store", "scylla"]);
    command.args(["--scylla-nodes", "127.0.0.1:1", "--redis-url", "redis://127.0.0.1:1", "--drain-timeout", "0s"]);
    command.arg("--admin-socket").arg(directory.path().join("admin.sock"));
    command.args(["--scylla-username", "user", "--scylla-password-file"]).arg(&password);
    let mut child = command.spawn().unwrap();
    // Opening succeeds once the process has opened the other end, where it waits for a password.
    let _password = loop {
        if let Ok(password) = OpenOptions::new().write(true).custom_flags(O_NONBLOCK).open(&password) {
            break password;
        }
        assert!(child.try_wait().unwrap().is_none(), "it has ended");
    };
    kill_process(pid(&child), Signal::TERM).unwrap();
    let watchdog = Watchdog::over(&child);
    let output = child.wait_with_output().unwrap();
    watchdog.call_off();
    let log = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{log}");
    assert!(log.contains("the process did not end within the time for draining"), "{log}");
}

//! The server is killed between the insert and the answer while clients publish, and no page is made twice or left without
//! its key.
//!
//! A proxy stands between client and server. It passes the first request on, kills the server, and drops both connections.
//! In every second round it kills without waiting for the answer, so that some kills come before the insert. In every third
//! round the client is killed too, and its user publishes the same text again.

use std::collections::HashSet;
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;

use handbill_store_sqlite::{Counts, SqliteStore};
use serde_json::{Value, json};
use tempfile::{TempDir, tempdir};

use super::client::{JSON, bearer, request};
use super::support::{Server, Watchdog, handbill, text};
use crate::environment::{TEST_TIMEOUT, setting};

/// How often the server is killed; `HANDBILL_TEST_KILLS=200` for a longer run.
const KILLS: usize = 20;

/// A server behind a proxy, and a user who knows only the proxy.
struct Behind {
    data: TempDir,
    home: TempDir,
    proxy: SocketAddr,
    clients: Receiver<TcpStream>,
    server: Server,
}

impl Behind {
    fn start() -> Self {
        let (data, home) = (tempdir().unwrap(), tempdir().unwrap());
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let proxy = listener.local_addr().unwrap();
        let (accepted, clients) = mpsc::channel();
        thread::spawn(move || {
            while let Ok((client, _)) = listener.accept() {
                if accepted.send(client).is_err() {
                    break;
                }
            }
        });
        let server = serve(data.path(), proxy);
        Self { data, home, proxy, clients, server }
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = handbill(args);
        command.env("HOME", self.home.path()).env("HANDBILL_SERVER", format!("http://{}", self.proxy));
        command
    }

    fn begin(&self, args: &[&str], input: &str) -> Child {
        let mut child = self.command(args).stdin(Stdio::piped()).spawn().unwrap();
        child.stdin.as_mut().unwrap().write_all(input.as_bytes()).unwrap();
        child
    }

    /// The next client of the proxy with its request, and a connection to the server that has got the request.
    fn passed_on(&self) -> (TcpStream, TcpStream) {
        let mut client = self.clients.recv_timeout(TEST_TIMEOUT).expect("a client sends something");
        let mut server = TcpStream::connect(self.server.address).unwrap();
        for stream in [&client, &server] {
            stream.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
        }
        server.write_all(&message(&mut client)).unwrap();
        (client, server)
    }

    /// Kills the server, once it begins to answer if `inserted`, and starts it again. Nobody gets the answer.
    fn lose_the_answer(&mut self, inserted: bool) {
        let (_client, mut server) = self.passed_on();
        if inserted {
            server.read_exact(&mut [0]).unwrap();
        }
        self.server.stop_now();
        self.server.wait();
        self.server = serve(self.data.path(), self.proxy);
    }

    fn answer(&self) {
        let (mut client, mut server) = self.passed_on();
        client.write_all(&message(&mut server)).unwrap();
    }

    /// Publishes `content`, and loses the first answer.
    fn publish(&mut self, content: &str, inserted: bool, kills_the_client: bool) -> String {
        let args = ["publish", "--title", "A title"];
        let mut child = self.begin(&args, content);
        drop(child.stdin.take());
        if kills_the_client {
            let (_client, mut server) = self.passed_on();
            if inserted {
                server.read_exact(&mut [0]).unwrap();
            }
            child.kill().unwrap();
            child.wait().unwrap();
            child = self.begin(&args, content);
            drop(child.stdin.take());
        }
        self.lose_the_answer(inserted);
        self.answer();
        let watchdog = Watchdog::over(&child);
        let output = child.wait_with_output().unwrap();
        watchdog.call_off();
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout).trim_end().to_owned()
    }

    /// The pages that the user has kept.
    fn kept(&self) -> Vec<Value> {
        let lines = fs::read_to_string(self.home.path().join(".local/share/handbill/keys.jsonl")).unwrap();
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The pages in the store, once the server has ended.
    fn pages(self) -> (TempDir, u64) {
        let Self { data, server, .. } = self;
        server.stop();
        let store = SqliteStore::open(data.path(), false).unwrap();
        let Counts { pages, .. } = tokio::runtime::Runtime::new().unwrap().block_on(store.counts()).unwrap();
        drop(store);
        (data, pages)
    }
}

fn serve(data: &Path, proxy: SocketAddr) -> Server {
    Server::start(data, &["--base-url", &format!("http://{proxy}")])
}

/// One request or answer, whose length its head says.
fn message(from: &mut TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(at) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break at + 4;
        }
        let mut byte = [0];
        from.read_exact(&mut byte).expect("the head comes whole");
        bytes.push(byte[0]);
    };
    let head = text(&bytes).to_ascii_lowercase();
    let length =
        head.lines().find_map(|line| line.strip_prefix("content-length: ")).map_or(0, |at| at.parse().unwrap());
    bytes.resize(end + length, 0);
    from.read_exact(&mut bytes[end..]).expect("the body comes whole");
    bytes
}

#[test]
fn a_server_that_dies_before_each_answer_leaves_one_page_each() {
    let mut behind = Behind::start();
    let kills = setting("HANDBILL_TEST_KILLS", KILLS);
    let urls: HashSet<String> =
        (0..kills).map(|round| behind.publish(&format!("Text {round}"), round % 2 == 0, round % 3 == 2)).collect();
    let kept = behind.kept();
    let field = |name: &str| kept.iter().map(|page| page[name].as_str().unwrap().to_owned()).collect::<HashSet<_>>();
    assert_eq!((urls.len(), field("url"), field("edit_key").len(), kept.len()), (kills, urls.clone(), kills, kills));
    assert!(kept.iter().all(|page| page.get("sent").is_none()), "nothing is left to be sent again");
    for page in &kept {
        let (url, key) = (page["url"].as_str().unwrap(), bearer(page["edit_key"].as_str().unwrap()));
        let path = format!("/api/pages/{}", url.rsplit('/').next().unwrap());
        let updated = request(behind.server.address, "PATCH", &path, &[JSON, ("Authorization", &key)], b"{}").unwrap();
        assert_eq!(updated.status, 200, "the kept key opens its page: {}", updated.text());
    }
    assert_eq!(behind.pages().1, kills as u64, "each text has one page");
}

#[test]
fn an_agent_whose_answer_was_lost_gets_the_page_that_was_made() {
    let mut behind = Behind::start();
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
        "name": "create_page", "arguments": {"title": "By an agent", "content": "One.", "other": null},
    }});
    let mut agent = behind.begin(&["mcp"], &format!("{call}\n"));
    drop(agent.stdin.take());
    behind.lose_the_answer(true);
    behind.answer();
    let watchdog = Watchdog::over(&agent);
    let output = agent.wait_with_output().unwrap();
    watchdog.call_off();
    let answer: Value = serde_json::from_str(text(&output.stdout)).unwrap();
    let created = &answer["result"]["structuredContent"];
    let kept = behind.kept();
    assert_eq!(answer["result"]["isError"], false, "{answer}");
    assert_eq!(created["url"], kept[0]["url"]);
    assert_eq!((kept.len(), behind.pages().1), (1, 1));
}

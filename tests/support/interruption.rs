//! A command of operators that is interrupted while the process works on it.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

use serde_json::json;

use crate::client::request_bytes;
use crate::environment::TEST_TIMEOUT;

/// Asks the process behind `socket` to take `pages` down, and goes away after `meanwhile`, without the answer.
pub fn interrupted_takedown(socket: &Path, pages: &[String], meanwhile: impl FnOnce()) {
    let mut command = UnixStream::connect(socket).unwrap();
    command.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
    let body = json!({"pages": pages, "reason": "spam", "by": "desk"}).to_string();
    let request = request_bytes("POST", "/takedown", &[("Expect", "100-continue")], body.as_bytes());
    let (head, body) = request.split_at(request.len() - body.len());
    command.write_all(head).unwrap();
    // A request of which the process has not read the beginning might never be begun.
    let mut said = BufReader::new(&command);
    for expected in ["HTTP/1.1 100 Continue\r\n", "\r\n"] {
        let mut line = String::new();
        said.read_line(&mut line).unwrap();
        assert_eq!(line, expected);
    }
    command.write_all(body).unwrap();
    meanwhile();
}

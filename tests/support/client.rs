//! A small HTTP/1.1 client over one socket, which can also send bytes that are not HTTP.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};

use serde_json::Value;

use crate::environment::TEST_TIMEOUT;

#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("the body is UTF-8")
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {:?}", self.text()))
    }

    /// The status and, if the body is an error, its code.
    pub fn problem(&self) -> (u16, String) {
        (self.status, self.json()["error"].as_str().expect("an error has a code").to_owned())
    }

    pub fn closes(&self) -> bool {
        self.header("connection").is_some_and(|value| value.eq_ignore_ascii_case("close"))
    }
}

pub struct Connection {
    stream: TcpStream,
    received: Vec<u8>,
}

impl Connection {
    pub fn open(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect_timeout(&address, TEST_TIMEOUT)?;
        stream.set_read_timeout(Some(TEST_TIMEOUT))?;
        stream.set_write_timeout(Some(TEST_TIMEOUT))?;
        stream.set_nodelay(true)?;
        Ok(Self::over(stream))
    }

    pub fn over(stream: TcpStream) -> Self {
        Self { stream, received: Vec::new() }
    }

    /// Reads one request, or one answer that gives its length, as it came.
    pub fn message(&mut self) -> io::Result<Vec<u8>> {
        let mut message = self.until(b"\r\n\r\n")?;
        let head = String::from_utf8_lossy(&message).to_ascii_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
        message.extend(self.take(length.unwrap_or(0))?);
        Ok(message)
    }

    pub fn send(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        self.stream.write_all(bytes.as_ref())
    }

    pub fn request(&mut self, method: &str, target: &str, headers: &[(&str, &str)], body: &[u8]) -> io::Result<Answer> {
        self.send(request_bytes(method, target, headers, body))?;
        self.answer_to(method)
    }

    pub fn get(&mut self, target: &str) -> io::Result<Answer> {
        self.request("GET", target, &[], b"")
    }

    pub fn answer(&mut self) -> io::Result<Answer> {
        self.answer_to("GET")
    }

    /// Reads one answer, which has no body if it answers HEAD.
    pub fn answer_to(&mut self, method: &str) -> io::Result<Answer> {
        let head = self.until(b"\r\n\r\n")?;
        let head = String::from_utf8(head).map_err(io::Error::other)?;
        let mut lines = head.trim_end().lines();
        let status = lines.next().and_then(|line| line.split(' ').nth(1)?.parse().ok());
        let status: u16 = status.ok_or_else(|| io::Error::other(format!("no status in {head:?}")))?;
        let headers: Vec<_> = lines
            .map(|line| line.split_once(':').expect("a header has a colon"))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
            .collect();
        let mut answer = Answer { status, headers, body: Vec::new() };
        if method == "HEAD" || matches!(status, 100..200 | 204 | 304) {
            return Ok(answer);
        }
        answer.body = match answer.header("content-length") {
            Some(length) => self.take(length.parse().map_err(io::Error::other)?)?,
            None => self.rest()?,
        };
        Ok(answer)
    }

    /// Reads until the connection ends. A reset is an error.
    pub fn rest(&mut self) -> io::Result<Vec<u8>> {
        let mut rest = std::mem::take(&mut self.received);
        self.stream.read_to_end(&mut rest)?;
        Ok(rest)
    }

    fn until(&mut self, end: &[u8]) -> io::Result<Vec<u8>> {
        loop {
            if let Some(at) = self.received.windows(end.len()).position(|window| window == end) {
                return self.take(at + end.len());
            }
            self.receive()?;
        }
    }

    fn take(&mut self, bytes: usize) -> io::Result<Vec<u8>> {
        while self.received.len() < bytes {
            self.receive()?;
        }
        Ok(self.received.drain(..bytes).collect())
    }

    fn receive(&mut self) -> io::Result<()> {
        let mut space = [0; 16 * 1024];
        // A read with a timeout ends early at a signal, such as that of a child that ended.
        let read = loop {
            match self.stream.read(&mut space) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => break read?,
            }
        };
        match read {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            bytes => {
                self.received.extend_from_slice(&space[..bytes]);
                Ok(())
            }
        }
    }
}

pub fn request(
    address: SocketAddr,
    method: &str,
    target: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> io::Result<Answer> {
    let headers = [headers, &[("Connection", "close")]].concat();
    Connection::open(address)?.request(method, target, &headers, body)
}

pub fn get(address: SocketAddr, target: &str) -> io::Result<Answer> {
    request(address, "GET", target, &[], b"")
}

pub fn post(address: SocketAddr, title: &str, content: &str) -> io::Result<Answer> {
    request(address, "POST", "/api/pages", &[JSON], page_json(title, content).as_bytes())
}

pub const JSON: (&str, &str) = ("Content-Type", "application/json");

/// The content types that both generations of MCP clients accept.
pub const MCP_ACCEPT: (&str, &str) = ("Accept", "application/json, text/event-stream");

pub fn page_json(title: &str, content: &str) -> String {
    serde_json::json!({"title": title, "content": content}).to_string()
}

/// The message with which an MCP client calls a tool.
pub fn tool_call(tool: &str, arguments: &Value) -> String {
    let params = serde_json::json!({"name": tool, "arguments": arguments});
    serde_json::json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).to_string()
}

pub fn bearer(key: &str) -> String {
    format!("Bearer {key}")
}

pub fn request_bytes(method: &str, target: &str, headers: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let mut bytes = format!("{method} {target} HTTP/1.1\r\nHost: localhost\r\n").into_bytes();
    for (name, value) in headers {
        bytes.extend(format!("{name}: {value}\r\n").into_bytes());
    }
    if !body.is_empty() {
        bytes.extend(format!("Content-Length: {}\r\n", body.len()).into_bytes());
    }
    bytes.extend(b"\r\n");
    bytes.extend(body);
    bytes
}

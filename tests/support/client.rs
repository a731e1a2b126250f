//! A small HTTP/1.1 client over one socket, which can also send bytes that are not HTTP.

use std::io::{self, BufRead, BufReader, Read, Write};
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

pub struct Connection(BufReader<TcpStream>);

impl Connection {
    pub fn open(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect_timeout(&address, TEST_TIMEOUT)?;
        stream.set_read_timeout(Some(TEST_TIMEOUT))?;
        stream.set_write_timeout(Some(TEST_TIMEOUT))?;
        stream.set_nodelay(true)?;
        Ok(Self::over(stream))
    }

    pub fn over(stream: TcpStream) -> Self {
        Self(BufReader::new(stream))
    }

    /// Reads one request, or one answer that gives its length, as it came.
    pub fn message(&mut self) -> io::Result<Vec<u8>> {
        let mut message = self.head()?;
        let head = String::from_utf8_lossy(&message).to_ascii_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
        message.extend(self.take(length.unwrap_or(0))?);
        Ok(message)
    }

    pub fn send(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        self.0.get_mut().write_all(bytes.as_ref())
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
        let head = String::from_utf8(self.head()?).map_err(io::Error::other)?;
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
        let mut rest = Vec::new();
        self.0.read_to_end(&mut rest)?;
        Ok(rest)
    }

    /// Reads to the end of a head. As in each read of a `BufReader`, a signal of a child that ended is no error.
    fn head(&mut self) -> io::Result<Vec<u8>> {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            if self.0.read_until(b'\n', &mut head)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(head)
    }

    fn take(&mut self, bytes: usize) -> io::Result<Vec<u8>> {
        let mut taken = vec![0; bytes];
        self.0.read_exact(&mut taken)?;
        Ok(taken)
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

//! A create asks Redis for one thing, the decision of the limiter, and waits for no second command.

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{Request, StatusCode};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use crate::connection::send;
use crate::deployment::{Addresses, redis};
use crate::replica::Replica;

/// A text that no create sends.
const END: &str = "end-of-the-creates";

async fn create(replica: &Replica) {
    let request = Request::post("/api/pages").header(CONTENT_TYPE, "application/json");
    let request = request.body(Bytes::from_static(br#"{"title": "T", "content": "c"}"#)).unwrap();
    assert_eq!(send(replica.public, request).await.unwrap().status(), StatusCode::CREATED);
}

/// Sends a command to Redis without waiting for the answer.
async fn command(address: std::net::SocketAddr, line: &str) -> BufReader<TcpStream> {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(format!("{line}\r\n").as_bytes()).await.unwrap();
    BufReader::new(stream)
}

#[tokio::test]
async fn a_create_sends_one_command_to_redis() {
    let address = Addresses::draw().redis();
    let _redis = redis(address).await;
    let directory = tempfile::tempdir().unwrap();
    let (url, data_dir) = (format!("redis://{address}"), directory.path().to_str().unwrap().to_owned());
    let settings = ["--redis-url", &url, "--data-dir", &data_dir, "--log", "off"];
    let anywhere = "127.0.0.1:0".parse().unwrap();
    let replica = Replica::start(anywhere, anywhere, settings).await;
    replica.ready().await;
    // The first connects, and loads the script.
    create(&replica).await;

    let mut seen = command(address, "MONITOR").await.lines();
    assert_eq!(seen.next_line().await.unwrap().as_deref(), Some("+OK"));
    for _ in 0..3 {
        create(&replica).await;
    }
    let _end = command(address, &format!("ECHO {END}")).await;
    let mut commands = Vec::new();
    while let Some(line) = seen.next_line().await.unwrap()
        && !line.contains(END)
    {
        // The script's own commands are part of it, and the pool asks whether a connection lives.
        if !line.contains(" lua]") && !line.contains("\"PING\"") {
            commands.push(line);
        }
    }
    assert_eq!(commands.len(), 3, "{commands:#?}");
    assert!(commands.iter().all(|command| command.contains("\"EVALSHA\"")), "{commands:#?}");
}

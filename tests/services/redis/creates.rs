//! The commands that a create sends to Redis. A slug is reserved in the command that asks for the decision of the limiter, or beside the
//! rendering.

use bytes::Bytes;
use handbill_rate_limit::RedisMode;
use http::header::CONTENT_TYPE;
use http::{Request, StatusCode};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use super::servers::{OwnServers, connect};
use crate::connection::send;
use crate::deployment::{Addresses, redis};
use crate::replica::Replica;

/// A text that no create sends.
const END: &str = "end-of-the-creates";

async fn create(replica: &Replica) {
    post(replica, "/api/pages", "application/json", r#"{"title": "T", "content": "c"}"#).await;
}

/// A create whose title is found in the text.
async fn create_untitled(replica: &Replica) {
    post(replica, "/", "text/markdown", "# T").await;
}

async fn post(replica: &Replica, path: &str, media_type: &str, body: &'static str) {
    let request = Request::post(path).header(CONTENT_TYPE, media_type).body(Bytes::from_static(body.as_bytes()));
    assert_eq!(send(replica.public, request.unwrap()).await.unwrap().status(), StatusCode::CREATED);
}

async fn replica(urls: &str, directory: &tempfile::TempDir) -> Replica {
    let settings = ["--redis-url", urls, "--data-dir", directory.path().to_str().unwrap(), "--log", "off"];
    let anywhere = "127.0.0.1:0".parse().unwrap();
    let replica = Replica::start(anywhere, anywhere, settings).await;
    replica.ready().await;
    replica
}

/// Sends a command to Redis without waiting for the answer.
async fn command(address: std::net::SocketAddr, line: &str) -> BufReader<TcpStream> {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(format!("{line}\r\n").as_bytes()).await.unwrap();
    BufReader::new(stream)
}

#[tokio::test]
async fn a_create_sends_one_command_to_redis_which_also_reserves_its_slug() {
    let address = Addresses::draw().redis();
    let _redis = redis(address).await;
    let directory = tempfile::tempdir().unwrap();
    let replica = replica(&format!("redis://{address}"), &directory).await;
    // The first connects, and loads the script.
    create(&replica).await;

    let mut seen = command(address, "MONITOR").await.lines();
    assert_eq!(seen.next_line().await.unwrap().as_deref(), Some("+OK"));
    for _ in 0..3 {
        create(&replica).await;
    }
    create_untitled(&replica).await;
    let _end = command(address, &format!("ECHO {END}")).await;
    let (mut commands, mut in_script) = (Vec::new(), 0);
    while let Some(line) = seen.next_line().await.unwrap()
        && !line.contains(END)
    {
        if line.contains(" lua]") {
            in_script += usize::from(line.contains("\"handbill:slug:t-"));
        } else if !line.contains("\"PING\"") {
            commands.push(line);
        }
    }
    let named: Vec<&str> = commands.iter().filter_map(|command| command.split('"').nth(1)).collect();
    assert_eq!(named, ["EVALSHA", "EVALSHA", "EVALSHA", "EVALSHA", "SET"], "{commands:#?}");
    assert_eq!(in_script, 3, "a title that is found in the text is not known in the script");
}

#[tokio::test]
async fn in_a_redis_cluster_a_create_sends_its_reservation_in_a_command_of_its_own() {
    let servers = OwnServers::start(RedisMode::Cluster);
    let urls: Vec<&str> = servers.settings.urls.iter().map(|url| url.0.as_str()).collect();
    let directory = tempfile::tempdir().unwrap();
    let replica = replica(&urls.join(","), &directory).await;
    create(&replica).await;

    let sent = async || {
        let mut sent = [0, 0];
        for url in &urls {
            let mut connection = connect(url).await;
            let stats: String = redis::cmd("INFO").arg("all").query_async(&mut connection).await.unwrap();
            // Replicas count what they copy.
            if !stats.contains("role:master") {
                continue;
            }
            for (sent, command) in sent.iter_mut().zip(["evalsha", "set"]) {
                let calls = stats.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{command}:calls=")));
                *sent += calls.map_or(0, |calls| calls.split(',').next().unwrap().parse::<u32>().unwrap());
            }
        }
        sent
    };
    // A script that a master did not have yet is sent again.
    let [decisions, reservations] = sent().await;
    assert!(decisions >= 1 && reservations >= 1, "{decisions} {reservations}");
    for _ in 0..3 {
        create(&replica).await;
    }
    create_untitled(&replica).await;
    assert_eq!(sent().await, [decisions + 4, reservations + 4]);
}

//! Publishes a page, reads it and deletes it. Start Handbill with `cargo run`, then `cargo run --example publish`.
//!
//! An argument names another Handbill than the one on `http://127.0.0.1:8080`.

use std::error::Error;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use serde_json::{Value, json};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let origin = std::env::args().nth(1).unwrap_or_else(|| "http://127.0.0.1:8080".to_owned());
    let pages = format!("{origin}/api/pages");
    let page = call("POST", &pages, None, &json!({"title": "Hello", "content": "From an *example*."})).await?;
    println!("published at {}", page["url"]);

    let address = format!("{pages}/{}", page["slug"].as_str().ok_or("the answer has no slug")?);
    println!("reads: {}", call("GET", &address, None, &Value::Null).await?["content"]);

    // Only this key can change or delete the page, and it was shown once.
    call("DELETE", &address, page["edit_key"].as_str(), &Value::Null).await?;
    println!("deleted; its address is never used again");
    Ok(())
}

/// Sends one request. Returns the answer's JSON, or its message as an error: the message says what to do next.
async fn call(method: &str, address: &str, key: Option<&str>, body: &Value) -> Result<Value, Box<dyn Error>> {
    let mut request = http::Request::builder().method(method).uri(address).header("Content-Type", "application/json");
    if let Some(key) = key {
        request = request.header("Authorization", format!("Bearer {key}"));
    }
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let client = Client::builder(TokioExecutor::new()).build_http::<Full<Bytes>>();
    let answer = client.request(request.body(body.into())?).await?;
    let (status, bytes) = (answer.status(), answer.into_body().collect().await?.to_bytes());
    let json: Value = if bytes.is_empty() { Value::Null } else { serde_json::from_slice(&bytes)? };
    if status.is_success() { Ok(json) } else { Err(format!("{status}: {}", json["message"]).into()) }
}

//! Publishes a page, reads it, deletes it: `cargo run --example publish`, beside a Handbill on <http://127.0.0.1:8080>.

use std::error::Error;

use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use serde_json::{Value, json};

const PAGES: &str = "http://127.0.0.1:8080/api/pages";

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let page = call("POST", PAGES, None, &json!({"title": "Hello", "content": "From an *example*."})).await?;
    let (slug, key) = (&page["slug"], page["edit_key"].as_str());
    println!("published at {}", page["url"]);

    let address = format!("{PAGES}/{}", slug.as_str().ok_or("an answer without a slug")?);
    println!("reads: {}", call("GET", &address, None, &Value::Null).await?["content"]);

    // Only this key can change or delete the page, and it was shown once.
    call("DELETE", &address, key, &Value::Null).await?;
    println!("deleted; nobody can read or use {slug} again");
    Ok(())
}

/// Sends one request. The answer's JSON, or its message as an error; it says what to do next.
async fn call(method: &str, address: &str, key: Option<&str>, body: &Value) -> Result<Value, Box<dyn Error>> {
    let mut request = http::Request::builder().method(method).uri(address).header("Content-Type", "application/json");
    if let Some(key) = key {
        request = request.header("Authorization", format!("Bearer {key}"));
    }
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let answer = Client::builder(TokioExecutor::new()).build_http().request(request.body(Full::from(body))?).await?;
    let (status, bytes) = (answer.status(), answer.into_body().collect().await?.to_bytes());
    let json: Value = if bytes.is_empty() { Value::Null } else { serde_json::from_slice(&bytes)? };
    if status.is_success() { Ok(json) } else { Err(format!("{status}: {}", json["message"]).into()) }
}

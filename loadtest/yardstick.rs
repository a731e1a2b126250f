//! A bare axum handler that answers with the bytes of files, the least that a service on Handbill's own stack can cost.
//!
//!     yardstick <folder>
//!
//! Each file in the folder is served under its own name. Its headers are in the file of the same name with `.headers`
//! added, one `name: value` a line. The start-up line on standard output names the listener.

use std::collections::HashMap;
use std::error::Error;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;

type Files = Arc<HashMap<String, (HeaderMap, Bytes)>>;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args_os().nth(1).ok_or("which folder?")?;
    let app = Router::new().route("/{name}", get(file)).with_state(Arc::new(files(&folder.into())?));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    println!("listens on http://{}", listener.local_addr()?);
    Ok(axum::serve(listener, app).await?)
}

async fn file(State(files): State<Files>, Path(name): Path<String>) -> Response {
    match files.get(&name) {
        Some((headers, bytes)) => (headers.clone(), bytes.clone()).into_response(),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

fn files(folder: &PathBuf) -> Result<HashMap<String, (HeaderMap, Bytes)>, Box<dyn Error>> {
    let mut files = HashMap::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).ok_or("a name that is no text")?;
        if name.ends_with(".headers") {
            continue;
        }
        let mut headers = HeaderMap::new();
        for line in std::fs::read_to_string(folder.join(format!("{name}.headers")))?.lines() {
            let (header, value) = line.split_once(": ").ok_or("a header without a value")?;
            headers.append(HeaderName::from_str(header)?, HeaderValue::from_str(value)?);
        }
        files.insert(name.to_owned(), (headers, Bytes::from(std::fs::read(&path)?)));
    }
    Ok(files)
}

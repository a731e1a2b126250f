//! The least that a service on axum can cost: a handler that answers with the bytes of files.
//!
//!     yardstick <folder>
//!
//! Each file in the folder is served under its own name. Its headers are in the file of the same name with `.headers`
//! added, one `name: value` a line. A request whose `If-None-Match` is the file's `etag` is answered 304, with the same
//! headers. The start-up line on standard output names the listener.

use std::collections::HashMap;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Path as Segment, State};
use axum::http::header::{CONTENT_TYPE, ETAG, IF_NONE_MATCH};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tokio::net::TcpListener;

type Failure = Box<dyn Error + Send + Sync>;
type Files = Arc<HashMap<String, (HeaderMap, Bytes)>>;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let folder = std::env::args_os().nth(1).ok_or("yardstick <folder>")?;
    let files = Arc::new(files(&PathBuf::from(folder))?);
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("listens on http://{}", listener.local_addr()?);
    let app = Router::new().route("/{name}", get(file)).with_state(files);
    Ok(axum::serve(listener, app).await?)
}

async fn file(State(files): State<Files>, Segment(name): Segment<String>, request: HeaderMap) -> Response {
    let (status, headers, bytes) = answer(&files, &name, &request);
    (status, headers, bytes).into_response()
}

fn answer(files: &Files, name: &str, request: &HeaderMap) -> (StatusCode, HeaderMap, Bytes) {
    let Some((headers, bytes)) = files.get(name) else {
        return (StatusCode::NOT_FOUND, HeaderMap::new(), Bytes::new());
    };
    let mut headers = headers.clone();
    if request.get(IF_NONE_MATCH).is_some_and(|tag| headers.get(ETAG) == Some(tag)) {
        headers.remove(CONTENT_TYPE);
        return (StatusCode::NOT_MODIFIED, headers, Bytes::new());
    }
    (StatusCode::OK, headers, bytes.clone())
}

fn files(folder: &Path) -> Result<HashMap<String, (HeaderMap, Bytes)>, Failure> {
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

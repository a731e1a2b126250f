//! HTTP: listeners, routes, requests, answers, and what describes them.

mod answer;
pub(crate) mod discovery;
mod document;
pub mod error;
pub(crate) mod error_response;
mod etag;
mod extract;
mod kept_body;
pub mod listener;
mod mcp_host;
pub mod metadata;
pub(crate) mod middleware;
pub(crate) mod negotiation;
mod openapi;
mod page_cache;
mod pages;
mod reads;
mod representation;
pub mod request;
mod router;
pub mod site;
mod state;
mod token;
pub mod types;

pub use self::page_cache::PageCache;
pub use self::router::{front, openapi_document};
pub use self::state::{AppState, SiteSettings};

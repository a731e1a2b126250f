//! Handbill publishes text posts without accounts.
//!
//! # The map
//!
//! Modules and crates depend on each other in one direction only:
//!
//! ```text
//! http, mcp, admin  →  service  →  ports (traits)  ←  stores, limiter
//!               values below all of them: no I/O, no clock, no randomness, no async
//! ```
//!
//! Each of these is a crate in `crates/`, which knows only the crates that its `Cargo.toml` names:
//!
//! | crate | holds |
//! |---|---|
//! | `handbill-markdown` | the renderer, and what is read out of its HTML |
//! | `handbill-pages` | [`values`](handbill_pages::values), [`ports`](handbill_pages::ports), [`service`](handbill_pages::service) |
//! | `handbill-store-sqlite`, `handbill-store-scylla`, `handbill-rate-limit` | a store each, and the limits on clients |
//! | `handbill` | everything else: the transports, what operators do, the settings, the composition |
//!
//! `app` puts them together. `tests/architecture` checks the direction within this crate, that no files name each other
//! in a circle, and that this map names every module.
//!
//! | to change | go to |
//! |---|---|
//! | the rules for a title, slug, key, page, quota or address | [`values`](handbill_pages::values) |
//! | the HTML of Markdown | `crates/markdown` |
//! | the order of the checks on a request, an operation on a page, the cache of pages, or the rendering threads | [`service`](handbill_pages::service) |
//! | an error's code, status or message | [`http::error`] |
//! | the way that a client's address, body or key is read from a request | [`http::request`] |
//! | the JSON of a request or response | [`http::types`] |
//! | the name of the service and the addresses of its documents | [`http::metadata`] |
//! | a route, a layer or a header | [`http`] |
//! | a page for people, the editor and its scripts | [`http`], in its `site` |
//! | a document that describes the service to machines | [`http`], in its `discovery` |
//! | a tool for agents, or the protocol that calls it | [`mcp`] |
//! | the number of connections, their shares and timeouts, the end of the process | [`http`] |
//! | the promises of stores, limiters, clocks and randomness | [`ports`](handbill_pages::ports) |
//! | the storage of pages | `crates/store-sqlite`, `crates/store-scylla`, each behind the traits of [`ports`](handbill_pages::ports) |
//! | the windows of clients | `crates/rate-limit` |
//! | the schema of the cluster | `crates/store-scylla/migrations` |
//! | what operators do: their socket and commands, export, import | [`admin`]; the format of exports in [`values::archive`](handbill_pages::values::archive) |
//! | a setting | [`settings`] |
//! | the choice of backends, start and shutdown | [`app`] |
//! | a subcommand | [`cli`]; one for operators, [`admin::commands`] |
//! | a command for people who write, such as `publish`, or the file of their keys | [`client`] |
//! | the client for requests to other servers | [`outbound`] |
//! | what it means that the reader of standard output ends early | [`stdout`] |
//! | a metric, a span or a log line | [`telemetry`] |
//!
//! # Invariants
//!
//! * The store alone decides who gets a slug, by inserting a page only if the slug is free.
//! * The service, not the transport, decides the order of checks.
//! * In the service a key exists in clear in two places: the creation result and the request that presents it. It has
//!   no `Display`, and its `Debug` is redacted.
//! * `values` is total: parsing returns errors; rendering never fails or panics and takes time linear in its input.
//! * A replica holds no state that a client can notice, so any request may go to any replica.
//! * A cancelled request is normal: nothing shared breaks when a caller disconnects, no lock is held across an
//!   `.await`, and every call to another server has a timeout.
//! * Labels are bounded: route templates, never paths; no slug, address or key in any metric or span.

pub mod admin;
pub mod app;
pub mod cli;
pub mod client;
pub mod http;
pub mod mcp;
pub mod outbound;
pub mod settings;
pub mod stdout;
pub mod telemetry;

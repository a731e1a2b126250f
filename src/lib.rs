//! Handbill publishes text posts without accounts.
//!
//! # The map
//!
//! One direction of dependency, which `tests/architecture.rs` checks:
//!
//! ```text
//! http, mcp  →  api  →  service  →  ports (traits)  ←  backends
//!               domain below all of them: no I/O, no clock, no randomness, no async
//! ```
//!
//! | to change | go to |
//! |---|---|
//! | what a title, slug, key, page or quota is | [`domain`] |
//! | what Markdown becomes | [`domain::markdown`] |
//! | the order of checks on a request | [`service`] |
//! | an error's code, status or advice | [`api::error`] |
//! | whose a request is, or how its body is read | [`api::request`] |
//! | how many connections there may be, and how much memory they may hold | [`server`] |
//! | the JSON of a request or an answer | [`api::types`] |
//! | a route, header or page for people | [`http`] |
//! | a tool for agents, or the protocol that calls it | [`mcp`] |
//! | a document by which others find the service | [`http`], `discovery` and `llms` |
//! | what the service is called, and where its documents stand | [`api::metadata`] |
//! | what the service asks of stores, limiters and clocks | [`ports`], whose contracts the tests hold every backend to |
//! | where pages are kept and attempts counted | [`backends`] |
//! | an option | [`config`] |
//! | which backend serves which trait | [`app`], the only module that names backends |
//! | a metric, a span, a log line | [`telemetry`] |
//!
//! # Invariants
//!
//! * A slug is decided by the store alone. A reservation only makes a second writer lose early and cheaply.
//! * The service, not the transport, decides the order of checks.
//! * A key exists in clear in two places: the creation result and the request that presents it. It has no `Display`,
//!   its `Debug` is redacted.
//! * `domain` is total: parsing returns errors, rendering never fails or panics and takes time linear in its input.
//! * A replica holds no state that a client can notice.
//! * A cancelled request is normal: nothing shared breaks when a caller goes away, no lock is held across an `.await`,
//!   every call out has a timeout.
//! * Labels are bounded: route templates, never paths; no slug, address or key in any metric or span.

pub mod api;
pub mod app;
pub mod backends;
pub mod cli;
pub mod config;
pub mod domain;
pub mod http;
pub mod mcp;
pub mod ports;
pub mod server;
pub mod service;
pub mod telemetry;

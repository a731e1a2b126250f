//! Handbill publishes text posts without accounts.
//!
//! Modules and crates depend on each other in one direction (`tests/architecture`):
//!
//! ```text
//! http, mcp, admin  →  service  →  ports (traits)  ←  stores, limiter
//!               values below all of them: no I/O, no clock, no randomness, no async
//! ```
//!
//! `app` chooses a backend for each trait. `CONTRIBUTING.md` says what is where.
//!
//! # Invariants
//!
//! * The store alone decides who gets a slug.
//! * The service, not the transport, decides the order of checks.
//! * A key exists in clear only in the creation result and in the request that presents it.
//! * `values` is total: parsing returns errors; rendering never fails and takes time linear in its input.
//! * A replica holds no state that a client can notice.
//! * A cancelled request is normal: no lock is held across an `.await`, and every call to another server has a timeout.
//! * Labels are bounded: route templates, never paths; no slug, address or key in any metric or span.

pub mod admin;
pub mod app;
pub mod cli;
pub mod http;
pub mod mcp;
pub mod outbound;
pub mod settings;
pub mod telemetry;

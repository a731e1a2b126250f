//! What operators do: the API on a Unix socket, its commands, the blocklist, and the port for metrics and probes.
//!
//! The operations on pages are in [`handbill_pages::service::Moderation`], with the service's time limits.

pub mod acts;
pub mod api;
mod backup;
pub mod blocklist;
pub mod commands;
pub mod import;
mod journal;
pub mod pause;
pub mod probes;
pub mod records;
pub mod socket;

//! What operators do: the API on a Unix socket, the commands that ask it, the blocklist, and the port for metrics and probes.
//!
//! The operations on pages are in [`handbill_pages::service::Operators`], since they share the service's time limits and its way to
//! repeat a lost write.

pub mod acts;
pub mod api;
mod backup;
pub mod blocklist;
pub mod commands;
pub mod import;
pub mod inspect;
mod journal;
pub mod pause;
pub mod probes;
pub mod records;
pub mod socket;

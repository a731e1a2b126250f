//! What operators do: the API on a Unix socket, the blocklist, and the port for metrics and probes.
//!
//! The operations on pages are in [`handbill_pages::service::Moderation`], with the service's time limits.

pub mod acts;
pub mod api;
pub mod backup;
pub mod blocklist;
pub mod import;
pub mod pause;
pub mod probes;
pub mod readiness;
pub mod records;
mod routes;
pub mod socket;

pub use self::routes::router;

//! Operators' work: the API on the operators' listener, the commands, archives (exports, backups, imports), and what
//! operators allow to be published.
//!
//! | part | holds |
//! |---|---|
//! | [`api`] | the routes: probes, metrics, takedown, hide, show, inspect, the switch of creates, records |
//! | [`commands`] | the subcommands, which call the API or work on a store |
//! | [`archive`] | records as a file |
//! | [`moderation`] | the blocklist and the switch of creates, kept up to date |
//! | [`listener`] | the listener's own thread |
//!
//! The operations on pages are in [`handbill_core::service::Operators`], since they share the service's time limits and its way
//! to repeat a lost write. Takedowns and the format of archives are in [`handbill_core::domain`], since
//! the stores keep them.

pub mod api;
pub mod archive;
pub mod commands;
pub mod listener;
pub mod moderation;
mod watched_file;

//! Clients and validators that other people wrote, against the real binary: the official MCP SDKs and tools, OAuth
//! libraries, and validators of every document that the service publishes.
//!
//! `./tests/run` installs them (`tests/foreign/clients/install`) and names their folder in `HANDBILL_TEST_CLIENTS`. The
//! scripts in `python/` and `node/` take the base URL as their first argument, so that they can be run by hand.

mod documented;
mod documents;
mod mcp;
mod oauth;
pub(crate) mod service;
pub(crate) mod tools;

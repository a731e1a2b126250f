//! The service over HTTP.

pub mod assets;
pub mod views;

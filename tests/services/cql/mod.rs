//! The page store on a real CQL server, which `./tests/run` starts. Without one every test fails.

mod check;
mod connections;
mod counted;
mod deadlines;
pub(crate) mod faults;
mod imports;
mod login;
mod migrations;
mod operations;
mod operators;
mod outcomes;
mod scan;
pub(crate) mod server;
mod shapes;
mod starting;
mod texts;
mod traffic;

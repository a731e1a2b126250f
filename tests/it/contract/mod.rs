//! Rules for every backend (`rules`), on the backends that run in the process. What only the SQLite store promises is tested in
//! its crate.

mod backends;
mod rules;

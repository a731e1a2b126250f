//! Rules for backends: those for every backend (`rules`), on the backends that run in the process, and those for the limiter in
//! memory. What only the SQLite store promises is tested in its crate.

mod backends;
mod limiter;
mod rules;

//! Rules for backends: those for every backend (`rules`), on the backends that run in the process, and those for the
//! embedded store and the limiter in memory.

mod backends;
mod batches;
mod damage;
pub(crate) mod disk;
mod faults;
mod limiter;
mod now;
mod opening;
mod reserve;
mod rules;
mod scan;

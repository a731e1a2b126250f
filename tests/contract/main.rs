//! The contract of the backends, run on every backend. A backend that cannot start fails; none is skipped.

mod backends;
mod batches;
mod damage;
mod disk;
mod faults;
mod limiter;
mod opening;
mod reservations;
mod servers;
mod store;

#[path = "../support/clock.rs"]
mod clock;
#[path = "../support/pages.rs"]
mod pages;

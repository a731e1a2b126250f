//! The rules of each section that need control of time, randomness, faults, the store or the peer. They hold for every
//! replica, but no client could check them through a network.
//!
//! A client on a network cannot let an hour pass, draw a slug that is taken, make the store fail or look into the
//! store, come from an IPv6 network, be a proxy, move the service to another address, or send requests that a load
//! balancer or the HTTP library answers itself. The tests of a section that need none of this are in the module of the
//! same name in `spec`.

mod agreement;
mod bodies;
mod concurrency;
mod conditional;
mod discovery;
mod errors;
mod form;
mod formatting;
mod front;
mod limits;
mod openapi;
mod order;
mod outages;
mod read;
mod rendering;
mod repeat;
mod reservations;
mod resources;
mod shared_caches;
mod states;
mod token_limits;
mod update;

//! What needs time, chance, faults or peers in hand: the rules of each section that hold of every replica, but that no
//! client could see through a network.
//!
//! Clients there cannot let an hour pass, draw a slug that is taken, make the store fail or look into it, come from an
//! IPv6 network, be a proxy, move the service to another address, or send what a load balancer or the HTTP library
//! answers itself. What of a test needs none of that is in the section of the same name.

mod agreement;
mod authentication;
mod bodies;
mod concurrency;
mod conditional;
mod cors;
mod discovery;
mod documents;
mod errors;
mod formatting;
mod limits;
mod openapi;
mod order;
mod outages;
mod read;
mod resources;
mod site;
mod states;
mod token;
mod token_limits;
mod update;

//! One ring of two datacentres, `west` and `east`, with one node each: who may write, and how that moves.
//!
//! `./tests/run` starts the nodes. A test here may kill one, so each has them alone.

mod moves;
mod reconcile;
mod ring;
mod starting;

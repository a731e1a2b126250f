//! One ring of two datacentres, `west` and `east`, with one node each: who may write, and how that moves.
//!
//! `./tests/run` starts the nodes. A test here may kill one, so each has them alone. `tests/datacenters` runs these tests with three
//! nodes a side too.

mod midway;
pub(crate) mod moves;
mod reconcile;
pub(crate) mod ring;
mod starting;
mod upkeep;

//! One ring of two datacentres with three nodes each: a conflict between the two that heals, and moves with nodes lost. One node a side
//! cannot show that: a quorum there is all.
//!
//! `tests/datacenters` starts the ring, and runs the tests of `datacenters` on it too.

mod clients;
mod conflict;
mod lost_nodes;

use crate::datacenters::ring::Ring;

/// The ring for one test, where `west` writes.
async fn ring() -> Ring {
    let ring = Ring::migrated().await;
    assert_eq!(ring.a_side, 3, "tests/datacenters starts three nodes a side");
    ring
}

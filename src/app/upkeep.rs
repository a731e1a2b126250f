//! What the command line does with the files of a store that no process uses.

pub use crate::backends::redb::{check, compact};

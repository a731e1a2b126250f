//! Work of the command line on the files of a store that no process uses.

pub use crate::backends::redb::{check, compact};

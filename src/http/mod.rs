//! HTTP as the process speaks it: its listeners, their start and their end.

pub mod drain;
pub mod listener;
pub mod startup;

//! Code that both test programs share, `it` and `services`.

pub(crate) mod journal;
pub(crate) mod pages;
pub(crate) mod scans;

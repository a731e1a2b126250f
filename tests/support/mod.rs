//! Code that both test programs share, `it` and `services`.

pub(crate) mod app;
pub(crate) mod calls;
pub(crate) mod document;
pub(crate) mod exchange;
pub(crate) mod pages;
pub(crate) mod revision;
pub(crate) mod scans;

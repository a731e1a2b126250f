//! Code that both test programs share, `it` and `services`.

// The service under test, which each program has in a form of its own.
pub(crate) use crate::app;

pub(crate) mod calls;
pub(crate) mod document;
pub(crate) mod exchange;
pub(crate) mod pages;
pub(crate) mod revision;

//! What the sections of the specification know their service by.

pub(crate) use crate::app;
#[path = "../support/calls.rs"]
pub(crate) mod calls;
#[path = "../support/document.rs"]
pub(crate) mod document;
#[path = "../support/exchange.rs"]
pub(crate) mod exchange;

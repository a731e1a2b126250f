//! What tests share: the service with time, chance and its store in the test's hand.

pub(crate) mod app;
pub(crate) mod calls;
pub(crate) mod clock;
pub(crate) mod document;
pub(crate) mod exchange;
pub(crate) mod random;
pub(crate) mod skew;
pub(crate) mod stores;

//! The sections of `tests/it/spec` about what replicas share.

#[path = "../../it/spec/concurrency.rs"]
mod concurrency;
#[path = "../../it/spec/conditional.rs"]
mod conditional;
#[path = "../../it/spec/delete.rs"]
mod delete;
#[path = "../../it/spec/limits.rs"]
mod limits;
#[path = "../../it/spec/read.rs"]
mod read;
#[path = "../../it/spec/update.rs"]
mod update;

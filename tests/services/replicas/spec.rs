//! The sections of `tests/it/spec` about what replicas share: pages, keys and limits.

#[path = "../../it/spec/authentication.rs"]
mod authentication;
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
#[path = "../../it/spec/token.rs"]
mod token;
#[path = "../../it/spec/token_limits.rs"]
mod token_limits;
#[path = "../../it/spec/update.rs"]
mod update;

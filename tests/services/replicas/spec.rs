//! The sections of `tests/it/spec` about what replicas share and could get wrong between them.

#[path = "../../it/spec/authentication.rs"]
mod authentication;
#[path = "../../it/spec/concurrency.rs"]
mod concurrency;
#[path = "../../it/spec/conditional.rs"]
mod conditional;
#[path = "../../it/spec/limits.rs"]
mod limits;
#[path = "../../it/spec/token.rs"]
mod token;
#[path = "../../it/spec/token_limits.rs"]
mod token_limits;
#[path = "../../it/spec/update.rs"]
mod update;

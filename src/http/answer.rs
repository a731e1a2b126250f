//! Answers that may be there at once. An answer from memory costs less than a task that waits for one.

use std::future::{Future, Ready, ready};

use axum::response::Response;
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Either};

/// An answer: there at once, or once somebody else has answered.
pub type Answer<T = Response> = Either<Ready<T>, BoxFuture<'static, T>>;

pub fn now<T>(value: T) -> Answer<T> {
    Either::Left(ready(value))
}

pub fn later<T>(work: impl Future<Output = T> + Send + 'static) -> Answer<T> {
    Either::Right(work.boxed())
}

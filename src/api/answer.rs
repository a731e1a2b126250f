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

/// The answer that `work` will have, or has now if it need not wait for anything.
pub fn begun<T>(work: impl Future<Output = T> + Send + 'static) -> Answer<T> {
    let mut work = work.boxed();
    match (&mut work).now_or_never() {
        Some(value) => now(value),
        // The next poll asks to be woken.
        None => Either::Right(work),
    }
}

pub fn then<T: Send + 'static, U: Send + 'static>(
    answer: Answer<T>,
    next: impl FnOnce(T) -> Answer<U> + Send + 'static,
) -> Answer<U> {
    match answer {
        Either::Left(value) => next(value.into_inner()),
        Either::Right(waiting) => later(async move { next(waiting.await).await }),
    }
}

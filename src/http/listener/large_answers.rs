//! The memory of large answers until their clients have read them.

use std::sync::Arc;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use futures_util::FutureExt;
use http_body::Body as _;
use http_body_util::BodyExt;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Smaller bodies are not counted: connections bound their number.
const SMALL_BYTES: u64 = 16 * 1024;

/// Some fifty of the largest answers.
const MAX_BYTES: usize = 32 * 1024 * 1024;

/// Clones count together.
#[derive(Clone, Debug)]
pub struct LargeAnswers(Arc<Semaphore>);

#[derive(Debug)]
pub struct Full;

struct Held {
    bytes: Bytes,
    _permit: OwnedSemaphorePermit,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Default for LargeAnswers {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(MAX_BYTES)))
    }
}

impl LargeAnswers {
    /// Counts the bytes of `response` until they are sent.
    pub fn admit(&self, response: Response) -> Result<Response, Full> {
        let bytes = response.body().size_hint().lower();
        if bytes <= SMALL_BYTES {
            return Ok(response);
        }
        let bytes = u32::try_from(bytes).map_err(|_| Full)?;
        let permit = Arc::clone(&self.0).try_acquire_many_owned(bytes).map_err(|_| Full)?;
        let (head, body) = response.into_parts();
        // Every body of the service is whole, so this does not wait.
        let bytes = body.collect().now_or_never().and_then(Result::ok).ok_or(Full)?.to_bytes();
        // Hyper drops the bytes when it has sent them.
        Ok(Response::from_parts(head, Body::from(Bytes::from_owner(Held { bytes, _permit: permit }))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(bytes: usize) -> Response {
        Response::new(Body::from(vec![b'x'; bytes]))
    }

    #[tokio::test]
    async fn only_large_answers_count_until_their_bytes_are_dropped() {
        let all = LargeAnswers::default();
        let first = all.admit(answer(MAX_BYTES - 20_000)).unwrap();
        let bytes = first.into_body().collect().await.unwrap().to_bytes();
        assert!(all.admit(answer(20_001)).is_err());
        assert!(all.admit(answer(16 * 1024)).is_ok());
        drop(bytes);
        assert!(all.admit(answer(MAX_BYTES)).is_ok());
    }
}

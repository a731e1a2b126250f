//! Request bodies that have arrived with their heads.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::Body;
use bytes::Bytes;
use futures_util::FutureExt;
use http_body::{Body as HttpBody, Frame, SizeHint};
use http_body_util::BodyExt;

/// Longest body that is looked at, in bytes. It is longer than a call that reads a page, and it mostly arrives in one
/// piece.
const SHORT_BYTES: u64 = 4 * 1024;

/// The bytes of `body`, if it is short and all of it has arrived. Otherwise returns the body, of which nothing is
/// missing.
pub(super) fn arrived(mut body: Body) -> Result<Bytes, Body> {
    if body.size_hint().exact().is_none_or(|bytes| bytes > SHORT_BYTES) {
        return Err(body);
    }
    match body.frame().now_or_never() {
        // The next poll asks to be woken again.
        None => Err(body),
        Some(None) => Ok(Bytes::new()),
        Some(Some(Ok(frame))) if frame.is_data() && body.is_end_stream() => Ok(frame.into_data().unwrap_or_default()),
        Some(first) => Err(Body::new(Begun { first, rest: body })),
    }
}

/// A body whose first frame was read.
struct Begun {
    first: Option<Result<Frame<Bytes>, axum::Error>>,
    rest: Body,
}

impl HttpBody for Begun {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        match self.first.take() {
            Some(first) => Poll::Ready(Some(first)),
            None => Pin::new(&mut self.rest).poll_frame(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.first.is_none() && self.rest.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let read = self.first.iter().flatten().filter_map(Frame::data_ref).map(|data| data.len() as u64).sum::<u64>();
        let (rest, mut hint) = (self.rest.size_hint(), SizeHint::default());
        hint.set_lower(rest.lower() + read);
        if let Some(upper) = rest.upper() {
            hint.set_upper(upper + read);
        }
        hint
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::io;

    use super::*;

    /// A body of known length whose frames arrive one by one; `None` is a poll for which nothing has arrived.
    struct Arriving(VecDeque<Option<Result<&'static str, io::ErrorKind>>>);

    impl HttpBody for Arriving {
        type Data = Bytes;
        type Error = io::Error;

        fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
            match self.0.pop_front() {
                None => Poll::Ready(None),
                Some(None) => {
                    context.waker().wake_by_ref();
                    Poll::Pending
                }
                Some(Some(Ok(text))) => Poll::Ready(Some(Ok(Frame::data(text.into())))),
                Some(Some(Err(kind))) => Poll::Ready(Some(Err(kind.into()))),
            }
        }

        fn is_end_stream(&self) -> bool {
            self.0.is_empty()
        }

        fn size_hint(&self) -> SizeHint {
            SizeHint::with_exact(self.0.iter().flatten().flatten().map(|text| text.len() as u64).sum())
        }
    }

    fn body(frames: impl IntoIterator<Item = Option<Result<&'static str, io::ErrorKind>>>) -> Body {
        Body::new(Arriving(frames.into_iter().collect()))
    }

    #[tokio::test]
    async fn a_short_body_is_there_if_it_arrived_in_one_piece() {
        assert_eq!(arrived(body([Some(Ok("{}"))])).unwrap(), "{}");
        assert_eq!(arrived(Body::empty()).unwrap(), "");
    }

    #[tokio::test]
    async fn of_any_other_body_nothing_is_missing() {
        let long = "a".repeat(5000).leak();
        for frames in [
            vec![Some(Ok("{")), Some(Ok("}"))],
            vec![Some(Ok("{")), None, Some(Ok("}"))],
            vec![None, Some(Ok("{}"))],
            vec![Some(Ok(&*long))],
        ] {
            let whole: String = frames.iter().flatten().flatten().copied().collect();
            let rest = arrived(body(frames)).unwrap_err();
            assert_eq!(rest.size_hint().exact(), Some(whole.len() as u64));
            assert_eq!(rest.collect().await.unwrap().to_bytes(), whole);
        }
    }

    #[tokio::test]
    async fn a_body_that_fails_fails_for_those_who_read_it_later() {
        for frames in
            [vec![Some(Err(io::ErrorKind::TimedOut))], vec![Some(Ok("{")), Some(Err(io::ErrorKind::TimedOut))]]
        {
            arrived(body(frames)).unwrap_err().collect().await.unwrap_err();
        }
    }
}

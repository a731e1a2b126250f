//! Finds where a request's head and body end in the bytes that arrive, so that hyper gets exactly one message.
//!
//! Only hyper decides what a message means. If it disagrees with this module, the connection ends.

use memchr::memchr_iter;
use thiserror::Error;

/// A line ends with LF alone. A proxy in front may not have taken that for the end of a line (RFC 9112 §2.2).
#[derive(Debug, PartialEq, Eq)]
pub(super) struct BareLineFeed;

/// Why a body in chunks is not passed on.
#[derive(Debug, PartialEq, Eq, Error)]
pub(super) enum ChunksError {
    /// See [`BareLineFeed`].
    #[error("a line of trailers ends with LF alone")]
    BareLineFeed,
    /// There are more than [`MAX_TRAILER_BYTES`].
    #[error("the trailers are too long")]
    LongTrailers,
}

/// Longest trailers, in bytes. Nothing reads them, but hyper keeps them until the last, and no budget counts them one by one.
const MAX_TRAILER_BYTES: usize = 4096;

/// Finds the end of the head in `bytes`: after the first empty line, if there is one. The first `seen` bytes were
/// searched before. Fails at a line that ends with LF alone.
pub(super) fn end_of_head(bytes: &[u8], seen: usize) -> Result<Option<usize>, BareLineFeed> {
    for end in memchr_iter(b'\n', &bytes[seen..]).map(|at| seen + at) {
        let line = bytes[..end].strip_suffix(b"\r").ok_or(BareLineFeed)?;
        if line.ends_with(b"\n") {
            return Ok(Some(end + 1));
        }
    }
    Ok(None)
}

/// Whether a request can begin with `byte`: a method is a token (RFC 9110 §5.6.2).
pub(super) fn begins_a_request(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// The part of a request's body that has not arrived yet.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Body {
    /// This number of bytes.
    Exact(u64),
    /// Chunks (RFC 9112 §7.1), of which this number of bytes of trailers has arrived.
    Chunked(Chunked, usize),
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Chunked {
    /// In the digits of a chunk's size.
    Size(u64),
    /// In the rest of the line after the size.
    Extension(u64),
    /// In a chunk that has this number of bytes left.
    Data(u64),
    /// In the line break after a chunk.
    AfterData,
    Trailers,
    /// After the CR of the last, empty line.
    LastLine,
    /// In a line of trailers, after its beginning.
    Trailer,
    /// After the CR of a line of trailers.
    TrailerEnd,
    /// After the end.
    Done,
}

impl Body {
    pub(super) const NONE: Self = Self::Exact(0);

    pub(super) const CHUNKED: Self = Self::Chunked(Chunked::Size(0), 0);

    pub(super) fn is_done(&self) -> bool {
        matches!(self, Self::Exact(0) | Self::Chunked(Chunked::Done, _))
    }

    /// The most bytes that the body can still have.
    pub(super) fn at_most(&self) -> usize {
        match self {
            Self::Exact(left) => usize::try_from(*left).unwrap_or(usize::MAX),
            Self::Chunked(Chunked::Done, _) => 0,
            Self::Chunked(..) => usize::MAX,
        }
    }

    /// Reads over `bytes` and returns how many of them belong to the body. Fails at a line of trailers that ends with LF
    /// alone, and at trailers that are too long. Hyper refuses any other line between chunks that ends with LF alone.
    pub(super) fn take(&mut self, bytes: &[u8]) -> Result<usize, ChunksError> {
        match self {
            Self::Exact(left) => {
                let taken = bytes.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
                *left -= taken as u64;
                Ok(taken)
            }
            Self::Chunked(chunked, trailer_bytes) => {
                let mut taken = 0;
                while taken < bytes.len() && *chunked != Chunked::Done {
                    let read = chunked.step(&bytes[taken..]).map_err(|BareLineFeed| ChunksError::BareLineFeed)?;
                    taken += read;
                    *trailer_bytes += if chunked.is_in_trailers() { read } else { 0 };
                    if *trailer_bytes > MAX_TRAILER_BYTES {
                        return Err(ChunksError::LongTrailers);
                    }
                }
                Ok(taken)
            }
        }
    }
}

impl Chunked {
    fn is_in_trailers(&self) -> bool {
        matches!(self, Self::Trailers | Self::LastLine | Self::Trailer | Self::TrailerEnd)
    }

    /// Reads over at least one of `bytes`, which must not be empty, and returns how many bytes it read over.
    fn step(&mut self, bytes: &[u8]) -> Result<usize, BareLineFeed> {
        let byte = bytes[0];
        let line_ended = byte == b'\n';
        *self = match *self {
            Self::Data(left) => {
                let passed = bytes.len().min(usize::try_from(left).unwrap_or(usize::MAX));
                let left = left - passed as u64;
                *self = if left == 0 { Self::AfterData } else { Self::Data(left) };
                return Ok(passed);
            }
            Self::Size(size) | Self::Extension(size) if line_ended && size == 0 => Self::Trailers,
            Self::Size(size) | Self::Extension(size) if line_ended => Self::Data(size),
            Self::Size(size) => match char::from(byte).to_digit(16) {
                // Hyper refuses a size that is out of range.
                Some(digit) => Self::Size(size.saturating_mul(16).saturating_add(u64::from(digit))),
                None => Self::Extension(size),
            },
            Self::AfterData if line_ended => Self::Size(0),
            Self::LastLine if line_ended => Self::Done,
            Self::TrailerEnd if line_ended => Self::Trailers,
            _ if line_ended => return Err(BareLineFeed),
            Self::Trailers if byte == b'\r' => Self::LastLine,
            Self::Trailer if byte == b'\r' => Self::TrailerEnd,
            Self::Extension(size) => Self::Extension(size),
            Self::AfterData => Self::AfterData,
            // Hyper refuses a CR that no LF follows.
            Self::Trailers | Self::LastLine | Self::Trailer | Self::TrailerEnd => Self::Trailer,
            Self::Done => Self::Done,
        };
        Ok(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_ends_after_its_first_empty_line_however_it_arrives() {
        let (bytes, end) = (b"GET / HTTP/1.1\r\nHost: a\r\n\r\nGET", 27);
        assert_eq!(end_of_head(bytes, 0), Ok(Some(end)));
        let found = (1..=bytes.len()).find_map(|arrived| end_of_head(&bytes[..arrived], arrived - 1).unwrap());
        assert_eq!(found, Some(end));
        assert_eq!(end_of_head(&bytes[..end - 1], 0), Ok(None));
    }

    #[test]
    fn a_line_of_a_head_that_ends_with_lf_alone_is_an_error_as_soon_as_it_arrives() {
        for text in ["\n", "GET / HTTP/1.1\n", "GET / HTTP/1.1\r\nHost: a\n", "GET / HTTP/1.1\r\nHost: a\r\n\n"] {
            let (bytes, before) = (text.as_bytes(), text.len() - 1);
            assert_eq!(end_of_head(&bytes[..before], 0), Ok(None), "{text:?}");
            assert_eq!(end_of_head(bytes, before), Err(BareLineFeed), "{text:?}");
        }
    }

    #[test]
    fn a_body_of_a_length_ends_after_it() {
        let mut body = Body::Exact(5);
        assert_eq!((body.take(b"abc"), body.is_done(), body.at_most()), (Ok(3), false, 2));
        assert_eq!((body.take(b"deGET"), body.is_done()), (Ok(2), true));
    }

    #[test]
    fn a_body_of_chunks_ends_after_its_trailers_however_it_arrives() {
        for whole in [
            "5\r\nhello\r\nA;name=value\r\n0123456789\r\n0\r\n\r\n",
            "1\r\n\n\r\n000\r\nTrailer: 0\r\nOther: 1\r\n\r\n",
        ] {
            let text = format!("{whole}GET / HTTP/1.1\r\n\r\n");
            for piece in 1..=text.len() {
                let mut body = Body::CHUNKED;
                let taken: usize = text.as_bytes().chunks(piece).map(|bytes| body.take(bytes).unwrap()).sum();
                assert_eq!((taken, body.is_done()), (whole.len(), true), "{whole:?} by {piece}");
            }
        }
    }

    #[test]
    fn a_size_beyond_any_number_has_no_end() {
        let mut body = Body::CHUNKED;
        assert_eq!(body.take(b"fffffffffffffffffffff\r\nabc"), Ok(26));
        assert!(!body.is_done());
    }
    #[test]
    fn a_line_of_trailers_that_ends_with_lf_alone_is_an_error() {
        for text in ["0\r\n\n", "0\r\nA: 1\n", "0\r\nA: 1\r\n\n"] {
            let mut body = Body::CHUNKED;
            assert_eq!(body.take(text.as_bytes()), Err(ChunksError::BareLineFeed), "{text:?}");
            assert!(!body.is_done(), "{text:?}");
        }
    }

    #[test]
    fn trailers_over_4_kib_are_an_error_however_they_arrive_and_a_body_or_an_extension_is_not() {
        let trailers = |bytes: usize| format!("1;e={}\r\na\r\n0\r\n{}", "e".repeat(9000), "a: b\r\n".repeat(bytes / 6));
        for piece in [1, 7, 100_000] {
            let take = |text: &str| {
                let mut body = Body::CHUNKED;
                text.as_bytes().chunks(piece).try_for_each(|bytes| body.take(bytes).map(|_| ()))
            };
            assert_eq!(take(&(trailers(4080) + "\r\n")), Ok(()), "{piece}");
            assert_eq!(take(&trailers(4104)), Err(ChunksError::LongTrailers), "{piece}");
        }
    }
}

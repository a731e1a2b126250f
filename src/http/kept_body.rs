//! Finished bodies as they are kept and sent.
//!
//! Every page's HTML has the same frame with the style sheet, which is most of it. The frame is kept once, plain and
//! compressed, and sent between the two parts of a body that are the page's own. Whole pages go over the wire, so no reader,
//! cache, saved copy or rolling update can have one without its style.

use std::task::{Context, Poll};
use std::{convert::Infallible, pin::Pin, sync::LazyLock, vec};

use axum::body::Body;
use bytes::Bytes;
use flate2::{Compress, Compression, Crc, FlushCompress};
use http_body::{Frame, SizeHint};

use super::{negotiation::Coding, site::assets::FRAME};

/// RFC 1952 §2.3: deflated, without a time or a name, made by no system in particular.
const GZIP_HEADER: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff];

static COMPRESSED_FRAME: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mut compressed = Vec::new();
    deflate(&mut compressed, FRAME.as_bytes(), &[], FlushCompress::Sync).expect("there is room");
    compressed
});

#[derive(Clone, Debug)]
pub(super) struct KeptBody {
    bytes: Bytes,
    /// Where the frame goes, in the body's coding.
    frame_at: Option<usize>,
}

impl<T: Into<Bytes>> From<T> for KeptBody {
    fn from(bytes: T) -> Self {
        Self { bytes: bytes.into(), frame_at: None }
    }
}

impl KeptBody {
    /// `html` of a page whose frame is empty. In what a client wrote, `<` is a reference.
    pub(super) fn without_frame(html: String) -> Self {
        let frame_at = html.find("<body");
        // Holds no spare capacity.
        Self { bytes: html.into_boxed_str().into_boxed_bytes().into(), frame_at }
    }

    /// In memory.
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(super) fn body(&self, coding: Coding) -> Body {
        let Some(at) = self.frame_at else { return Body::from(self.bytes.clone()) };
        let frame = match coding {
            Coding::Identity => FRAME.as_bytes(),
            Coding::Gzip => &COMPRESSED_FRAME,
        };
        Chunks::body(vec![self.bytes.slice(..at), Bytes::from_static(frame), self.bytes.slice(at..)])
    }

    /// This body, which has no coding, as gzip; `None` if that is not smaller. The result depends only on the body.
    pub(super) fn gzip(&self) -> Option<Self> {
        let (before, after) = self.bytes.split_at(self.frame_at.unwrap_or(0));
        let mut compressed = GZIP_HEADER.to_vec();
        let (mut window, mut frame_at) = (Vec::new(), None);
        if self.frame_at.is_some() {
            deflate(&mut compressed, before, &[], FlushCompress::Sync)?;
            (window, frame_at) = ([before, FRAME.as_bytes()].concat(), Some(compressed.len()));
        }
        deflate(&mut compressed, after, &window, FlushCompress::Finish)?;
        let mut checksum = Crc::new();
        checksum.update(&window);
        checksum.update(after);
        compressed.extend([checksum.sum(), checksum.amount()].map(u32::to_le_bytes).as_flattened());
        compressed.shrink_to_fit();
        (compressed.len() < self.len()).then(|| Self { bytes: compressed.into(), frame_at })
    }
}

/// Appends `bytes` to the stream `compressed`, for a reader who has `window` already.
fn deflate(compressed: &mut Vec<u8>, bytes: &[u8], window: &[u8], flush: FlushCompress) -> Option<()> {
    let mut stream = Compress::new(Compression::default(), false);
    if !window.is_empty() {
        stream.set_dictionary(window).ok()?;
    }
    // What cannot be compressed takes five bytes more for each block.
    compressed.reserve(bytes.len() + bytes.len() / 8 + 64);
    stream.compress_vec(bytes, compressed, flush).ok().filter(|_| stream.total_in() == bytes.len() as u64).map(|_| ())
}

/// A body of known length in several pieces, which are sent without being copied together.
pub(super) struct Chunks(vec::IntoIter<Bytes>);

impl Chunks {
    pub(super) fn body(chunks: Vec<Bytes>) -> Body {
        Body::new(Self(chunks.into_iter()))
    }
}

impl http_body::Body for Chunks {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.next().map(|chunk| Ok(Frame::data(chunk))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.as_slice().is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0.as_slice().iter().map(|chunk| chunk.len() as u64).sum())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use flate2::read::GzDecoder;
    use futures_util::FutureExt;
    use http_body_util::BodyExt;

    use super::*;

    fn sent(body: &KeptBody, coding: Coding) -> Bytes {
        body.body(coding).collect().now_or_never().unwrap().unwrap().to_bytes()
    }

    #[test]
    fn a_body_is_sent_whole_and_compressed_to_the_same_bytes() {
        let words = "Some words. ".repeat(100);
        let long: String =
            (0..500_000_u32).map(|n| char::from(b' ' + n.wrapping_mul(2_654_435_761).to_be_bytes()[1] % 64)).collect();
        for after in ["", &words, &long] {
            let html = format!("<title>é</title>\n\n<body>{after}");
            let kept = KeptBody::without_frame(html.clone());
            let whole = html.replace("<body>", &format!("{}<body>", *FRAME));
            for (body, expected) in [(kept, whole), (html.clone().into(), html)] {
                assert_eq!(sent(&body, Coding::Identity), expected);
                let Some(gzip) = body.gzip() else {
                    assert!(after.is_empty());
                    continue;
                };
                let mut unpacked = String::new();
                GzDecoder::new(&sent(&gzip, Coding::Gzip)[..]).read_to_string(&mut unpacked).unwrap();
                assert_eq!(unpacked, expected);
            }
        }
    }

    #[test]
    fn what_compression_makes_no_smaller_stays_as_it_is() {
        let random: Vec<u8> = (0..1000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13).to_le_bytes()[0]).collect();
        let twice = KeptBody::from(random.repeat(9)).gzip().unwrap().gzip();
        assert!(twice.is_none());
    }
}

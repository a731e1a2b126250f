//! Content codings: which ones a request accepts, and when a body is compressed.
//!
//! An answer with an edit key is never compressed: its size would betray the secret beside an attacker's text (the
//! BREACH attack).

use std::io::Write;
use std::sync::Arc;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::header::ACCEPT_ENCODING;
use http::{HeaderMap, HeaderValue};
use tokio::sync::Semaphore;
use tokio::task;

use crate::http::request::accept::quality;

/// The body may be compressed.
pub(super) const VARY_CODING: HeaderValue = HeaderValue::from_static("Accept-Encoding");

/// The media type also depends on `Accept`.
pub(super) const VARY_TYPE_AND_CODING: HeaderValue = HeaderValue::from_static("Accept, Accept-Encoding");

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Coding {
    Identity,
    /// RFC 1952.
    Gzip,
    /// RFC 8878.
    Zstd,
}

impl Coding {
    /// The first of equal weight is preferred.
    pub(super) const PREFERRED: [Self; 3] = [Self::Zstd, Self::Gzip, Self::Identity];

    /// As in header fields and entity tags.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Identity => "identity",
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
        }
    }

    /// `None` if the result is not smaller. It depends only on `bytes`.
    pub(super) fn compress(self, bytes: &[u8]) -> Option<Bytes> {
        let compressed = match self {
            Self::Identity => return None,
            Self::Gzip => {
                let mut encoder = GzEncoder::new(Vec::with_capacity(bytes.len() / 2), Compression::default());
                encoder.write_all(bytes).and_then(|()| encoder.finish())
            }
            // Its window is far below the 8 MB that browsers accept.
            Self::Zstd => zstd::bulk::compress(bytes, zstd::DEFAULT_COMPRESSION_LEVEL),
        };
        // Writing to memory does not fail.
        compressed.ok().filter(|compressed| compressed.len() < bytes.len()).map(|mut compressed| {
            compressed.shrink_to_fit();
            compressed.into()
        })
    }
}

/// Preferred first (RFC 9110 §12.5.3). A request without the header gets no coding.
pub(super) fn accepted(request: &HeaderMap) -> impl Iterator<Item = Coding> {
    let mut weighed = Coding::PREFERRED.map(|coding| (coding, 0.0_f32));
    if request.contains_key(ACCEPT_ENCODING) {
        let (mut named, mut any) = ([None; 3], None);
        let lines = request.get_all(ACCEPT_ENCODING).iter().filter_map(|line| line.to_str().ok());
        for member in lines.flat_map(|line| line.split(',')) {
            let (name, parameters) = member.split_once(';').unwrap_or((member, ""));
            let name = name.trim();
            let slot = match Coding::PREFERRED.iter().position(|coding| is_name_of(name, *coding)) {
                Some(at) => &mut named[at],
                None if name == "*" => &mut any,
                None => continue,
            };
            let weight = quality(parameters);
            *slot = Some(slot.map_or(weight, |other: f32| other.max(weight)));
        }
        for (at, (coding, weight)) in weighed.iter_mut().enumerate() {
            // Codings that are not named are not accepted; the uncompressed form comes last.
            let unmentioned = if *coding == Coding::Identity { f32::MIN_POSITIVE } else { 0.0 };
            *weight = named[at].or(any).unwrap_or(unmentioned);
        }
        // The sort is stable.
        weighed.sort_by(|(_, one), (_, other)| other.total_cmp(one));
    } else {
        weighed[2].1 = 1.0;
    }
    weighed.into_iter().filter(|(_, weight)| *weight > 0.0).map(|(coding, _)| coding)
}

fn is_name_of(name: &str, coding: Coding) -> bool {
    name.eq_ignore_ascii_case(coding.name()) || (coding == Coding::Gzip && name.eq_ignore_ascii_case("x-gzip"))
}

/// Compresses one body at a time, without delaying requests.
#[derive(Clone)]
pub(super) struct Compressor(Arc<Semaphore>);

impl Compressor {
    pub(super) fn new() -> Self {
        Self(Arc::new(Semaphore::new(1)))
    }

    /// Does nothing while busy: a later request asks again, so nothing piles up.
    pub(super) fn begin(&self, work: impl FnOnce() + Send + 'static) {
        if let Ok(permit) = Arc::clone(&self.0).try_acquire_owned() {
            task::spawn_blocking(move || {
                work();
                drop(permit);
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accepts(lines: &[&str]) -> Vec<&'static str> {
        let mut all = HeaderMap::new();
        for (name, value) in lines.iter().map(|line| (ACCEPT_ENCODING, HeaderValue::from_str(line).unwrap())) {
            all.append(name, value);
        }
        accepted(&all).map(Coding::name).collect()
    }

    #[test]
    fn the_heaviest_coding_comes_first_and_identity_last_unless_it_is_named() {
        for (lines, codings) in [
            (&[][..], &["identity"][..]),
            (&[""], &["identity"]),
            (&["gzip, deflate, br, zstd"], &["zstd", "gzip", "identity"]),
            (&["zstd;q=0.5, gzip"], &["gzip", "zstd", "identity"]),
            (&["zstd;q=0.5", "GZip;Q=0.7"], &["gzip", "zstd", "identity"]),
            (&["x-gzip"], &["gzip", "identity"]),
            (&["gzip;q=0.5, identity"], &["identity", "gzip"]),
            (&["gzip;q=0, zstd;q=0"], &["identity"]),
            (&["identity;q=0, gzip"], &["gzip"]),
            (&["*;q=0"], &[]),
            (&["gzip, *;q=0"], &["gzip"]),
            (&["*"], &["zstd", "gzip", "identity"]),
            (&["gzip;q=0.2, *;q=0.5"], &["zstd", "identity", "gzip"]),
            (&["br, deflate"], &["identity"]),
            (&["gzip;q=much"], &["identity"]),
            (&["gzip;q=NaN"], &["identity"]),
        ] {
            assert_eq!(accepts(lines), codings, "{lines:?}");
        }
    }

    #[tokio::test]
    async fn one_body_is_compressed_at_a_time_and_the_rest_is_left_to_later_requests() {
        let compressor = Compressor::new();
        let (release, released) = std::sync::mpsc::channel::<()>();
        compressor.begin(move || {
            let _ = released.recv();
        });
        compressor.begin(|| panic!("it does not begin while the other runs"));
        drop(release);
        let _free = compressor.0.acquire().await.unwrap();
    }
}

//! Content codings: which ones a request accepts, and a body that is compressed once and sent in any of them.
//!
//! Only what everybody may read is compressed: pages and documents, whose bytes hold no secret. An answer that shows an
//! edit key is never compressed. If a secret and text that an attacker chose were compressed together, the size of the
//! answer would betray the secret piece by piece (the BREACH attack).

use std::convert::Infallible;
use std::io::Write;
use std::sync::{Arc, OnceLock};

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use futures_util::stream;
use http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_TYPE, ETAG};
use http::{HeaderMap, HeaderValue, StatusCode};
use tokio::sync::Semaphore;
use tokio::task;

use super::etag::is_named;

/// `Vary` of an answer whose body may be compressed.
pub(super) const VARY_CODING: HeaderValue = HeaderValue::from_static("Accept-Encoding");

/// `Vary` of an answer whose media type depends on `Accept` too.
pub(super) const VARY_TYPE_AND_CODING: HeaderValue = HeaderValue::from_static("Accept, Accept-Encoding");

/// Bodies below this size, in bytes, are not compressed: they fit into one packet with their header in any case.
const MIN_COMPRESSED_BYTES: usize = 256;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Coding {
    /// The bytes as they are.
    Identity,
    /// RFC 1952.
    Gzip,
    /// RFC 8878.
    Zstd,
}

impl Coding {
    /// All codings. Among those that a client weighs alike, the first is preferred.
    const PREFERRED: [Self; 3] = [Self::Zstd, Self::Gzip, Self::Identity];

    /// The coding as it is named in header fields and entity tags.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Identity => "identity",
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
        }
    }

    /// `bytes` in this coding; `None` if that is not smaller. The result depends only on `bytes`.
    fn compress(self, bytes: &[u8]) -> Option<Bytes> {
        let compressed = match self {
            Self::Identity => return None,
            Self::Gzip => {
                let mut encoder = GzEncoder::new(Vec::with_capacity(bytes.len() / 2), Compression::default());
                encoder.write_all(bytes).and_then(|()| encoder.finish())
            }
            // The default level. Its window is far below the 8 MB that browsers accept.
            Self::Zstd => zstd::bulk::compress(bytes, zstd::DEFAULT_COMPRESSION_LEVEL),
        };
        // Writing to memory does not fail.
        compressed.ok().filter(|compressed| compressed.len() < bytes.len()).map(|mut compressed| {
            compressed.shrink_to_fit();
            compressed.into()
        })
    }
}

/// The codings that a request accepts, the preferred one first (RFC 9110 §12.5.3). A request that does not name codings
/// gets no coding.
pub(super) fn accepted(request: &HeaderMap) -> impl Iterator<Item = Coding> {
    let mut weighed = Coding::PREFERRED.map(|coding| (coding, 0.0_f32));
    if request.contains_key(ACCEPT_ENCODING) {
        let (mut named, mut any) = ([None; 3], None);
        let lines = request.get_all(ACCEPT_ENCODING).iter().filter_map(|line| line.to_str().ok());
        for member in lines.flat_map(|line| line.split(',')) {
            let (name, weight) = weighed_member(member);
            let slot = match Coding::PREFERRED.iter().position(|coding| is_name_of(name, *coding)) {
                Some(at) => &mut named[at],
                None if name == "*" => &mut any,
                None => continue,
            };
            *slot = Some(slot.map_or(weight, |other: f32| other.max(weight)));
        }
        for (at, (coding, weight)) in weighed.iter_mut().enumerate() {
            // A coding that is not mentioned is not accepted. The uncompressed form comes after all codings that the
            // client names.
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

/// A member of `Accept-Encoding`: the name and its weight. A weight that cannot be read counts as 0.
fn weighed_member(member: &str) -> (&str, f32) {
    let mut parts = member.split(';').map(str::trim);
    let name = parts.next().unwrap_or_default();
    let weight = parts
        .filter_map(|parameter| parameter.split_once('='))
        .find(|(name, _)| name.trim().eq_ignore_ascii_case("q"))
        .map_or(1.0, |(_, value)| value.trim().parse().ok().filter(|weight: &f32| weight.is_finite()).unwrap_or(0.0));
    (name, weight)
}

/// A body, its compressed forms as far as they were made, and the entity tag of each form.
pub(super) struct CodedBody {
    identity: Bytes,
    /// In the order of [`Coding::PREFERRED`].
    tags: [HeaderValue; 3],
    gzip: OnceLock<Option<Bytes>>,
    zstd: OnceLock<Option<Bytes>>,
}

impl CodedBody {
    /// A body whose uncompressed bytes are `identity`. `tag` returns the entity tag for each coding.
    pub(super) fn new(identity: Bytes, tag: impl Fn(Coding) -> HeaderValue) -> Self {
        Self { identity, tags: Coding::PREFERRED.map(tag), gzip: OnceLock::new(), zstd: OnceLock::new() }
    }

    /// The size of the body as it is, in bytes.
    pub(super) fn len(&self) -> usize {
        self.identity.len()
    }

    /// Whether it is large enough to be compressed.
    pub(super) fn is_compressible(&self) -> bool {
        self.identity.len() >= MIN_COMPRESSED_BYTES
    }

    fn tag(&self, coding: Coding) -> &HeaderValue {
        match coding {
            Coding::Zstd => &self.tags[0],
            Coding::Gzip => &self.tags[1],
            Coding::Identity => &self.tags[2],
        }
    }

    /// The form in `coding`: `None` if it was not made yet, `Some(None)` if it is not worth sending.
    fn form(&self, coding: Coding) -> Option<Option<&Bytes>> {
        match coding {
            Coding::Identity => Some(Some(&self.identity)),
            Coding::Gzip => self.gzip.get().map(Option::as_ref),
            Coding::Zstd => self.zstd.get().map(Option::as_ref),
        }
    }

    /// Makes the form in `coding`, if it was not made yet. Returns how many bytes it takes.
    pub(super) fn compress(&self, coding: Coding) -> usize {
        let slot = match coding {
            Coding::Identity => return 0,
            Coding::Gzip => &self.gzip,
            Coding::Zstd => &self.zstd,
        };
        let mut made = 0;
        slot.get_or_init(|| {
            let compressed = coding.compress(&self.identity);
            made = compressed.as_ref().map_or(0, Bytes::len);
            compressed
        });
        made
    }

    /// The response to a request with these headers: 304 if the client holds a form that it accepts, or else the
    /// preferred form among those that were made. Also returns a coding that the client prefers and that was not made.
    ///
    /// On a 304, a cache updates its stored header fields with those of the 304 (RFC 9111 §3.2). So `fields` has every
    /// field of the 200, except those that describe the body itself.
    pub(super) fn respond_to(
        &self,
        request: &HeaderMap,
        content_type: &HeaderValue,
        fields: &HeaderMap,
    ) -> (Response, Option<Coding>) {
        let (mut selected, mut missing) = (Coding::Identity, None);
        let mut holds = is_named(request, self.tag(Coding::Identity).as_bytes()).then_some(Coding::Identity);
        if self.is_compressible() && request.contains_key(ACCEPT_ENCODING) {
            for coding in accepted(request) {
                if holds.is_none() && is_named(request, self.tag(coding).as_bytes()) {
                    holds = Some(coding);
                }
            }
            for coding in accepted(request) {
                match self.form(coding) {
                    Some(Some(_)) => {
                        selected = coding;
                        break;
                    }
                    Some(None) => {}
                    None => missing = missing.or(Some(coding)),
                }
            }
        }
        if holds.is_none() && is_named(request, b"*") {
            holds = Some(selected);
        }
        let mut response = match holds {
            Some(_) => not_modified(),
            None => Response::new(Body::from(self.form(selected).flatten().unwrap_or(&self.identity).clone())),
        };
        let headers = response.headers_mut();
        headers.clone_from(fields);
        headers.insert(ETAG, self.tag(holds.unwrap_or(selected)).clone());
        if holds.is_none() {
            headers.insert(CONTENT_TYPE, content_type.clone());
            if selected != Coding::Identity {
                headers.insert(CONTENT_ENCODING, HeaderValue::from_static(selected.name()));
            }
        }
        // A client that holds the page does not need another form of it.
        (response, missing.filter(|_| holds.is_none()))
    }
}

pub(super) fn not_modified() -> Response {
    // The length is left unknown on purpose. Otherwise a 304 to HEAD would have `Content-Length: 0`, although the field
    // must give the length of the 200.
    let nothing = stream::empty::<Result<Bytes, Infallible>>();
    let mut response = Response::new(Body::from_stream(nothing));
    *response.status_mut() = StatusCode::NOT_MODIFIED;
    response
}

/// Compresses bodies off the requests that ask for them, one at a time.
#[derive(Clone)]
pub(super) struct Compressor(Arc<Semaphore>);

impl Compressor {
    pub(super) fn new() -> Self {
        Self(Arc::new(Semaphore::new(1)))
    }

    /// Does `work` on a thread that may block, unless the compressor is busy. Then a later request asks again, so
    /// nothing waits and nothing piles up.
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
    use std::io::Read;

    use flate2::read::GzDecoder;
    use http::header::IF_NONE_MATCH;

    use super::*;

    fn headers(lines: &[&str]) -> HeaderMap {
        lines.iter().map(|line| (ACCEPT_ENCODING, HeaderValue::from_str(line).unwrap())).collect()
    }

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

    fn tag(coding: Coding) -> HeaderValue {
        HeaderValue::try_from(format!("\"{}\"", coding.name())).unwrap()
    }

    fn body(text: &str) -> CodedBody {
        CodedBody::new(Bytes::copy_from_slice(text.as_bytes()), tag)
    }

    fn respond(body: &CodedBody, request: &HeaderMap) -> (Response, Option<Coding>) {
        body.respond_to(request, &HeaderValue::from_static("text/plain"), &HeaderMap::new())
    }

    #[test]
    fn each_form_is_the_same_text() {
        let text = "Some words. ".repeat(100);
        let body = body(&text);
        assert!(body.compress(Coding::Gzip) > 0 && body.compress(Coding::Zstd) > 0);
        let mut unpacked = String::new();
        GzDecoder::new(&body.form(Coding::Gzip).unwrap().unwrap()[..]).read_to_string(&mut unpacked).unwrap();
        assert_eq!(unpacked, text);
        let unpacked = zstd::bulk::decompress(body.form(Coding::Zstd).unwrap().unwrap(), text.len()).unwrap();
        assert_eq!(unpacked, text.as_bytes());
        assert_eq!(body.compress(Coding::Gzip), 0, "it is made once");
    }

    #[test]
    fn a_form_is_sent_once_it_is_made_and_until_then_the_client_gets_another() {
        let body = body(&"a".repeat(MIN_COMPRESSED_BYTES));
        let request = headers(&["zstd, gzip"]);
        let (response, missing) = respond(&body, &request);
        assert_eq!((response.headers().get(CONTENT_ENCODING), missing), (None, Some(Coding::Zstd)));
        assert_eq!(response.headers()[ETAG], tag(Coding::Identity));
        body.compress(Coding::Gzip);
        let (response, missing) = respond(&body, &request);
        assert_eq!(
            (&response.headers()[CONTENT_ENCODING], missing),
            (&HeaderValue::from_static("gzip"), Some(Coding::Zstd))
        );
        assert_eq!(response.headers()[ETAG], tag(Coding::Gzip));
        body.compress(Coding::Zstd);
        let (response, missing) = respond(&body, &request);
        assert_eq!((&response.headers()[CONTENT_ENCODING], missing), (&HeaderValue::from_static("zstd"), None));
    }

    #[test]
    fn what_is_small_or_does_not_shrink_is_sent_as_it_is() {
        let small = body(&"a".repeat(MIN_COMPRESSED_BYTES - 1));
        let (response, missing) = respond(&small, &headers(&["gzip"]));
        assert_eq!((response.headers().get(CONTENT_ENCODING), missing), (None, None));
        let random: Vec<u8> = (0..1000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13).to_le_bytes()[0]).collect();
        let dense = zstd::bulk::compress(&random, 19).unwrap();
        let dense = CodedBody::new([dense, random].concat().into(), tag);
        if dense.compress(Coding::Gzip) == 0 {
            let (response, missing) = respond(&dense, &headers(&["gzip"]));
            assert_eq!((response.headers().get(CONTENT_ENCODING), missing), (None, None));
        }
    }

    #[test]
    fn a_client_that_holds_any_form_it_accepts_gets_a_304_with_the_tag_of_that_form() {
        let body = body(&"a".repeat(MIN_COMPRESSED_BYTES));
        for (encoding, held, status, sent) in [
            ("gzip", "\"gzip\"", 304, "\"gzip\""),
            ("gzip", "\"identity\"", 304, "\"identity\""),
            ("gzip", "\"zstd\"", 200, "\"identity\""),
            ("zstd, gzip", "W/\"gzip\"", 304, "\"gzip\""),
            ("br", "\"gzip\"", 200, "\"identity\""),
            ("gzip", "*", 304, "\"identity\""),
        ] {
            let mut request = headers(&[encoding]);
            request.insert(IF_NONE_MATCH, HeaderValue::from_static(held));
            let (response, _) = respond(&body, &request);
            assert_eq!(
                (response.status().as_u16(), &response.headers()[ETAG]),
                (status, &HeaderValue::from_static(sent))
            );
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

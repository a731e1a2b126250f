//! One finished form of a page, a document or a file: its bytes in each content coding that was made. It is answered with
//! 200 or 304.

use std::convert::Infallible;
use std::iter;
use std::sync::Arc;

use axum::body::Body;
use axum::response::Response;
use axum::routing::{MethodRouter, get};
use bytes::Bytes;
use futures_util::stream;
use http::header::{ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, ETAG, IF_NONE_MATCH, VARY};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use parking_lot::Mutex;

use super::coding::{Coding, VARY_CODING, accepted};
use super::etag::is_named;
use super::site::assets::short_hash;

/// For what only changes with the version or the settings of Handbill.
pub(super) const CACHE_ONE_HOUR: HeaderValue = HeaderValue::from_static("public, max-age=3600");

/// Bodies below this size, in bytes, are not compressed: they fit into one packet with their header in any case.
const MIN_COMPRESSED_BYTES: usize = 256;

/// Bytes that a body takes in addition to its own: its place among the others, and what the allocator adds.
const BODY_BYTES: usize = 128;

/// The bodies of one form, as far as they were made: each with its bytes, or with nothing if it is not worth sending.
#[derive(Default)]
pub(super) struct Bodies(Mutex<Vec<(Coding, Option<Bytes>)>>);

/// The description of a body.
pub(super) trait Described {
    fn content_type(&self) -> HeaderValue;

    /// The header fields of the 200 and the 304, without the entity tag and those that describe the body.
    fn fields(&self) -> HeaderMap;

    /// The entity tag of the body in `coding`.
    fn tag(&self, coding: Coding) -> HeaderValue;
}

impl Bodies {
    /// Adds the body without a coding. Returns how many bytes it takes.
    pub(super) fn add(&self, bytes: Bytes) -> usize {
        let taken = BODY_BYTES + bytes.len();
        let mut made = self.0.lock();
        // Another request may have made it.
        if made.iter().any(|(coding, _)| *coding == Coding::Identity) {
            return 0;
        }
        made.reserve_exact(1);
        made.push((Coding::Identity, Some(bytes)));
        taken
    }

    /// The response to a request with these headers: 304 if the client holds a form that it accepts, or else the preferred
    /// body among those that were made; `None` if it accepts none of these. Also returns a coding that the client prefers
    /// and that can be made.
    pub(super) fn respond_to(
        &self,
        request: &HeaderMap,
        described: &impl Described,
    ) -> (Option<Response>, Option<Coding>) {
        let made = self.0.lock();
        let body = |coding| made.iter().find(|(other, _)| *other == coding).map(|(_, bytes)| bytes.as_ref());
        let is_compressible = made.iter().all(|(coding, bytes)| {
            *coding != Coding::Identity || bytes.as_ref().is_some_and(|bytes| bytes.len() >= MIN_COMPRESSED_BYTES)
        });
        let (mut selected, mut missing) = (Coding::Identity, None);
        if is_compressible && request.contains_key(ACCEPT_ENCODING) {
            for coding in accepted(request) {
                match body(coding) {
                    Some(Some(_)) => {
                        selected = coding;
                        break;
                    }
                    Some(None) => {}
                    None => missing = missing.or(Some(coding)),
                }
            }
        }
        if let Some(unchanged) = unchanged(request, is_compressible, described, selected) {
            // A client that holds the page does not need another form of it.
            return (Some(unchanged), None);
        }
        let missing = missing.filter(|_| body(Coding::Identity).is_some());
        let Some(bytes) = body(selected).flatten().cloned() else { return (None, missing) };
        drop(made);
        let mut response = Response::new(Body::from(bytes));
        let headers = response.headers_mut();
        *headers = described.fields();
        headers.insert(ETAG, described.tag(selected));
        headers.insert(CONTENT_TYPE, described.content_type());
        if selected != Coding::Identity {
            headers.insert(CONTENT_ENCODING, HeaderValue::from_static(selected.name()));
        }
        (Some(response), missing)
    }

    /// Makes the body in `coding`, if it was not made yet. It takes the place of the one without a coding if `in_place` says
    /// so. Returns how many bytes are taken more, and how many less.
    pub(super) fn compress(&self, coding: Coding, in_place: bool) -> (usize, usize) {
        let identity = match &self.0.lock()[..] {
            made if made.iter().any(|(other, _)| *other == coding) => return (0, 0),
            made => made.iter().find(|(other, _)| *other == Coding::Identity).and_then(|(_, bytes)| bytes.clone()),
        };
        let Some(identity) = identity else { return (0, 0) };
        let compressed = coding.compress(&identity);
        let mut made = self.0.lock();
        let more = BODY_BYTES + compressed.as_ref().map_or(0, Bytes::len);
        let held = made.len();
        made.retain(|(other, _)| compressed.is_none() || !in_place || *other != Coding::Identity);
        let less = if made.len() < held { BODY_BYTES + identity.len() } else { 0 };
        made.push((coding, compressed));
        (more, less)
    }
}

/// The 304 to a request, if its client holds a form that it accepts, by `If-None-Match`. `*` stands for the form that would
/// be sent.
///
/// A body need not have been made: a tag of a form was given out with that form, so a client that names it holds it.
pub(super) fn unchanged(
    request: &HeaderMap,
    is_compressible: bool,
    described: &impl Described,
    sent: Coding,
) -> Option<Response> {
    if !request.contains_key(IF_NONE_MATCH) {
        return None;
    }
    let accepted = (is_compressible && request.contains_key(ACCEPT_ENCODING)).then(|| accepted(request));
    let held = iter::once(Coding::Identity)
        .chain(accepted.into_iter().flatten())
        .find(|coding| is_named(request, described.tag(*coding).as_ref()))
        .or_else(|| is_named(request, b"*").then_some(sent))?;
    // The length is left unknown on purpose. Otherwise a 304 to HEAD would have `Content-Length: 0`, although the field
    // must give the length of the 200.
    let nothing = stream::empty::<Result<Bytes, Infallible>>();
    let mut response = Response::new(Body::from_stream(nothing));
    *response.status_mut() = StatusCode::NOT_MODIFIED;
    // A cache updates its stored header fields with those of the 304 (RFC 9111 §3.2), so it has every field of the 200,
    // except those that describe the body itself.
    *response.headers_mut() = described.fields();
    response.headers_mut().insert(ETAG, described.tag(held));
    Some(response)
}

/// A document or file that only changes with the version or the settings of Handbill. Clones share the bytes.
#[derive(Clone)]
pub(super) struct Representation {
    content_type: &'static str,
    fields: HeaderMap,
    /// The entity tag without a coding, and without its quotation marks.
    tag: String,
    bodies: Arc<Bodies>,
}

impl Described for Representation {
    fn content_type(&self) -> HeaderValue {
        HeaderValue::from_static(self.content_type)
    }

    fn fields(&self) -> HeaderMap {
        self.fields.clone()
    }

    fn tag(&self, coding: Coding) -> HeaderValue {
        let tag = &self.tag;
        let tag = match coding {
            Coding::Identity => format!("\"{tag}\""),
            coding => format!("\"{tag}-{}\"", coding.name()),
        };
        HeaderValue::try_from(tag).expect("it is ASCII")
    }
}

impl Representation {
    /// It has a strong entity tag made from type and bytes, and clients may cache it for an hour.
    pub(super) fn document(content_type: &'static str, bytes: impl Into<Bytes>) -> Self {
        let bytes = bytes.into();
        let hash = short_hash([content_type.as_bytes(), &bytes]);
        Self::file(content_type, bytes, &hash)
    }

    /// As [`Self::document`], with the entity tag `tag`, which has no quotation marks.
    pub(super) fn file(content_type: &'static str, bytes: impl Into<Bytes>, tag: &str) -> Self {
        let bytes = bytes.into();
        let mut fields = HeaderMap::from_iter([(CACHE_CONTROL, CACHE_ONE_HOUR)]);
        if bytes.len() >= MIN_COMPRESSED_BYTES {
            fields.insert(VARY, VARY_CODING);
        }
        let bodies = Bodies::default();
        bodies.add(bytes);
        Self { content_type, fields, tag: tag.to_owned(), bodies: Arc::new(bodies) }
    }

    pub(super) fn with(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.fields.insert(name, value);
        self
    }

    /// The response in the coding that the client prefers among those that were made.
    pub(super) fn respond_to(&self, request: &HeaderMap) -> Response {
        self.bodies.respond_to(request, self).0.expect("the body without a coding is there")
    }

    /// The response in the coding that the client prefers. There are few documents, and each is compressed once, at the
    /// first request for it.
    pub(super) fn respond_compressed_to(&self, request: &HeaderMap) -> Response {
        if let (_, Some(missing)) = self.bodies.respond_to(request, self) {
            self.bodies.compress(missing, false);
        }
        self.respond_to(request)
    }

    pub(super) fn route<S: Clone + Send + Sync + 'static>(self) -> MethodRouter<S> {
        get(move |headers: HeaderMap| std::future::ready(self.respond_compressed_to(&headers)))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use flate2::read::GzDecoder;

    use super::*;

    fn headers(lines: &[&str]) -> HeaderMap {
        lines.iter().map(|line| (ACCEPT_ENCODING, HeaderValue::from_str(line).unwrap())).collect()
    }

    struct Text;

    impl Described for Text {
        fn content_type(&self) -> HeaderValue {
            HeaderValue::from_static("text/plain")
        }

        fn fields(&self) -> HeaderMap {
            HeaderMap::new()
        }

        fn tag(&self, coding: Coding) -> HeaderValue {
            HeaderValue::try_from(format!("\"{}\"", coding.name())).unwrap()
        }
    }

    fn of(bytes: impl Into<Bytes>) -> Bodies {
        let bodies = Bodies::default();
        bodies.add(bytes.into());
        bodies
    }

    fn body(text: &str) -> Bodies {
        of(text.to_owned())
    }

    /// The coding of the answer and its tag, and the coding to make.
    fn sent(bodies: &Bodies, lines: &[&str]) -> Option<(Option<&'static str>, Option<Coding>)> {
        let (response, missing) = bodies.respond_to(&headers(lines), &Text);
        let response = response?;
        let coding = response.headers().get(CONTENT_ENCODING).map(|value| match value.as_bytes() {
            b"gzip" => Coding::Gzip,
            _ => Coding::Zstd,
        });
        assert_eq!(response.headers()[ETAG], Text.tag(coding.unwrap_or(Coding::Identity)));
        Some((coding.map(Coding::name), missing))
    }

    #[test]
    fn each_form_is_the_same_text() {
        let text = "Some words. ".repeat(100);
        let body = body(&text);
        let form = |coding| body.0.lock().iter().find(|(other, _)| *other == coding).unwrap().1.clone().unwrap();
        for coding in [Coding::Gzip, Coding::Zstd] {
            assert_eq!(body.compress(coding, false), (BODY_BYTES + form(coding).len(), 0));
        }
        let mut unpacked = String::new();
        GzDecoder::new(&form(Coding::Gzip)[..]).read_to_string(&mut unpacked).unwrap();
        assert_eq!(unpacked, text);
        assert_eq!(zstd::bulk::decompress(&form(Coding::Zstd), text.len()).unwrap(), text.as_bytes());
        assert_eq!(body.compress(Coding::Gzip, false), (0, 0), "it is made once");
    }

    #[test]
    fn a_form_is_sent_once_it_is_made_and_until_then_the_client_gets_another() {
        let body = body(&"a".repeat(MIN_COMPRESSED_BYTES));
        let both = &["zstd, gzip"];
        assert_eq!(sent(&body, both), Some((None, Some(Coding::Zstd))));
        body.compress(Coding::Gzip, false);
        assert_eq!(sent(&body, both), Some((Some("gzip"), Some(Coding::Zstd))));
        body.compress(Coding::Zstd, false);
        assert_eq!(sent(&body, both), Some((Some("zstd"), None)));
    }

    #[test]
    fn a_compressed_form_takes_the_place_of_the_one_that_it_was_made_of_until_somebody_asks_for_that() {
        let text = "Some words. ".repeat(100);
        let body = body(&text);
        let (more, less) = body.compress(Coding::Gzip, true);
        assert!(more < less && less == BODY_BYTES + text.len(), "{more} {less}");
        // Nothing can be made of what is not there, so nobody tries.
        assert_eq!(sent(&body, &["zstd, gzip"]), Some((Some("gzip"), None)));
        assert_eq!(sent(&body, &["zstd"]), None);
        assert_eq!(sent(&body, &[]), None);
        assert_eq!(body.add(text.into()), less);
        assert_eq!(sent(&body, &[]), Some((None, None)));
        assert_eq!(sent(&body, &["zstd, gzip"]), Some((Some("gzip"), Some(Coding::Zstd))));
    }

    #[test]
    fn what_is_small_or_does_not_shrink_is_sent_as_it_is() {
        let small = body(&"a".repeat(MIN_COMPRESSED_BYTES - 1));
        assert_eq!(sent(&small, &["gzip"]), Some((None, None)));
        let random: Vec<u8> = (0..1000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13).to_le_bytes()[0]).collect();
        let dense = of(zstd::bulk::compress(&random, 19).unwrap());
        assert_eq!(dense.compress(Coding::Gzip, true), (BODY_BYTES, 0));
        assert_eq!(sent(&dense, &["gzip"]), Some((None, None)));
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
            let response = body.respond_to(&request, &Text).0.unwrap();
            assert_eq!(
                (response.status().as_u16(), &response.headers()[ETAG]),
                (status, &HeaderValue::from_static(sent))
            );
        }
    }
}

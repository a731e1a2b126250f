//! One finished form of a page, a document or a file: its bytes in each content coding, its entity tags and its header
//! fields, made once. It answers with 200 or 304.

use std::convert::Infallible;
use std::iter;
use std::sync::{Arc, OnceLock};

use axum::body::Body;
use axum::response::Response;
use axum::routing::{MethodRouter, get};
use bytes::Bytes;
use futures_util::stream;
use http::header::{ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, ETAG, IF_NONE_MATCH, VARY};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};

use super::coding::{Coding, VARY_CODING, accepted};
use super::etag::is_named;
use super::site::assets::short_hash;

/// For what only changes with the version or the settings of Handbill.
pub(super) const CACHE_ONE_HOUR: HeaderValue = HeaderValue::from_static("public, max-age=3600");

/// Bodies below this size, in bytes, are not compressed: they fit into one packet with their header in any case.
const MIN_COMPRESSED_BYTES: usize = 256;

/// Bytes that a representation takes in addition to its body: more than its header fields and tags.
const FIELDS_BYTES: usize = 2048;

/// See the module. Clones share the bytes.
#[derive(Clone)]
pub(super) struct Representation {
    content_type: HeaderValue,
    /// The header fields of the 200 and the 304, without the entity tag and those that describe the body.
    fields: HeaderMap,
    body: Arc<Codings>,
}

/// A body, its compressed forms as far as they were made, and the entity tag of each form.
struct Codings {
    identity: Bytes,
    /// In the order of [`Coding::PREFERRED`].
    tags: [HeaderValue; 3],
    gzip: OnceLock<Option<Bytes>>,
    zstd: OnceLock<Option<Bytes>>,
}

impl Representation {
    /// `bytes` as `content_type`. `fields` are the header fields of the 200 and the 304, without the entity tag. `tag`
    /// returns the entity tag for each coding.
    pub(super) fn new(
        content_type: HeaderValue,
        fields: HeaderMap,
        bytes: impl Into<Bytes>,
        tag: impl Fn(Coding) -> HeaderValue,
    ) -> Self {
        let tags = Coding::PREFERRED.map(tag);
        let body = Codings { identity: bytes.into(), tags, gzip: OnceLock::new(), zstd: OnceLock::new() };
        Self { content_type, fields, body: Arc::new(body) }
    }

    /// A document that only changes with the version or the settings of Handbill. It has a strong entity tag made from
    /// type and bytes, and clients may cache it for an hour.
    pub(super) fn document(content_type: &'static str, bytes: impl Into<Bytes>) -> Self {
        let bytes = bytes.into();
        let hash = short_hash([content_type.as_bytes(), &bytes]);
        Self::file(content_type, bytes, &hash)
    }

    /// As [`Self::document`], with the entity tag `tag`, which has no quotation marks.
    pub(super) fn file(content_type: &'static str, bytes: impl Into<Bytes>, tag: &str) -> Self {
        let tag_in = |coding| {
            let tag = match coding {
                Coding::Identity => format!("\"{tag}\""),
                coding => format!("\"{tag}-{}\"", coding.name()),
            };
            HeaderValue::try_from(tag).expect("it is ASCII")
        };
        let fields = HeaderMap::from_iter([(CACHE_CONTROL, CACHE_ONE_HOUR)]);
        let mut made = Self::new(HeaderValue::from_static(content_type), fields, bytes, tag_in);
        if made.body.is_compressible() {
            made.fields.insert(VARY, VARY_CODING);
        }
        made
    }

    pub(super) fn with(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.fields.insert(name, value);
        self
    }

    /// The same body with other header fields.
    pub(super) fn with_fields(&self, fields: HeaderMap) -> Self {
        Self { fields, ..self.clone() }
    }

    /// Bytes that this takes.
    pub(super) fn bytes(&self) -> usize {
        FIELDS_BYTES + self.body.identity.len()
    }

    /// Makes the form in `coding`, if it was not made yet. Returns how many bytes it takes.
    pub(super) fn compress(&self, coding: Coding) -> usize {
        self.body.compress(coding)
    }

    /// The response to a request with these headers: 304 if the client holds a form that it accepts, or else the
    /// preferred form among those that were made. Also returns a coding that the client prefers and that was not made.
    pub(super) fn respond_to(&self, request: &HeaderMap) -> (Response, Option<Coding>) {
        let body = &self.body;
        let (mut selected, mut missing) = (Coding::Identity, None);
        if body.is_compressible() && request.contains_key(ACCEPT_ENCODING) {
            for coding in accepted(request) {
                match body.form(coding) {
                    Some(Some(_)) => {
                        selected = coding;
                        break;
                    }
                    Some(None) => {}
                    None => missing = missing.or(Some(coding)),
                }
            }
        }
        if let Some(held) = held(request, body.is_compressible(), |coding| body.tag(coding), selected) {
            // A client that holds the page does not need another form of it.
            return (not_modified(body.tag(held).clone(), self.fields.clone()), None);
        }
        let bytes = body.form(selected).flatten().unwrap_or(&body.identity).clone();
        let mut response = Response::new(Body::from(bytes));
        let headers = response.headers_mut();
        headers.clone_from(&self.fields);
        headers.insert(ETAG, body.tag(selected).clone());
        headers.insert(CONTENT_TYPE, self.content_type.clone());
        if selected != Coding::Identity {
            headers.insert(CONTENT_ENCODING, HeaderValue::from_static(selected.name()));
        }
        (response, missing)
    }

    /// As [`Self::respond_to`], in the coding that the client prefers. This is for a document: there are few, and each is
    /// compressed once, at the first request for it.
    pub(super) fn respond_compressed_to(&self, request: &HeaderMap) -> Response {
        let (response, missing) = self.respond_to(request);
        let Some(coding) = missing else { return response };
        self.compress(coding);
        self.respond_to(request).0
    }

    pub(super) fn route<S: Clone + Send + Sync + 'static>(self) -> MethodRouter<S> {
        get(move |headers: HeaderMap| std::future::ready(self.respond_compressed_to(&headers)))
    }
}

impl Codings {
    fn is_compressible(&self) -> bool {
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

    fn compress(&self, coding: Coding) -> usize {
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
}

/// The 304 to a request for a body that was not made, if its client holds a form that it accepts. `tag` returns the entity
/// tag of each form, and `fields` the fields as for [`Representation::new`].
///
/// Such a body may have compressed forms or none. A tag of a form was given out with that form, so a client that names it
/// holds it.
pub(super) fn unchanged(
    request: &HeaderMap,
    tag: impl Fn(Coding) -> HeaderValue,
    fields: impl FnOnce() -> HeaderMap,
) -> Option<Response> {
    // The bytes as they are would be sent, because no other form was made.
    let held = held(request, true, &tag, Coding::Identity)?;
    Some(not_modified(tag(held), fields()))
}

/// The form that the client holds and accepts, by `If-None-Match`. `*` stands for the form that would be sent.
fn held<T: AsRef<[u8]>>(
    request: &HeaderMap,
    is_compressible: bool,
    tag: impl Fn(Coding) -> T,
    sent: Coding,
) -> Option<Coding> {
    if !request.contains_key(IF_NONE_MATCH) {
        return None;
    }
    let accepted = (is_compressible && request.contains_key(ACCEPT_ENCODING)).then(|| accepted(request));
    iter::once(Coding::Identity)
        .chain(accepted.into_iter().flatten())
        .find(|coding| is_named(request, tag(*coding).as_ref()))
        .or_else(|| is_named(request, b"*").then_some(sent))
}

/// A 304. A cache updates its stored header fields with those of the 304 (RFC 9111 §3.2), so `fields` has every field of
/// the 200, except those that describe the body itself.
fn not_modified(tag: HeaderValue, fields: HeaderMap) -> Response {
    // The length is left unknown on purpose. Otherwise a 304 to HEAD would have `Content-Length: 0`, although the field
    // must give the length of the 200.
    let nothing = stream::empty::<Result<Bytes, Infallible>>();
    let mut response = Response::new(Body::from_stream(nothing));
    *response.status_mut() = StatusCode::NOT_MODIFIED;
    *response.headers_mut() = fields;
    response.headers_mut().insert(ETAG, tag);
    response
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use flate2::read::GzDecoder;

    use super::*;

    fn headers(lines: &[&str]) -> HeaderMap {
        lines.iter().map(|line| (ACCEPT_ENCODING, HeaderValue::from_str(line).unwrap())).collect()
    }

    fn tag(coding: Coding) -> HeaderValue {
        HeaderValue::try_from(format!("\"{}\"", coding.name())).unwrap()
    }

    fn of(bytes: impl Into<Bytes>) -> Representation {
        Representation::new(HeaderValue::from_static("text/plain"), HeaderMap::new(), bytes, tag)
    }

    fn body(text: &str) -> Representation {
        of(text.to_owned())
    }

    #[test]
    fn each_form_is_the_same_text() {
        let text = "Some words. ".repeat(100);
        let body = body(&text);
        assert!(body.compress(Coding::Gzip) > 0 && body.compress(Coding::Zstd) > 0);
        let mut unpacked = String::new();
        GzDecoder::new(&body.body.form(Coding::Gzip).unwrap().unwrap()[..]).read_to_string(&mut unpacked).unwrap();
        assert_eq!(unpacked, text);
        let unpacked = zstd::bulk::decompress(body.body.form(Coding::Zstd).unwrap().unwrap(), text.len()).unwrap();
        assert_eq!(unpacked, text.as_bytes());
        assert_eq!(body.compress(Coding::Gzip), 0, "it is made once");
    }

    #[test]
    fn a_form_is_sent_once_it_is_made_and_until_then_the_client_gets_another() {
        let body = body(&"a".repeat(MIN_COMPRESSED_BYTES));
        let request = headers(&["zstd, gzip"]);
        let (response, missing) = body.respond_to(&request);
        assert_eq!((response.headers().get(CONTENT_ENCODING), missing), (None, Some(Coding::Zstd)));
        assert_eq!(response.headers()[ETAG], tag(Coding::Identity));
        body.compress(Coding::Gzip);
        let (response, missing) = body.respond_to(&request);
        assert_eq!(
            (&response.headers()[CONTENT_ENCODING], missing),
            (&HeaderValue::from_static("gzip"), Some(Coding::Zstd))
        );
        assert_eq!(response.headers()[ETAG], tag(Coding::Gzip));
        body.compress(Coding::Zstd);
        let (response, missing) = body.respond_to(&request);
        assert_eq!((&response.headers()[CONTENT_ENCODING], missing), (&HeaderValue::from_static("zstd"), None));
    }

    #[test]
    fn what_is_small_or_does_not_shrink_is_sent_as_it_is() {
        let small = body(&"a".repeat(MIN_COMPRESSED_BYTES - 1));
        let (response, missing) = small.respond_to(&headers(&["gzip"]));
        assert_eq!((response.headers().get(CONTENT_ENCODING), missing), (None, None));
        let random: Vec<u8> = (0..1000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13).to_le_bytes()[0]).collect();
        let dense = zstd::bulk::compress(&random, 19).unwrap();
        let dense = of([dense, random].concat());
        if dense.compress(Coding::Gzip) == 0 {
            let (response, missing) = dense.respond_to(&headers(&["gzip"]));
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
            let (response, _) = body.respond_to(&request);
            assert_eq!(
                (response.status().as_u16(), &response.headers()[ETAG]),
                (status, &HeaderValue::from_static(sent))
            );
        }
    }
}

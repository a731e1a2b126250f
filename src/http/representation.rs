//! A finished form of a page, document or file in several codings, answered with 200 or 304.

use std::convert::Infallible;
use std::sync::{Arc, OnceLock};

use axum::body::Body;
use axum::response::Response;
use axum::routing::{MethodRouter, get};
use bytes::Bytes;
use futures_util::stream;
use http::header::{CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, ETAG, IF_NONE_MATCH, VARY};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};

use super::etag::is_named;
use super::negotiation::{Coding, VARY_CODING, gzip};
use super::site::assets::short_hash;

/// For what changes only with Handbill's version or settings.
pub(super) const CACHE_ONE_HOUR: HeaderValue = HeaderValue::from_static("public, max-age=3600");

/// Smaller bodies fit into one packet anyway.
const MIN_COMPRESSED_BYTES: usize = 256;

pub(super) trait Cacheable {
    fn content_type(&self) -> HeaderValue;

    /// Of the 200 and the 304, without entity tag and body.
    fn fields(&self) -> HeaderMap;

    fn tag(&self, coding: Coding) -> HeaderValue;
}

/// Answers with 304, or with the body in the best coding of `made` that the client accepts; `None` if there is none.
/// `made` is `Some(None)` for a coding that is not worth sending. The flag says that the client prefers a coding that
/// can still be made.
pub(super) fn respond<'a>(
    request: &HeaderMap,
    described: &impl Cacheable,
    made: impl Fn(Coding) -> Option<Option<&'a Bytes>>,
) -> (Option<Response>, bool) {
    let identity = made(Coding::Identity).flatten();
    let is_compressible = identity.is_none_or(|bytes| bytes.len() >= MIN_COMPRESSED_BYTES);
    let preferred = if is_compressible { Coding::preferred(request) } else { Coding::Identity };
    let selected = made(preferred).flatten().map_or(Coding::Identity, |_| preferred);
    if let Some(unchanged) = unchanged(request, preferred, described, selected) {
        // A client that holds the page needs no other form.
        return (Some(unchanged), false);
    }
    let can_be_made = identity.is_some() && made(preferred).is_none();
    let Some(bytes) = made(selected).flatten() else { return (None, can_be_made) };
    let mut response = Response::new(Body::from(bytes.clone()));
    let headers = response.headers_mut();
    *headers = described.fields();
    headers.insert(ETAG, described.tag(selected));
    headers.insert(CONTENT_TYPE, described.content_type());
    if selected != Coding::Identity {
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static(selected.name()));
    }
    (Some(response), can_be_made)
}

/// 304 by `If-None-Match`, where `*` stands for the form that would be sent.
///
/// The body need not exist: a client that names its tag holds it.
pub(super) fn unchanged(
    request: &HeaderMap,
    preferred: Coding,
    described: &impl Cacheable,
    sent: Coding,
) -> Option<Response> {
    if !request.contains_key(IF_NONE_MATCH) {
        return None;
    }
    let mut tags = [Coding::Identity, preferred].into_iter().map(|coding| described.tag(coding));
    let held = tags
        .find(|tag| is_named(request, tag.as_ref()))
        .or_else(|| is_named(request, b"*").then(|| described.tag(sent)))?;
    // No length: a 304 to HEAD would say `Content-Length: 0`, but must give the length of the 200.
    let nothing = stream::empty::<Result<Bytes, Infallible>>();
    let mut response = Response::new(Body::from_stream(nothing));
    *response.status_mut() = StatusCode::NOT_MODIFIED;
    // A cache updates its stored fields from a 304 (RFC 9111 §3.2), so all but the body's are there.
    *response.headers_mut() = described.fields();
    response.headers_mut().insert(ETAG, held);
    Some(response)
}

/// A document or file that changes only with Handbill. Clones share the bytes.
#[derive(Clone)]
pub(super) struct Representation {
    content_type: &'static str,
    fields: HeaderMap,
    /// Without coding and quotation marks.
    tag: String,
    bytes: Bytes,
    /// Made at the first request for it.
    gzip: Arc<OnceLock<Option<Bytes>>>,
}

impl Cacheable for Representation {
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
            Coding::Gzip => format!("\"{tag}-gzip\""),
        };
        HeaderValue::try_from(tag).expect("it is ASCII")
    }
}

impl Representation {
    /// The entity tag is strong, and clients may cache for an hour.
    pub(super) fn document(content_type: &'static str, bytes: impl Into<Bytes>) -> Self {
        let bytes = bytes.into();
        let tag = short_hash([content_type.as_bytes(), &bytes]);
        let mut fields = HeaderMap::from_iter([(CACHE_CONTROL, CACHE_ONE_HOUR)]);
        if bytes.len() >= MIN_COMPRESSED_BYTES {
            fields.insert(VARY, VARY_CODING);
        }
        Self { content_type, fields, tag, bytes, gzip: Arc::default() }
    }

    pub(super) fn with(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.fields.insert(name, value);
        self
    }

    /// For a single request, compressing would take longer than all else.
    pub(super) fn uncompressed(mut self) -> Self {
        self.gzip = Arc::new(OnceLock::from(None));
        self
    }

    pub(super) fn respond_to(&self, request: &HeaderMap) -> Response {
        let made = |coding: Coding| {
            Some(match coding {
                Coding::Identity => Some(&self.bytes),
                Coding::Gzip => self.gzip.get_or_init(|| gzip(&self.bytes)).as_ref(),
            })
        };
        respond(request, self, made).0.expect("the body without a coding is there")
    }

    pub(super) fn route<S: Clone + Send + Sync + 'static>(self) -> MethodRouter<S> {
        get(move |headers: HeaderMap| std::future::ready(self.respond_to(&headers)))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use flate2::read::GzDecoder;
    use http::header::ACCEPT_ENCODING;

    use super::*;

    fn headers(lines: &[&str]) -> HeaderMap {
        lines.iter().map(|line| (ACCEPT_ENCODING, HeaderValue::from_str(line).unwrap())).collect()
    }

    struct Text;

    impl Cacheable for Text {
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

    /// The forms of one text that were made.
    type Made = Vec<(Coding, Option<Bytes>)>;

    fn body(bytes: usize, others: &[(Coding, bool)]) -> Made {
        let others = others.iter().map(|(coding, is_worth_it)| (*coding, is_worth_it.then(Bytes::new)));
        std::iter::once((Coding::Identity, Some(vec![b'a'; bytes].into()))).chain(others).collect()
    }

    fn answer(made: &Made, request: &HeaderMap) -> (Option<Response>, bool) {
        let form = |coding| made.iter().find(|(other, _)| *other == coding).map(|(_, bytes)| bytes.as_ref());
        respond(request, &Text, form)
    }

    /// The coding of the answer, and whether gzip can be made.
    fn sent(made: &Made, lines: &[&str]) -> Option<(Coding, bool)> {
        let (response, can_be_made) = answer(made, &headers(lines));
        let response = response?;
        let coding = response.headers().get(CONTENT_ENCODING).map_or(Coding::Identity, |_| Coding::Gzip);
        assert_eq!(response.headers()[ETAG], Text.tag(coding));
        Some((coding, can_be_made))
    }

    #[test]
    fn a_compressed_form_is_the_same_text() {
        let text = "Some words. ".repeat(100);
        let mut unpacked = String::new();
        GzDecoder::new(&gzip(text.as_bytes()).unwrap()[..]).read_to_string(&mut unpacked).unwrap();
        assert_eq!(unpacked, text);
    }

    #[test]
    fn until_it_is_compressed_the_client_gets_the_text_as_it_is() {
        let size = MIN_COMPRESSED_BYTES;
        assert_eq!(sent(&body(size, &[]), &["gzip"]), Some((Coding::Identity, true)));
        assert_eq!(sent(&body(size, &[(Coding::Gzip, true)]), &["gzip"]), Some((Coding::Gzip, false)));
    }

    #[test]
    fn a_text_that_is_kept_only_compressed_is_only_sent_so() {
        let gzip = vec![(Coding::Gzip, Some(Bytes::new()))];
        assert_eq!(sent(&gzip, &["gzip"]), Some((Coding::Gzip, false)));
        assert_eq!(sent(&gzip, &["zstd"]), None);
        assert_eq!(sent(&gzip, &[]), None);
    }

    #[test]
    fn what_is_small_or_does_not_shrink_is_sent_as_it_is() {
        assert_eq!(sent(&body(MIN_COMPRESSED_BYTES - 1, &[]), &["gzip"]), Some((Coding::Identity, false)));
        let random: Vec<u8> = (0..1000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13).to_le_bytes()[0]).collect();
        assert_eq!(gzip(&gzip(&random.repeat(9)).unwrap()), None);
        assert_eq!(sent(&body(1000, &[(Coding::Gzip, false)]), &["gzip"]), Some((Coding::Identity, false)));
    }

    #[test]
    fn a_304_has_the_tag_of_the_form_that_the_client_holds() {
        let body = body(MIN_COMPRESSED_BYTES, &[]);
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
            let response = answer(&body, &request).0.unwrap();
            assert_eq!(
                (response.status().as_u16(), &response.headers()[ETAG]),
                (status, &HeaderValue::from_static(sent))
            );
        }
    }
}

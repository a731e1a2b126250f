//! A finished representation of a page, document or file in several codings, answered with 200 or 304.

use std::convert::Infallible;

use axum::{body::Body, response::Response};
use bytes::Bytes;
use futures_util::stream;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE, ETAG, IF_NONE_MATCH};
use http::{HeaderMap, HeaderValue, StatusCode};

use super::{etag::is_named, kept_body::KeptBody, negotiation::Coding, types::Part};

/// Smaller bodies fit into one packet anyway.
pub(super) const MIN_COMPRESSED_BYTES: usize = 256;

/// How a page is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Representation {
    Json,
    Html,
    Markdown(Source),
    /// Of the text, as JSON. It is not cached.
    Part(Part),
}

/// Where a page's Markdown is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// At `/<slug>.md`.
    OwnAddress,
    /// By `Accept`, at the address of the HTML, and with the title.
    Negotiated,
}

pub(super) trait Cacheable {
    fn content_type(&self) -> HeaderValue;

    /// Of the 200 and the 304, without entity tag and body.
    fn fields(&self) -> HeaderMap;

    fn tag(&self, coding: Coding) -> HeaderValue;
}

/// What there is of one representation in one coding.
#[derive(Clone, Copy)]
pub(super) enum Made<'a> {
    Not,
    /// Compression did not make it smaller.
    NotWorth,
    Body(&'a KeptBody),
}

impl<'a> From<Option<&'a KeptBody>> for Made<'a> {
    /// After compression.
    fn from(smaller: Option<&'a KeptBody>) -> Self {
        smaller.map_or(Self::NotWorth, Self::Body)
    }
}

pub(super) struct Finished {
    pub(super) response: Response,
    /// The client prefers a coding that was not made yet.
    pub(super) wants_coding: bool,
}

/// Answers with 304, or with the body in the best coding of `made` that the client accepts; `None` if there is none.
pub(super) fn finish<'a>(
    request: &HeaderMap,
    described: &impl Cacheable,
    made: impl Fn(Coding) -> Made<'a>,
) -> Option<Finished> {
    let identity = match made(Coding::Identity) {
        Made::Body(body) => Some(body),
        Made::Not | Made::NotWorth => None,
    };
    let is_compressible = identity.is_none_or(|body| body.len() >= MIN_COMPRESSED_BYTES);
    let preferred = if is_compressible { Coding::preferred(request) } else { Coding::Identity };
    let preferred_made = made(preferred);
    let (selected, body) = match preferred_made {
        Made::Body(body) => (preferred, Some(body)),
        Made::Not | Made::NotWorth => (Coding::Identity, identity),
    };
    if let Some(response) = unchanged(request, preferred, described, selected) {
        // A client that holds the page needs nothing else.
        return Some(Finished { response, wants_coding: false });
    }
    let mut response = Response::new(body?.body(selected));
    let headers = response.headers_mut();
    *headers = described.fields();
    headers.insert(ETAG, described.tag(selected));
    headers.insert(CONTENT_TYPE, described.content_type());
    if selected != Coding::Identity {
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static(selected.name()));
    }
    Some(Finished { response, wants_coding: matches!(preferred_made, Made::Not) })
}

/// 304 by `If-None-Match`, where `*` stands for what would be sent.
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

#[cfg(test)]
mod tests {
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

    /// What was made of one text.
    type Bodies = Vec<(Coding, Option<KeptBody>)>;

    fn body(bytes: usize, others: &[(Coding, bool)]) -> Bodies {
        let others = others.iter().map(|(coding, is_worth_it)| (*coding, is_worth_it.then(|| Bytes::new().into())));
        std::iter::once((Coding::Identity, Some(vec![b'a'; bytes].into()))).chain(others).collect()
    }

    fn answer(bodies: &Bodies, request: &HeaderMap) -> Option<Finished> {
        finish(request, &Text, |coding| {
            let body = bodies.iter().find(|(other, _)| *other == coding);
            body.map_or(Made::Not, |(_, bytes)| bytes.as_ref().into())
        })
    }

    /// The coding of the answer, and whether gzip can be made.
    fn sent(bodies: &Bodies, lines: &[&str]) -> Option<(Coding, bool)> {
        let Finished { response, wants_coding } = answer(bodies, &headers(lines))?;
        let coding = response.headers().get(CONTENT_ENCODING).map_or(Coding::Identity, |_| Coding::Gzip);
        assert_eq!(response.headers()[ETAG], Text.tag(coding));
        Some((coding, wants_coding))
    }

    #[test]
    fn until_it_is_compressed_the_client_gets_the_text_as_it_is() {
        let size = MIN_COMPRESSED_BYTES;
        assert_eq!(sent(&body(size, &[]), &["gzip"]), Some((Coding::Identity, true)));
        assert_eq!(sent(&body(size, &[(Coding::Gzip, true)]), &["gzip"]), Some((Coding::Gzip, false)));
    }

    #[test]
    fn a_text_that_is_kept_only_compressed_is_only_sent_so() {
        let gzip = vec![(Coding::Gzip, Some(Bytes::new().into()))];
        assert_eq!(sent(&gzip, &["gzip"]), Some((Coding::Gzip, false)));
        assert_eq!(sent(&gzip, &["zstd"]), None);
        assert_eq!(sent(&gzip, &[]), None);
    }

    #[test]
    fn what_is_small_or_does_not_shrink_is_sent_as_it_is() {
        assert_eq!(sent(&body(MIN_COMPRESSED_BYTES - 1, &[]), &["gzip"]), Some((Coding::Identity, false)));
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
            let response = answer(&body, &request).unwrap().response;
            assert_eq!(
                (response.status().as_u16(), &response.headers()[ETAG]),
                (status, &HeaderValue::from_static(sent))
            );
        }
    }
}

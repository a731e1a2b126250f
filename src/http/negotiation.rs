//! Content negotiation: the media types and content codings that a client accepts, and when a body is compressed.
//!
//! Only what everybody may read is compressed. If a secret, such as an edit key, and text that an attacker chose were compressed
//! together, the size of the answer would betray the secret piece by piece (the BREACH attack).

use std::sync::Arc;

use http::header::{ACCEPT, ACCEPT_ENCODING};
use http::{HeaderMap, HeaderName, HeaderValue};
use tokio::{sync::Semaphore, task};

pub(super) const VARY_CODING: HeaderValue = HeaderValue::from_static("Accept-Encoding");

pub(super) const VARY_TYPE_AND_CODING: HeaderValue = HeaderValue::from_static("Accept, Accept-Encoding");

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Coding {
    Identity,
    /// RFC 1952.
    Gzip,
}

impl Coding {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Identity => "identity",
            Self::Gzip => "gzip",
        }
    }

    /// The coding that a request prefers (RFC 9110 §12.5.3). Between codings of equal weight that is gzip.
    pub(super) fn preferred(request: &HeaderMap) -> Self {
        if !request.contains_key(ACCEPT_ENCODING) {
            return Self::Identity;
        }
        let weight = |name| weight_in(request, &ACCEPT_ENCODING, name);
        let any = weight("*");
        let gzip = weight("gzip").or_else(|| weight("x-gzip")).or(any).unwrap_or(0.0);
        let is_preferred = gzip > 0.0 && weight("identity").or(any).is_none_or(|identity| gzip >= identity);
        if is_preferred { Self::Gzip } else { Self::Identity }
    }
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

/// `None` if `Accept` does not name `wanted`, which is in lower case. A wildcard matches only itself.
pub(crate) fn weight(headers: &HeaderMap, wanted: &str) -> Option<f32> {
    weight_in(headers, &ACCEPT, wanted)
}

/// Whether `Accept` names `wanted`, with no lower weight than `other`.
pub(crate) fn prefers(headers: &HeaderMap, wanted: &str, other: &str) -> bool {
    weight(headers, wanted)
        .is_some_and(|wanted| wanted > 0.0 && weight(headers, other).is_none_or(|other| wanted >= other))
}

pub(crate) fn weight_in(headers: &HeaderMap, name: &HeaderName, wanted: &str) -> Option<f32> {
    let ranges = headers.get_all(name).iter().filter_map(|line| line.to_str().ok()).flat_map(|line| line.split(','));
    ranges.filter_map(|range| weight_of(range, wanted)).reduce(f32::max)
}

fn weight_of(range: &str, wanted: &str) -> Option<f32> {
    let (media_type, parameters) = range.split_once(';').unwrap_or((range, ""));
    media_type.trim().eq_ignore_ascii_case(wanted).then(|| quality(parameters))
}

/// Unreadable weights count as 0. Reading 16 KB of parameters takes longer than a page, so ask only for wanted members.
fn quality(parameters: &str) -> f32 {
    parameters
        .split(';')
        .filter_map(|parameter| parameter.split_once('='))
        .find(|(name, _)| name.trim().eq_ignore_ascii_case("q"))
        .map_or(1.0, |(_, value)| value.trim().parse().ok().filter(|weight: &f32| weight.is_finite()).unwrap_or(0.0))
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn gzip_is_preferred_unless_another_coding_weighs_more() {
        for (lines, coding) in [
            (&[][..], Coding::Identity),
            (&[""], Coding::Identity),
            (&["gzip, deflate, br, zstd"], Coding::Gzip),
            (&["zstd;q=0.5", "GZip;Q=0.7"], Coding::Gzip),
            (&["x-gzip"], Coding::Gzip),
            (&["gzip;q=0.5, identity"], Coding::Identity),
            (&["gzip;q=0"], Coding::Identity),
            (&["identity;q=0, gzip"], Coding::Gzip),
            (&["*;q=0"], Coding::Identity),
            (&["gzip, *;q=0"], Coding::Gzip),
            (&["*"], Coding::Gzip),
            (&["gzip;q=0.2, *;q=0.5"], Coding::Identity),
            (&["br, deflate"], Coding::Identity),
            (&["gzip;q=much"], Coding::Identity),
            (&["gzip;q=NaN"], Coding::Identity),
        ] {
            let mut all = HeaderMap::new();
            for line in lines {
                all.append(ACCEPT_ENCODING, HeaderValue::from_str(line).unwrap());
            }
            assert_eq!(Coding::preferred(&all), coding, "{lines:?}");
        }
    }

    #[tokio::test]
    async fn one_body_is_compressed_at_a_time_and_others_later() {
        let compressor = Compressor::new();
        let (release, released) = std::sync::mpsc::channel::<()>();
        compressor.begin(move || {
            let _ = released.recv();
        });
        compressor.begin(|| panic!("it does not begin while the other runs"));
        drop(release);
        let _free = compressor.0.acquire().await.unwrap();
    }

    #[test]
    fn a_type_has_the_weight_of_its_name_not_of_a_wildcard() {
        fn weighs(accept: &'static str) -> Option<String> {
            let headers = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static(accept))]);
            weight(&headers, "text/markdown").map(|weight| format!("{weight}"))
        }

        assert_eq!(weighs("text/html, Text/Markdown").as_deref(), Some("1"));
        assert_eq!(weighs("text/markdown; q=0.2, text/markdown;v=1;Q=0.5").as_deref(), Some("0.5"));
        assert_eq!(weighs("*/*, text/*"), None);
        assert_eq!(weighs("text/markdown;q=much").as_deref(), Some("0"));
        assert_eq!(weighs("text/markdown;q=NaN").as_deref(), Some("0"));
    }
}

//! What a client accepts, with weights: media types and content codings.

use http::header::ACCEPT;
use http::{HeaderMap, HeaderName};

/// `None` if `Accept` does not name `wanted`, which is in lower case. A wildcard matches only itself.
pub fn weight(headers: &HeaderMap, wanted: &str) -> Option<f32> {
    weight_in(headers, &ACCEPT, wanted)
}

/// The same in the header `name`.
pub fn weight_in(headers: &HeaderMap, name: &HeaderName, wanted: &str) -> Option<f32> {
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
    fn a_type_has_the_weight_that_it_is_named_with_and_none_by_a_wildcard() {
        let weighs = |accept: &'static str| {
            let headers = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static(accept))]);
            weight(&headers, "text/markdown").map(|weight| format!("{weight}"))
        };
        assert_eq!(weighs("text/html, Text/Markdown").as_deref(), Some("1"));
        assert_eq!(weighs("text/markdown; q=0.2, text/markdown;v=1;Q=0.5").as_deref(), Some("0.5"));
        assert_eq!(weighs("*/*, text/*"), None);
        assert_eq!(weighs("text/markdown;q=much").as_deref(), Some("0"));
        assert_eq!(weighs("text/markdown;q=NaN").as_deref(), Some("0"));
    }
}

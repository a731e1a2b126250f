//! Entity tags and conditional requests (contract, decision 8).
//!
//! A tag is `"<page version>-<updated_at>-<representation>-<content coding>-<renderer version>"`. Reads compare the
//! whole tag; changes compare only version and `updated_at`, so a client may read HTML and then update with JSON.

use std::fmt::Write;

use http::header::{IF_MATCH, IF_NONE_MATCH};
use http::{HeaderMap, HeaderName, HeaderValue};
use sha2::{Digest, Sha256};

use handbill_pages::service::{Precondition, States};
use handbill_pages::values::head::{PageState, PageVersion};
use handbill_pages::values::timestamp::UnixMillis;

/// What a page's header fields and entity tags are made of, besides its slug.
#[derive(Clone, Copy)]
pub(super) struct PageFacts {
    pub(super) state: PageState,
    pub(super) renderer_version: u16,
    /// Search engines must not index the page. This is so for each page with links to other sites, or spammers would
    /// publish such links here.
    pub(super) is_noindex: bool,
}

impl PageFacts {
    /// Spec §2.5, rule 5.
    pub(super) fn mark_noindex(&self, fields: &mut HeaderMap) {
        if self.is_noindex {
            fields.insert(HeaderName::from_static("x-robots-tag"), HeaderValue::from_static("noindex"));
        }
    }
}

const TAG_BYTES: usize = 64;

pub(super) const REVALIDATE: HeaderValue = HeaderValue::from_static("no-cache");

/// For what shows a key.
pub(super) const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");

/// A strong tag. `representation` has letters, digits and dots.
pub(super) fn entity_tag(page: &PageFacts, representation: &[&str], coding: &str) -> HeaderValue {
    let mut tag = String::with_capacity(TAG_BYTES);
    let PageState { version, updated_at } = page.state;
    let (version, updated_at, renderer) = (version.get(), updated_at.get(), page.renderer_version);
    // Appending text costs a tenth of formatting it.
    let written = write!(tag, "\"{version}-{updated_at:x}-");
    representation.iter().copied().chain(["-", coding, "-"]).for_each(|part| tag.push_str(part));
    written.and(write!(tag, "{renderer}\"")).expect("memory can be written");
    HeaderValue::try_from(tag).expect("it is ASCII")
}

/// The first 16 hexadecimal digits of a SHA-256 of `parts` and their lengths.
///
/// Enough to tell versions apart, not to resist a deliberate collision.
pub(super) fn short_hash<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> String {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update(part.len().to_le_bytes());
        hasher.update(part);
    }
    let mut first = [0; 8];
    first.copy_from_slice(&hasher.finalize()[..8]);
    format!("{:016x}", u64::from_be_bytes(first))
}

pub(super) fn is_named(headers: &HeaderMap, tag: &[u8]) -> bool {
    headers.get_all(IF_NONE_MATCH).iter().flat_map(tags).any(|(_, candidate)| candidate == tag)
}

/// `If-Match` compares strongly: a weak or foreign tag matches no page, so nothing is changed by mistake.
/// `If-None-Match` compares weakly.
pub(super) fn precondition(headers: &HeaderMap) -> Precondition {
    Precondition {
        if_match: states(headers, &IF_MATCH, |weak| !weak, || States::OneOf(Vec::new())),
        if_none_match: states(headers, &IF_NONE_MATCH, |_| true, || States::Any),
    }
}

/// Most states in one header. A client holds a page in one or two. A head has room for 2300, which would take four times
/// as much while the body arrives.
const MAX_STATES: usize = 64;

/// `None` without the header. `counts` decides by a tag's weakness whether it is used. Beyond [`MAX_STATES`],
/// `too_many` lets nothing be changed.
fn states(
    headers: &HeaderMap,
    name: &HeaderName,
    counts: fn(bool) -> bool,
    too_many: fn() -> States,
) -> Option<States> {
    let mut named = Vec::new();
    for (weak, tag) in headers.get_all(name).iter().flat_map(tags) {
        if tag == b"*" {
            return Some(States::Any);
        }
        named.extend(parse_state(tag).filter(|_| counts(weak)));
        if named.len() > MAX_STATES {
            return Some(too_many());
        }
    }
    headers.contains_key(name).then_some(States::OneOf(named))
}

/// The entity tags of a line, each with whether it is weak. A foreign tag with a comma is split, and matches nothing.
fn tags(line: &HeaderValue) -> impl Iterator<Item = (bool, &[u8])> {
    line.as_bytes().split(|&byte| byte == b',').map(<[u8]>::trim_ascii).map(|tag| match tag.strip_prefix(b"W/") {
        Some(opaque) if opaque.starts_with(b"\"") => (true, opaque),
        _ => (false, tag),
    })
}

/// Version in decimal, time in unsigned hexadecimal.
fn format_state(state: PageState) -> String {
    format!("{}-{:x}", state.version.get(), state.updated_at.get())
}

fn parse_state(tag: &[u8]) -> Option<PageState> {
    let tag = std::str::from_utf8(tag).ok()?.strip_prefix('"')?.strip_suffix('"')?;
    let mut parts = tag.splitn(3, '-');
    let (version, updated_at, _representation) = (parts.next()?, parts.next()?, parts.next()?);
    let millis = u64::from_str_radix(updated_at, 16).ok()?.cast_signed();
    let page_version = PageVersion::try_from(version.parse::<u64>().ok()?).ok()?;
    let state = PageState { version: page_version, updated_at: UnixMillis::new(millis) };
    // Rust also parses `+1` and `01`.
    (format_state(state) == format!("{version}-{updated_at}")).then_some(state)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn required(lines: &[&'static str]) -> Precondition {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(IF_MATCH, HeaderValue::from_static(line));
        }
        precondition(&headers)
    }

    fn one_of(states: &[(u64, i64)]) -> States {
        let states = states.iter().map(|&(version, millis)| PageState {
            version: version.try_into().unwrap(),
            updated_at: UnixMillis::new(millis),
        });
        States::OneOf(states.collect())
    }

    #[test]
    fn a_state_is_read_as_it_is_written_before_1970_too() {
        for millis in [i64::MIN, -1, 0, 1, i64::MAX] {
            let state = PageState { version: PageVersion::FIRST, updated_at: UnixMillis::new(millis) };
            let tag = format!("\"{}-json.ab-identity-1\"", format_state(state));
            assert_eq!(parse_state(tag.as_bytes()), Some(state), "{tag}");
        }
    }

    #[test]
    fn a_weak_or_unknown_tag_matches_nothing() {
        for unknown in [
            r#"W/"3-ff-json-identity-1""#,
            r#""abc""#,
            "3-ff-json-identity-1",
            "",
            "W/*",
            r#""-ff-json-1""#,
            r#""3--json-1""#,
            r#""3-ff""#,
            r#""3-FF-json-1""#,
            r#""3-0ff-json-1""#,
            r#""+3-ff-json-1""#,
            r#""3-ffffffffffffffffff-json-1""#,
        ] {
            assert_eq!(required(&[unknown]).if_match, Some(one_of(&[])), "{unknown}");
        }
    }

    #[test]
    fn a_list_of_more_than_64_states_changes_nothing() {
        fn listed(name: HeaderName, states: usize) -> Precondition {
            let list = vec![r#""3-ff-json-identity-1""#; states].join(",");
            precondition(&HeaderMap::from_iter([(name, HeaderValue::try_from(list).unwrap())]))
        }

        assert_eq!(listed(IF_MATCH, 64).if_match, Some(one_of(&[(3, 255); 64])));
        assert_eq!(listed(IF_MATCH, 65).if_match, Some(one_of(&[])));
        assert_eq!(listed(IF_NONE_MATCH, 64).if_none_match, Some(one_of(&[(3, 255); 64])));
        assert_eq!(listed(IF_NONE_MATCH, 65).if_none_match, Some(States::Any));
    }
}

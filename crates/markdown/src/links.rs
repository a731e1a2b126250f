//! Which addresses a page may have: the URL standard's parser decides, not a list of bad addresses.

use std::sync::LazyLock;

use percent_encoding::percent_decode_str;
use url::Url;

/// No page is ever served there.
static ANY_SITE: LazyLock<Url> = LazyLock::new(|| Url::parse("https://site.invalid/").expect("a constant address"));

/// Bytes. The sanitiser takes time in the square of a value's length (`sanitize::divided`).
pub(super) const MAX_VALUE_BYTES: usize = 8 * 1024;

/// Host names, in letters (RFC 1035 counts bytes).
const MAX_NAME: usize = 253;
const MAX_LABEL: usize = 63;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LinkAddress {
    pub(super) href: String,
    pub(super) origin: Option<String>,
}

/// For `[text](written)`: `https`, `http`, `mailto`, `#fragment` or a same-site `/path`.
pub(super) fn link(written: &str) -> Option<LinkAddress> {
    if !has_possible_host(written) {
        return None;
    }
    match Url::parse(written) {
        Ok(url) if matches!(url.scheme(), "http" | "https") && is_wanted(&url) => {
            Some(LinkAddress { origin: Some(url.origin().ascii_serialization()), href: url.into() })
        }
        Ok(url) if url.scheme() == "mailto" => Some(LinkAddress { href: url.into(), origin: None }),
        Err(url::ParseError::RelativeUrlWithoutBase) => same_site(written),
        Ok(_) | Err(_) => None,
    }
}

pub(super) fn email(written: &str) -> Option<LinkAddress> {
    link(&format!("mailto:{written}"))
}

pub(super) fn bare(written: &str) -> Option<LinkAddress> {
    link(written).filter(|address| address.origin.is_some())
}

pub(super) fn image(written: &str) -> Option<String> {
    has_possible_host(written)
        .then(|| Url::parse(written).ok())
        .flatten()
        .filter(|url| url.scheme() == "https" && is_wanted(url))
        .map(String::from)
}

/// Rejects long values and long host names before the parser sees them.
fn has_possible_host(written: &str) -> bool {
    if written.len() > MAX_VALUE_BYTES {
        return false;
    }
    if is_short_enough(written) {
        return true;
    }
    // The URL standard's parser drops these anywhere.
    let written = written.replace(['\t', '\n', '\r'], "");
    let address = written.trim_start_matches(|c: char| c <= ' ');
    let rest = match address.split_once(':') {
        Some((scheme, _)) if scheme.eq_ignore_ascii_case("mailto") => return true,
        Some((scheme, rest)) if scheme.bytes().all(|byte| byte.is_ascii_alphanumeric()) => rest,
        _ if address.chars().take(2).all(is_slash) && address.len() > 1 => address,
        _ => return true,
    };
    let authority = rest.trim_start_matches(is_slash).split(|c| is_slash(c) || matches!(c, '?' | '#')).next();
    let host = authority.and_then(|authority| authority.rsplit('@').next()).unwrap_or_default();
    let (name, port) = host.rsplit_once(':').unwrap_or((host, ""));
    is_short_enough(if port.bytes().all(|byte| byte.is_ascii_digit()) { name } else { host })
}

/// In ASCII a host takes more letters.
fn is_wanted(url: &Url) -> bool {
    !has_credentials(url) && url.host_str().is_none_or(is_short_enough)
}

/// `https://bank.example@evil.example` leads to `evil.example`.
fn has_credentials(url: &Url) -> bool {
    !url.username().is_empty() || url.password().is_some_and(|password| !password.is_empty())
}

fn same_site(written: &str) -> Option<LinkAddress> {
    // The URL standard's parser drops these at both ends.
    let first = written.trim_start_matches(|c: char| c <= ' ').chars().next()?;
    let url = ANY_SITE.join(written).ok()?;
    let href = match first {
        '#' => format!("#{}", url.fragment().unwrap_or_default()),
        // `//host`, `/\host` and `/<tab>/host` name another host.
        '/' if url.origin() == ANY_SITE.origin() && !has_credentials(&url) => {
            url[url::Position::BeforePath..].to_owned()
        }
        _ => return None,
    };
    // `/.//host` resolves to `//host`, which would name a host.
    (!href.starts_with("//")).then_some(LinkAddress { href, origin: None })
}

fn is_slash(c: char) -> bool {
    matches!(c, '/' | '\\')
}

fn is_longer(text: &str, most: usize) -> bool {
    text.chars().nth(most).is_some()
}

/// Whether `text`, perhaps percent-encoded, may be a host name. Decoders take time in the square of a label's length.
pub fn is_short_enough(text: &str) -> bool {
    if text.len() <= MAX_LABEL {
        return true;
    }
    let name = percent_decode_str(text).decode_utf8_lossy();
    let mut labels = name.split(['.', '\u{3002}', '\u{ff0e}', '\u{ff61}']);
    !is_longer(name.trim_end_matches('.'), MAX_NAME) && labels.all(|label| !is_longer(label, MAX_LABEL))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The parser takes time in the square of a label's length.
    #[test]
    fn an_address_whose_host_is_longer_than_any_is_none() {
        let beginnings =
            ["https://", "HTTP:\\\\", "https:", "https:/", " h\ttps://", "https://user@", "//", "/\\", "/\t/"];
        for before in beginnings.into_iter().chain(["ftp://", "ws://"]) {
            for (letter, after) in [("一", "/x"), ("%C3%A4", ":8080?q"), ("a", "\\x"), ("ä", "#x")] {
                let [short, long] =
                    [63, 64].map(|letters| format!("{before}{}.example{after}", letter.repeat(letters)));
                assert!(has_possible_host(&short), "{before} {letter}");
                assert!(!has_possible_host(&long), "{before} {letter}");
                assert!(link(&long).is_none() && image(&long).is_none(), "{before} {letter}");
            }
        }
        // `xn--` and what follows it take more than 63 letters.
        let scattered: String = ('\u{4e00}'..).step_by(97).take(40).collect();
        let address = format!("https://{scattered}.example/");
        assert!(has_possible_host(&address) && link(&address).is_none() && image(&address).is_none());
        let long = "a".repeat(100);
        for allowed in ["/", "#", "mailto:a@a.example?subject=", "https://a.example/:"] {
            assert!(link(&format!("{allowed}{long}")).is_some(), "{allowed}");
        }
    }

    #[test]
    fn a_label_has_63_letters_and_a_name_253_in_any_spelling() {
        for (letter, dot) in [("a", "."), ("ä", "。"), ("%C3%A4", "%2E"), ("%61", "．"), ("一", "｡")] {
            let name = |letters: usize, labels: usize| vec![letter.repeat(letters); labels].join(dot);
            assert!(is_short_enough(&name(63, 1)) && !is_short_enough(&name(64, 1)), "{letter}");
            assert!(is_short_enough(&name(1, 127)) && !is_short_enough(&name(1, 128)), "{letter}");
        }
        assert!(is_short_enough("") && is_short_enough("[2001:db8::1]") && is_short_enough("example.org."));
    }
}

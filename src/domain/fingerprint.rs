//! Recognises a text that was published before, although its markup, spacing or letters were varied.
//!
//! There are two fingerprints of a page, each a SHA-256:
//!
//! * `text:…` is made of the text that readers see, transliterated to ASCII and lower-cased, with everything but `a-z`
//!   and `0-9` left out. So markup, white space, punctuation, invisible characters, and letters that only look alike
//!   make no difference. The title does not count.
//! * `links:…` is made of the hosts that links and images lead to, in order, each once. The text and the rest of the
//!   addresses do not count.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use deunicode::deunicode_char;
use sha2::{Digest, Sha256};
use thiserror::Error;

use super::hex;
use super::html_text::visible_text;

/// A text with fewer letters and digits than this has no fingerprint, because many people write the same short texts.
pub const MIN_TEXT_CHARS: usize = 32;

/// A fingerprint of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fingerprint {
    /// A fingerprint of the text that readers see.
    Text([u8; 32]),
    /// A fingerprint of the hosts that links and images lead to.
    Links([u8; 32]),
}

/// Text that is not a fingerprint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("a fingerprint is text: or links: and 64 hexadecimal digits")]
pub struct NotAFingerprint;

impl Fingerprint {
    /// The fingerprint of the text in `html`, which the renderer wrote; `None` if the text is too short.
    pub fn of_text(html: &str) -> Option<Self> {
        let mut normal = String::with_capacity(html.len());
        for character in visible_text(html).chars() {
            let ascii = if character.is_ascii() { None } else { deunicode_char(character) };
            let mut own = [0; 4];
            let letters =
                ascii.unwrap_or_else(|| if character.is_ascii() { character.encode_utf8(&mut own) } else { "" });
            normal.extend(letters.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()));
        }
        (normal.len() >= MIN_TEXT_CHARS).then(|| Self::Text(Sha256::digest(normal).into()))
    }

    /// The fingerprint of `hosts`; `None` if there are none.
    pub fn of_links(hosts: &BTreeSet<String>) -> Option<Self> {
        let lines: String = hosts.iter().flat_map(|host| [host.as_str(), "\n"]).collect();
        (!hosts.is_empty()).then(|| Self::Links(Sha256::digest(lines).into()))
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, hash) = match self {
            Self::Text(hash) => ("text", hash),
            Self::Links(hash) => ("links", hash),
        };
        write!(f, "{kind}:")?;
        f.write_str(&hex::encode(hash))
    }
}

impl FromStr for Fingerprint {
    type Err = NotAFingerprint;

    fn from_str(text: &str) -> Result<Self, NotAFingerprint> {
        let (kind, digits) = text.split_once(':').ok_or(NotAFingerprint)?;
        let hash = hex::decode(digits).and_then(|bytes| bytes.try_into().ok()).ok_or(NotAFingerprint)?;
        match kind {
            "text" => Ok(Self::Text(hash)),
            "links" => Ok(Self::Links(hash)),
            _ => Err(NotAFingerprint),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::markdown::render;

    fn of_text(markdown: &str) -> Option<Fingerprint> {
        Fingerprint::of_text(&render(markdown).html)
    }

    const SPAM: &str = "Buy cheap watches today, the best prices in town, call us!";

    #[test]
    fn markup_spacing_case_and_letters_that_look_alike_make_no_difference() {
        let first = of_text(SPAM);
        assert!(first.is_some());
        for varied in [
            "# BUY *cheap*   watches today\n\n> the **best** prices in\n> town. CALL US",
            "Buy ch\u{200b}eap watches to\u{ad}day — the best prices in town: call us…",
            "Βuy сheap watches today, the bést prices in town, call us!".replace('Β', "B").replace('с', "c").as_str(),
            "𝐁𝐮𝐲 ⓒⓗⓔⓐⓟ watches today, the best prices in town, call us!",
        ] {
            assert_eq!(of_text(varied), first, "{varied}");
        }
        for other in [SPAM.replace("watches", "clocks"), format!("{SPAM} Now!")] {
            assert_ne!(of_text(&other), first, "{other}");
        }
    }

    #[test]
    fn a_text_in_another_script_has_a_fingerprint_of_its_own() {
        let (one, two) = ("купите дешёвые часы сегодня, лучшие цены", "купите дешёвые машины сегодня, лучшие цены");
        assert!(of_text(one).is_some() && of_text(one) != of_text(two));
    }

    #[test]
    fn a_short_text_has_no_fingerprint_because_many_people_write_it() {
        assert_eq!(of_text("Hello, world! This is a test."), None);
        assert_eq!(of_text(&"a".repeat(MIN_TEXT_CHARS - 1)), None);
        assert!(of_text(&"a".repeat(MIN_TEXT_CHARS)).is_some());
        assert_eq!(of_text("![](https://a.example/i.png)"), None);
    }

    #[test]
    fn hosts_have_one_fingerprint_in_any_order_and_number() {
        let hosts = |hosts: &[&str]| hosts.iter().map(|host| (*host).to_owned()).collect::<BTreeSet<_>>();
        let both = Fingerprint::of_links(&hosts(&["a.example", "b.example"]));
        assert_eq!(Fingerprint::of_links(&hosts(&["b.example", "a.example", "b.example"])), both);
        assert_ne!(Fingerprint::of_links(&hosts(&["a.example"])), both);
        assert_eq!(Fingerprint::of_links(&hosts(&[])), None);
    }

    #[test]
    fn a_fingerprint_is_read_as_it_is_shown() {
        for fingerprint in [of_text(SPAM).unwrap(), Fingerprint::Links([0xab; 32])] {
            assert_eq!(fingerprint.to_string().parse(), Ok(fingerprint));
        }
        let hash = "ab".repeat(32);
        for wrong in
            ["", "text:", &hash, &format!("image:{hash}"), &format!("text:{hash}0"), &format!("text:{}zz", &hash[2..])]
        {
            assert_eq!(wrong.parse::<Fingerprint>(), Err(NotAFingerprint), "{wrong}");
        }
    }
}

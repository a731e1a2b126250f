//! Recognises a text that was published before, although its markup, spacing or letters were varied.
//!
//! There are two kinds, each a SHA-256:
//!
//! * `text:…` is made of the text that readers see, in lower-case letters and digits of ASCII, of which `i`, `l` and `1`,
//!   `o` and `0`, `m` and `rn` are the same. So markup, white space, punctuation and invisible characters make no
//!   difference. The title does not count. A text with other letters is read twice: transliterated, and with each letter
//!   as what it looks like. One reading cannot see through both case and disguise, because `ν` looks like `v` and its
//!   capital like `N`.
//! * `links:…` is made of the hosts that links and images lead to, in order, each once. The text and the rest of the
//!   addresses do not count.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::str::FromStr;
use std::sync::LazyLock;

use deunicode::deunicode_char;
use sha2::{Digest, Sha256};
use thiserror::Error;
use unicode_security::skeleton;

use super::hex;
use super::html_text::visible_text;

/// A text with fewer letters and digits than this has no fingerprint, because many people write the same short texts.
pub const MIN_TEXT_CHARS: usize = 32;

/// Letters, each with the letters or digits of ASCII that it looks like, by Unicode's list of confusables (UTS 39). A small
/// letter may look like its capital, as `н` does. Beyond these planes there are only ideographs.
pub(super) static LOOKS: LazyLock<HashMap<char, String>> = LazyLock::new(|| {
    let look = |text: &str| {
        let look: String = skeleton(text).filter(|character| character.is_alphanumeric()).collect();
        (!look.is_empty() && look.is_ascii()).then_some(look)
    };
    let known = |c: char| Some((c, look(&c.to_string()).or_else(|| look(&c.to_uppercase().to_string()))?));
    ('\u{80}'..'\u{20000}').filter(|character| character.is_alphanumeric()).filter_map(known).collect()
});

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fingerprint {
    Text([u8; 32]),
    /// A fingerprint of the hosts that links and images lead to.
    Links([u8; 32]),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("a fingerprint is text: or links: and 64 hexadecimal digits")]
pub struct NotAFingerprint;

impl Fingerprint {
    /// Every fingerprint of a page with this `html`, which the renderer wrote, and which leads to `hosts`.
    pub fn of_page(html: &str, hosts: &BTreeSet<String>) -> BTreeSet<Self> {
        let text = visible_text(html);
        let by_sound = |character| deunicode_char(character).unwrap_or_default();
        let by_look = |character| LOOKS.get(&character).map_or_else(|| by_sound(character), String::as_str);
        let readings = [letters(&text, by_sound), (!text.is_ascii()).then(|| letters(&text, by_look)).flatten()];
        let texts = readings.iter().flatten().map(|letters| Self::Text(Sha256::digest(letters).into()));
        texts.chain(Self::of_links(hosts)).collect()
    }

    /// The fingerprint of `hosts`; `None` if there are none.
    fn of_links(hosts: &BTreeSet<String>) -> Option<Self> {
        let lines: String = hosts.iter().flat_map(|host| [host.as_str(), "\n"]).collect();
        (!hosts.is_empty()).then(|| Self::Links(Sha256::digest(lines).into()))
    }
}

/// The letters and digits of `text`, each as `read` spells it; `None` if they are too few.
fn letters(text: &str, read: impl Fn(char) -> &'static str) -> Option<String> {
    let spelt = text.chars().flat_map(|character| read(character).chars());
    let letters: String = spelt.filter(char::is_ascii_alphanumeric).map(|letter| letter.to_ascii_lowercase()).collect();
    let same = || letters.replace(['i', '1'], "l").replace('0', "o").replace('m', "rn");
    (letters.len() >= MIN_TEXT_CHARS).then(same)
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

    fn of_text(markdown: &str) -> BTreeSet<Fingerprint> {
        Fingerprint::of_page(&render(markdown).html, &BTreeSet::new())
    }

    /// Whether a list with the fingerprints of `one` has one of `other`.
    fn is_found(one: &str, other: &str) -> bool {
        !of_text(one).is_disjoint(&of_text(other))
    }

    const SPAM: &str = "Buy cheap watches today, the best prices in town, call us!";

    #[test]
    fn markup_spacing_punctuation_and_case_make_no_difference() {
        assert_eq!(of_text(SPAM).len(), 1);
        for varied in [
            "# BUY *cheap*   watches today\n\n> the **best** prices in\n> town. CALL US",
            "Buy ch\u{200b}eap watches to\u{ad}day — the best prices in town: call us…",
            "| Buy cheap | watches |\n|-|-|\n| today, the best | prices in town, call us |",
        ] {
            assert!(is_found(SPAM, varied), "{varied}");
        }
        for other in [SPAM.replace("watches", "clocks"), format!("{SPAM} Now!")] {
            assert!(!is_found(SPAM, &other), "{other}");
        }
    }

    #[test]
    fn letters_that_look_alike_make_no_difference() {
        for disguised in [
            // Cyrillic с; р, В and н; а small т and м, which are drawn like capitals.
            "Buy сheap watсhes today, the best priсes in town, сall us!",
            "Вuy сheaр watсhes today, the best рriсes in town, сall us!",
            "ВUY СНЕАР WАТСНЕЅ ТОDАY, ТНЕ ВЕЅТ РRІСЕЅ ІN ТОWN, САLL UЅ!",
            "вuy снeар waтcнeѕ тoday, тнe вesт рrісes іn тown, саll uѕ!",
            // Greek Β, υ, γ, ρ, α, τ and ο.
            "Βυγ cheaρ wαtches todαγ, the best ρrices in τοwn, cαll us!",
            // Accents, mathematical, circled, full-width and Roman forms.
            "Buy cheap watches today, the bést prices in town, call us!",
            "𝐁𝐮𝐲 ⓒⓗⓔⓐⓟ watches today, the ｂｅｓｔ prices in town, ⅽall us!",
            // Letters and digits of ASCII.
            "Buy cheap watches t0day, the best pr1ces ln town, caIl us!",
        ] {
            assert!(is_found(SPAM, disguised) && is_found(disguised, SPAM), "{disguised}");
        }
        assert!(is_found(&format!("{SPAM} Come in comfort!"), &format!("{SPAM} Сorne іn cοrnfort!")));
    }

    #[test]
    fn a_text_in_another_script_has_fingerprints_of_its_own_whatever_its_case() {
        let (one, two) = ("купите дешёвые часы сегодня, лучшие цены", "купите дешёвые машины сегодня, лучшие цены");
        assert!(!of_text(one).is_empty() && !is_found(one, two));
        assert!(is_found(one, &one.to_uppercase()));
        // Latin a, e and o.
        assert!(is_found(one, "купитe дeшёвыe чаcы ceгoдня, лучшиe цeны"));
    }

    #[test]
    fn a_short_text_has_no_fingerprint_because_many_people_write_it() {
        let none = BTreeSet::new();
        assert_eq!(of_text("Hello, world! This is a test."), none);
        assert_eq!(of_text(&"m".repeat(MIN_TEXT_CHARS - 1)), none);
        assert_eq!(of_text(&"ж".repeat(MIN_TEXT_CHARS / 2 - 1)), none);
        assert_eq!(of_text(&"m".repeat(MIN_TEXT_CHARS)).len(), 1);
        assert_eq!(of_text("![](https://a.example/i.png)"), none);
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
        for fingerprint in of_text(SPAM).into_iter().chain([Fingerprint::Links([0xab; 32])]) {
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

//! A slug is accepted only if it fits the grammar, and every title gives a slug that fits it.

use handbill_pages::values::slug::{MAX_WORDS_CHARS, SUFFIX_ALPHABET, SUFFIX_CHARS, Slug, SlugSuffix};
use handbill_pages::values::title::{MAX_CHARS, Title};

pub(crate) fn check(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    match Slug::parse(&text) {
        Ok(slug) => {
            assert_eq!(slug.as_str(), text);
            assert!(is_in_the_grammar(&text), "{text:?} was taken");
        }
        Err(_) => assert!(!is_in_the_grammar(&text), "{text:?} was refused"),
    }
    // The whole text is seldom short enough for a title.
    let beginning: String = text.chars().take(MAX_CHARS).collect();
    for text in [&*text, &beginning] {
        let Ok(title) = Title::parse(text) else { continue };
        assert_eq!(Title::parse(title.as_str()).as_ref(), Ok(&title), "a title is a title");
        let mut numbers = input.iter().cycle().map(|&byte| usize::from(byte));
        let suffix = SlugSuffix::random(|below| numbers.next().expect("a title has bytes") % below);
        let slug = Slug::derive(&title, suffix);
        assert!(is_in_the_grammar(slug.as_str()), "{slug} from {title:?}");
    }
}

/// Whether `text` fits the grammar. This check follows the contract (Names), not the parser.
fn is_in_the_grammar(text: &str) -> bool {
    let text = text.as_bytes();
    let Some(hyphen) = text.len().checked_sub(SUFFIX_CHARS + 1) else { return false };
    let (words, suffix) = (&text[..hyphen], &text[hyphen + 1..]);
    let plain = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || *byte == b'-';
    text[hyphen] == b'-'
        && suffix.iter().all(|byte| SUFFIX_ALPHABET.contains(byte))
        && (1..=MAX_WORDS_CHARS).contains(&words.len())
        && words.iter().all(plain)
        && !words.starts_with(b"-")
        && !words.ends_with(b"-")
        && !words.windows(2).any(|pair| pair == b"--")
}

//! Plain text on one line, for previews and names, and the characters that show nothing.

use icu_properties::props::{DefaultIgnorableCodePoint, GeneralCategory, GeneralCategoryGroup};
use icu_properties::{CodePointMapData, CodePointSetData, CodePointSetDataBorrowed};

/// In Unicode scalar values; link previews cut at about this length.
pub const MAX_CHARS: usize = 160;

/// One character more shows a word's end, and one may be a space.
const MAX_TEXT_BYTES: usize = 4 * (MAX_CHARS + 2);

/// Stands between two lines of a text that become one, unless the first ends with punctuation of its own.
const LINE_MARK: &str = " · ";

#[derive(Default)]
pub(super) struct Excerpt {
    text: String,
    is_line_over: bool,
}

impl Excerpt {
    pub(super) fn push(&mut self, text: &str) {
        if self.is_line_over && text.contains(|c: char| !c.is_whitespace() && !c.is_control()) {
            self.is_line_over = false;
            self.text.truncate(self.text.trim_end().len());
            let is_marked = !self.text.is_empty() && !self.text.ends_with(|c| ".,:;!?…—–-·。，、：；！？".contains(c));
            self.push_collapsed(if is_marked { LINE_MARK } else { " " });
        }
        self.push_collapsed(text);
    }

    /// The text goes on in a new line.
    pub(super) fn end_line(&mut self) {
        self.is_line_over = true;
    }

    pub(super) fn cut(&self) -> String {
        shorten(self.text.trim_end(), MAX_CHARS)
    }

    fn push_collapsed(&mut self, text: &str) {
        push_collapsed(&mut self.text, text, MAX_TEXT_BYTES);
    }
}

/// `excerpt` without its beginning `title`; all of it if it does not begin so.
pub fn without_title<'a>(excerpt: &'a str, title: &str) -> &'a str {
    let rest = excerpt.strip_prefix(title).unwrap_or(excerpt);
    rest.strip_prefix(LINE_MARK).unwrap_or(rest).trim_start()
}

/// Cuts after a word if possible, and adds an ellipsis.
pub fn shorten(text: &str, max_chars: usize) -> String {
    let Some((end, _)) = text.char_indices().nth(max_chars) else { return text.to_owned() };
    let cut = &text[..end];
    let at_word_end = text[end..].starts_with(' ');
    let last_space = cut.rfind(' ').filter(|&space| space > end / 2 && !at_word_end);
    let kept = &cut[..last_space.unwrap_or(end)];
    format!("{}…", kept.trim_end_matches([' ', ',', ';', ':', '…', '·']))
}

/// Puts `text` on one line, with one space for each run of white space and control characters.
pub fn collapsed(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    push_collapsed(&mut line, text, usize::MAX);
    line.truncate(line.trim_end().len());
    line
}

fn push_collapsed(line: &mut String, more: &str, max_bytes: usize) {
    for character in more.chars() {
        if line.len() > max_bytes {
            break;
        }
        if !character.is_whitespace() && !character.is_control() {
            line.push(character);
        } else if !line.is_empty() && !line.ends_with(' ') {
            line.push(' ');
        }
    }
}

/// Fonts show nothing for these.
static DEFAULT_IGNORABLE: CodePointSetDataBorrowed<'static> = CodePointSetData::new::<DefaultIgnorableCodePoint>();

/// Blank, but Unicode counts it neither as white space nor as ignorable.
const BLANK_BRAILLE: char = '\u{2800}';

/// A look into the set takes 11 ns.
const FIRST_IGNORABLE: char = '\u{ad}';

/// Whether `character` is invisible and takes no space.
pub fn is_ignorable(character: char) -> bool {
    character >= FIRST_IGNORABLE && DEFAULT_IGNORABLE.contains(character)
}

/// Whether GitHub keeps `character` in the name of a heading: a letter, mark, decimal digit or connector.
pub fn is_word(character: char) -> bool {
    const OTHERS: GeneralCategoryGroup = GeneralCategoryGroup::Mark
        .union(GeneralCategoryGroup::DecimalNumber)
        .union(GeneralCategoryGroup::ConnectorPunctuation);
    character.is_alphabetic() || OTHERS.contains(CodePointMapData::<GeneralCategory>::new().get(character))
}

pub fn shows_nothing(text: &str) -> bool {
    text.chars().all(|c| c.is_whitespace() || c == BLANK_BRAILLE || is_ignorable(c))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render;

    #[test]
    fn an_excerpt_is_the_visible_text_on_one_line() {
        let markdown = "# One\n\nt*wo* [three](/x),  \nfour\n![no](https://a.example/x)five `&lt;b>`\n\n---\n";
        assert_eq!(render(markdown).excerpt, "One · two three, four five &lt;b>");
        assert_eq!(render("---\n\n![a](https://a.example/x)").excerpt, "");
        assert_eq!(collapsed(" a \t\n b\u{a0}"), "a b");
    }

    #[test]
    fn an_excerpt_marks_where_a_line_ends_without_punctuation() {
        for (markdown, excerpt) in [
            (
                "# Pancakes\n\n- 250 g flour\n- 3 *eggs*\n\nMix. Bake!\n\nEat:  \nnow",
                "Pancakes · 250 g flour · 3 eggs · Mix. Bake! Eat: now",
            ),
            ("Roses are red\\\nViolets are blue", "Roses are red · Violets are blue"),
            ("wrapped\nlines ![x](https://a.example/x) go on", "wrapped lines go on"),
            ("---\n\n> one\n\n---\n\n# two", "one · two"),
        ] {
            assert_eq!(render(markdown).excerpt, excerpt);
        }
    }

    #[test]
    fn an_excerpt_ends_after_a_word_within_160_characters() {
        let text = render(&"word ".repeat(100)).excerpt;
        assert_eq!(text, format!("{}…", "word ".repeat(32).trim_end()));
        let exact = "é".repeat(MAX_CHARS);
        assert_eq!(render(&exact).excerpt, exact);
        assert_eq!(render(&"字".repeat(500)).excerpt.chars().count(), MAX_CHARS + 1);
    }

    #[test]
    fn an_excerpt_is_found_however_late_the_text_begins() {
        assert_eq!(render(&format!("{}late", "---\n".repeat(10_000))).excerpt, "late");
    }

    proptest::proptest! {
        #[test]
        fn an_excerpt_of_anything_is_bounded_and_on_one_line(
            markdown in "(\\PC|[<>&;\"#x/ \\n]|&amp;|\n\n|\\*){0,400}",
        ) {
            let text = render(&markdown).excerpt;
            proptest::prop_assert!(text.chars().count() <= MAX_CHARS + 1);
            proptest::prop_assert!(!text.contains(char::is_control));
            proptest::prop_assert_eq!(text.trim(), &text);
        }
    }

    #[test]
    fn no_ignorable_character_comes_before_the_first() {
        assert!(DEFAULT_IGNORABLE.contains(FIRST_IGNORABLE));
        assert!(!('\0'..FIRST_IGNORABLE).any(|character| DEFAULT_IGNORABLE.contains(character)));
    }

    #[test]
    fn white_space_ignorables_and_blank_braille_show_nothing() {
        for nothing in ["", " \t", "\u{200b}", "\u{2800}", "\u{3164}\u{115f}", "\u{ad}\u{feff}\u{e0001}\u{fe0f}"] {
            assert!(shows_nothing(nothing), "{nothing:?}");
        }
        for something in ["a", "\u{200b}a", "\u{301}", "\u{2801}", ".", "\u{fffd}"] {
            assert!(!shows_nothing(something), "{something:?}");
        }
    }
}

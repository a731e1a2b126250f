//! Translates the parser's constructs into those of the subset.

use pulldown_cmark::{Event, HeadingLevel, Tag, TagEnd};

const MAX_LANGUAGE_BYTES: usize = 32;

/// The title is the page's `h1` (contract decision 12), and the subset ends at `h4`.
pub(super) fn heading(level: HeadingLevel) -> &'static str {
    match level {
        HeadingLevel::H1 | HeadingLevel::H2 => "h2",
        HeadingLevel::H3 => "h3",
        HeadingLevel::H4 | HeadingLevel::H5 | HeadingLevel::H6 => "h4",
    }
}

/// The first word of a fence's info string, if it is a plain name of a language.
pub(super) fn language(info: &str) -> Option<&str> {
    let name = info.split(|c: char| c.is_whitespace() || c == ',').next()?;
    let plain = name.bytes().all(|b| b.is_ascii_alphanumeric() || b"+#._-".contains(&b));
    (plain && (1..=MAX_LANGUAGE_BYTES).contains(&name.len())).then_some(name)
}

pub(super) fn is_inline(event: &Event<'_>) -> bool {
    match event {
        Event::Start(tag) => matches!(
            tag,
            Tag::Emphasis
                | Tag::Strong
                | Tag::Strikethrough
                | Tag::Superscript
                | Tag::Subscript
                | Tag::Link { .. }
                | Tag::Image { .. }
        ),
        Event::End(tag) => matches!(
            tag,
            TagEnd::Emphasis
                | TagEnd::Strong
                | TagEnd::Strikethrough
                | TagEnd::Superscript
                | TagEnd::Subscript
                | TagEnd::Link
                | TagEnd::Image
        ),
        Event::Rule | Event::Html(_) => false,
        _ => true,
    }
}

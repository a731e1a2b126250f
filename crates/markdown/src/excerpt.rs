//! How a page's text begins: a short plain text for previews and names.

use super::html_text::beginning_of_visible_text;

/// Longest excerpt without its ellipsis, in Unicode scalar values; previews cut at about this length.
pub const MAX_CHARS: usize = 160;

/// An excerpt needs no more than this much of the text, in bytes. A character has at most four bytes, and one more
/// character shows whether the excerpt ends with a word; the space after it may be cut off.
const MAX_TEXT_BYTES: usize = 4 * (MAX_CHARS + 2);

/// An excerpt is made from this much of the HTML, in bytes. HTML without text in this part gets no excerpt.
const MAX_SOURCE_BYTES: usize = 16 * 1024;

/// The beginning of the visible text of HTML that the renderer wrote, as plain text on one line: at most [`MAX_CHARS`]
/// characters and an ellipsis. Empty if the first 16 KiB have no text.
pub fn excerpt_of(html: &str) -> String {
    let source = beginning(html);
    let mut text = beginning_of_visible_text(source, MAX_TEXT_BYTES);
    if source.len() < html.len() && !text.is_empty() {
        text.push('…');
    }
    shorten(&text, MAX_CHARS)
}

/// `text`, or at most its first `max_chars` characters and an ellipsis. It is cut after a word if possible.
pub fn shorten(text: &str, max_chars: usize) -> String {
    let Some((end, _)) = text.char_indices().nth(max_chars) else { return text.to_owned() };
    let cut = &text[..end];
    let at_word_end = text[end..].starts_with(' ');
    // A text without spaces is cut between characters.
    let last_space = cut.rfind(' ').filter(|&space| space > end / 2 && !at_word_end);
    let kept = &cut[..last_space.unwrap_or(end)];
    format!("{}…", kept.trim_end_matches([' ', ',', ';', ':', '…']))
}

/// The first [`MAX_SOURCE_BYTES`] of `html`, without a character or reference that the cut would split.
fn beginning(html: &str) -> &str {
    let cut = &html[..html.floor_char_boundary(MAX_SOURCE_BYTES)];
    match cut.rfind('&') {
        Some(at) if cut.len() < html.len() && !cut[at..].contains(';') => &cut[..at],
        _ => cut,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_excerpt_is_the_visible_text_on_one_line() {
        let html = "<h2>One</h2>\n<p>t<em>wo</em> <a href=\"/a>b\" rel=\"nofollow ugc\">three</a>,<br>four\n \
                    <img src=\"https://a.example/x\" alt=\"no\">five</p>\n<hr>";
        assert_eq!(excerpt_of(html), "One two three, four five");
        assert_eq!(excerpt_of("<hr>\n<p><img alt=\"a\"></p>"), "");
    }

    #[test]
    fn an_excerpt_decodes_each_reference_once() {
        assert_eq!(excerpt_of("<p>&lt;b&gt; &amp;lt; &quot;&#39;&#x1F4D3;&nbsp;x</p>"), "<b> &lt; \"'📓 x");
        assert_eq!(excerpt_of("&unknown; &#xD800; &#0; & &; &"), "&unknown; &#xD800; & &; &");
        assert_eq!(excerpt_of("<p>é&é;é</p><p open"), "é&é;é");
    }

    #[test]
    fn an_excerpt_ends_after_a_word_within_160_characters() {
        let text = excerpt_of(&format!("<p>{}</p>", "word ".repeat(100)));
        assert_eq!(text, format!("{}…", "word ".repeat(32).trim_end()));
        let exact = "é".repeat(MAX_CHARS);
        assert_eq!(excerpt_of(&exact), exact);
        assert_eq!(excerpt_of(&"字".repeat(500)).chars().count(), MAX_CHARS + 1);
    }

    #[test]
    fn an_excerpt_reads_no_more_than_the_beginning() {
        let late = format!("{}<p>late</p>", "<hr>\n".repeat(MAX_SOURCE_BYTES));
        assert_eq!(excerpt_of(&late), "");
        let cut_in_a_reference = format!("<p>early{}&amp;amp</p>", " ".repeat(MAX_SOURCE_BYTES - 10));
        assert_eq!(excerpt_of(&cut_in_a_reference), "early…");
        for shift in 0..4 {
            let cut_in_a_character = format!("{}{}", "a".repeat(shift), "📓".repeat(MAX_SOURCE_BYTES));
            assert_eq!(excerpt_of(&cut_in_a_character).chars().count(), MAX_CHARS + 1);
        }
    }

    proptest::proptest! {
        #[test]
        fn an_excerpt_is_bounded_and_on_one_line_whatever_it_is_made_from(
            html in "(\\PC|[<>&;\"#x/ \\n]|&amp;|<p>|</a>){0,400}",
        ) {
            let text = excerpt_of(&html);
            proptest::prop_assert!(text.chars().count() <= MAX_CHARS + 1);
            proptest::prop_assert!(!text.contains(char::is_control));
            proptest::prop_assert_eq!(text.trim(), &text);
        }
    }
}

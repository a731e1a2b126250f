//! A leading block of front matter, as Obsidian, Jekyll and Hugo write it (contract, decision 12).

use std::borrow::Cow;

use super::plain_text::{collapsed, shows_nothing};

const FENCE: &str = "---";

/// With both fences. A longer block is shown.
const MAX_LINES: usize = 100;

/// The part of `markdown` that its page shows. A page is never empty, so it shows front matter that is all.
pub fn without_front_matter(markdown: &str) -> &str {
    FrontMatter::of(markdown).filter(FrontMatter::is_left_out).map_or(markdown, |matter| matter.text)
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FrontMatter<'a> {
    /// On one line. May be longer than a title, or have characters that a title must not have.
    pub(super) title: Option<String>,
    pub(super) block: &'a str,
    /// What follows the block, from its first line that is not empty.
    pub(super) text: &'a str,
    lines: usize,
}

impl<'a> FrontMatter<'a> {
    /// The block at the beginning of `markdown`: `---`, lines of `key: value`, list items and indented lines, `---`. It
    /// begins with a key, so two thematic breaks are none.
    pub(super) fn of(markdown: &'a str) -> Option<Self> {
        let markdown = markdown.strip_prefix('\u{feff}').unwrap_or(markdown);
        let mut end = 0;
        let mut title = None;
        for (number, line) in markdown.split_inclusive('\n').enumerate() {
            end += line.len();
            let line = line.trim_end();
            match (number, line) {
                (0, FENCE) => {}
                (2.., FENCE) => {
                    let (block, text) = markdown.split_at(end);
                    let text = text.trim_start_matches(['\r', '\n']);
                    return Some(Self { title, block, text, lines: number + 1 });
                }
                (1.., line) => match field(line) {
                    Some(("title", value)) => title = title.or_else(|| title_in(value)),
                    Some(_) => {}
                    None if number > 1 && is_continued(line) => {}
                    None => return None,
                },
                _ => return None,
            }
        }
        None
    }

    /// Else the page shows the block, which names it all the same.
    pub(super) fn is_left_out(&self) -> bool {
        self.lines <= MAX_LINES && !self.text.trim().is_empty()
    }
}

/// A key has no space, so a sentence with a colon is none.
fn field(line: &str) -> Option<(&str, &str)> {
    let (key, value) = line.split_once(':')?;
    let is_key = key.starts_with(char::is_alphabetic)
        && key.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.'))
        && (value.is_empty() || value.starts_with([' ', '\t']));
    is_key.then(|| (key, value.trim()))
}

/// Part of the value of the key above.
fn is_continued(line: &str) -> bool {
    line == "-" || line.starts_with("- ") || (line.starts_with([' ', '\t']) && !line.trim().is_empty())
}

fn title_in(value: &str) -> Option<String> {
    let text: Cow<'_, str> = match ['"', '\''].map(|quote| value.strip_prefix(quote)?.strip_suffix(quote)) {
        [Some(text), _] => text.replace("\\\"", "\"").into(),
        [_, Some(text)] => text.replace("''", "'").into(),
        // The title is on the next lines.
        _ if value.starts_with(['>', '|']) => return None,
        _ => value.into(),
    };
    Some(collapsed(&text)).filter(|title| !shows_nothing(title))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{addresses, render};

    fn title(value: &str) -> Option<String> {
        FrontMatter::of(&format!("---\ntitle: {value}\n---\n\ntext"))?.title
    }

    #[test]
    fn front_matter_is_left_out_and_names_the_text() {
        for block in [
            "---\ntitle: My post\n---\n",
            "\u{feff}---\r\ntitle: My post\r\ndraft: true\r\n---\r\n\r\n",
            "---  \ntags:\n- a\n-\n  - b\n\tc\ntitle:   \"My post\" \ntitle: Another\ncss.class: [x]\nünder_: y\n---\n",
            &format!("---\ntitle: My post\n{}---\n", "a: b\n".repeat(MAX_LINES - 3)),
        ] {
            let rendered = render(&format!("{block}# A heading\n\nText"));
            assert_eq!(rendered.html, "<h2>A heading</h2>\n<p>Text</p>\n", "{block:?}");
            assert_eq!(rendered.title_in_text.as_deref(), Some("My post"), "{block:?}");
            assert_eq!(rendered.excerpt, "A heading · Text");
        }
        assert_eq!(render("---\ntags: a\n---\n# A heading").title_in_text.as_deref(), Some("A heading"));
    }

    #[test]
    fn any_other_block_is_what_markdown_makes_of_it() {
        for text in [
            "---\n---\n\na",
            "---\n\ntitle: b\n---\na",
            "---\ntitle: b\n\nc: d\n---\na",
            "---\ntitle: b\na",
            "---\n- b\n---\na",
            "---\n  b: c\n---\na",
            "---\nb c: d\n---\na",
            "---\nb:c\n---\na",
            "---\ntitle: b\n<p>\n---\na",
            "---\ntitle: b\n# c\n---\na",
            "----\ntitle: b\n---\na",
            " ---\ntitle: b\n---\na",
            "a\n---\ntitle: b\n---\n",
            "---\rtitle: b\r---\ra",
            &format!("---\ntitle: {}", "b".repeat(100_000)),
        ] {
            assert_eq!(FrontMatter::of(text), None, "{text:.40}");
            assert!(render(text).html.contains(['b', 'a']), "{text:.40}");
        }
    }

    #[test]
    fn a_block_of_more_than_100_lines_is_shown_and_still_names_the_text() {
        for (first, text, title) in [
            ("title: My post", "# A heading", Some("My post")),
            ("tags: a", "## A heading", Some("A heading")),
            ("tags: a", "text", None),
        ] {
            let rendered = render(&format!("---\n{first}\n{}---\n\n{text}", "a: b\n".repeat(MAX_LINES - 2)));
            assert_eq!(rendered.title_in_text.as_deref(), title, "{first}");
            assert!(rendered.html.starts_with(&format!("<hr>\n<h2>{first}\na: b")), "{first}");
        }
    }

    #[test]
    fn a_page_of_front_matter_alone_shows_it() {
        for markdown in ["---\ntitle: b\n---", "---\ntitle: b\n---\n \n\t\n"] {
            let rendered = render(markdown);
            assert_eq!(rendered.html, "<hr>\n<h2>title: b</h2>\n", "{markdown:?}");
            assert_eq!(without_front_matter(markdown), markdown);
            assert_eq!(rendered.title_in_text.as_deref(), Some("b"));
        }
        assert_eq!(render("---\ntags: b\n---").title_in_text, None);
    }

    #[test]
    fn a_title_loses_the_quotes_around_it() {
        for (value, expected) in [
            ("\"A \\\"b\\\": c\"", Some("A \"b\": c")),
            ("'It''s'", Some("It's")),
            ("\"a\" and \"b", Some("\"a\" and \"b")),
            ("a: <b> # c", Some("a: <b> # c")),
            ("''", None),
            ("\u{200b}", None),
            (">-", None),
            ("\"", Some("\"")),
        ] {
            assert_eq!(title(value).as_deref(), expected, "{value}");
        }
    }

    #[test]
    fn what_is_left_out_is_still_checked() {
        let markdown = "---\nimage: https://a.example/b\nkey: &#104;bk_\n---\n[c](https://d.example/)";
        let rendered = render(markdown);
        assert_eq!(rendered.html, "<p><a href=\"https://d.example/\" rel=\"nofollow ugc\">c</a></p>\n");
        assert_eq!(rendered.shown.addresses, ["https://d.example/", "https://a.example/b"]);
        assert_eq!(addresses(markdown), rendered.shown.addresses);
        assert!(rendered.shown.any(|text| text.contains("hbk_")));
        assert_eq!(rendered.link_origins, ["https://d.example"]);
    }

    proptest::proptest! {
        #[test]
        fn a_block_and_its_text_are_all_of_a_text(markdown in "(---\r?\n|[a-c]: [\"'>a]*\n|- \\PC\n|  \\PC\n|\\PC|\n){0,20}") {
            if let Some(matter) = FrontMatter::of(&markdown) {
                let left = matter.block.len() + matter.text.len();
                let blank = markdown[matter.block.len()..markdown.len() - matter.text.len()].trim();
                proptest::prop_assert!(left <= markdown.len() && blank.is_empty());
            }
        }
    }
}

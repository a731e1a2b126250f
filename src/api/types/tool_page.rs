//! A page as the result of an MCP tool: the JSON of REST, from which an agent may leave out the long texts (contract,
//! decision 15).

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;

use super::page_json::{PageJson, Text};
use super::page_url;
use crate::domain::origin::Origin;
use crate::domain::page::Page;

/// A page, as the tools return it.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ToolPage {
    /// The page's identifier: words of its first title and a random suffix. It never changes and is never reused.
    slug: String,
    /// The page's public address.
    #[schemars(extend("format" = "uri"))]
    url: String,
    /// The title; `null` if an update cleared it.
    title: Option<String>,
    /// The Markdown source, byte for byte as it was sent, or the part of it that was asked for.
    #[schemars(with = "String")]
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<String>,
    /// The whole content as sanitised HTML. A stranger wrote it.
    #[schemars(with = "String")]
    #[serde(skip_serializing_if = "Option::is_none")]
    content_html: Option<String>,
    /// When the page was created, in UTC with milliseconds.
    #[schemars(extend("format" = "date-time"))]
    created_at: String,
    /// When the page last changed. It equals `created_at` until the first change, and grows with each change.
    #[schemars(extend("format" = "date-time"))]
    updated_at: String,
    /// The length of the whole content in characters. It is there if a part was asked for.
    #[schemars(with = "usize")]
    #[serde(skip_serializing_if = "Option::is_none")]
    total_chars: Option<usize>,
    /// The `offset` of the next part. It is there if `content` is not the last part.
    #[schemars(with = "usize")]
    #[serde(skip_serializing_if = "Option::is_none")]
    next_offset: Option<usize>,
}

/// The long texts that a result includes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Included {
    /// Whether the result has `content`.
    pub content: bool,
    /// Whether the result has `content_html`.
    pub html: bool,
    /// The part of the content, if not all of it.
    pub part: Option<Part>,
}

impl Included {
    /// All texts.
    pub const ALL: Self = Self { content: true, html: true, part: None };
}

/// A part of a page's content, in Unicode scalar values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The number of characters before the part.
    pub offset: usize,
    /// The largest number of characters in the part.
    pub max_chars: usize,
}

impl Part {
    /// The byte offsets of the part in `text`, and the number of characters in `text`.
    fn within(self, text: &str) -> (usize, usize, usize) {
        let starts = || text.char_indices().map(|(at, _)| at);
        let at = |chars: usize| starts().nth(chars).unwrap_or(text.len());
        (at(self.offset), at(self.offset.saturating_add(self.max_chars)), starts().count())
    }
}

impl ToolPage {
    /// `page` as JSON that is written while it is sent. Its addresses begin with `base_url`.
    pub fn json(page: Arc<Page>, base_url: &Origin, included: Included) -> PageJson {
        let mut source = Text::whole_source(&page);
        let (mut total_chars, mut next_offset) = (None, None);
        if let Some(part) = included.part {
            let (start, end, total) = part.within(page.content.as_str());
            source = Text::Source { start, end };
            total_chars = Some(total);
            next_offset = (end < page.content.as_str().len()).then(|| part.offset.saturating_add(part.max_chars));
        }
        let members = Self {
            slug: page.slug.to_string(),
            url: page_url(&page.slug, base_url),
            title: page.title.as_ref().map(|title| title.as_str().to_owned()),
            content: included.content.then(String::new),
            content_html: included.html.then(String::new),
            created_at: page.created_at.to_string(),
            updated_at: page.updated_at.to_string(),
            total_chars,
            next_offset,
        };
        let texts = [included.content.then_some(source), included.html.then_some(Text::Html)];
        PageJson::new(page, &members, texts.into_iter().flatten())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_counted_in_characters_and_never_reaches_beyond_the_text() {
        let part = |offset, max_chars| Part { offset, max_chars }.within("aéb");
        assert_eq!(part(0, 1), (0, 1, 3));
        assert_eq!(part(1, 1), (1, 3, 3));
        assert_eq!(part(1, 9), (1, 4, 3));
        assert_eq!(part(3, 1), (4, 4, 3));
        assert_eq!(part(usize::MAX, usize::MAX), (4, 4, 3));
    }
}

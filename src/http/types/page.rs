//! The JSON of a page, for REST and MCP, where an agent may leave out long texts (contract, decision 15).

use schemars::JsonSchema;
use serde::Serialize;
use utoipa::ToSchema;

use super::page_url;
use handbill_pages::values::origin::Origin;
use handbill_pages::values::page::Page;

// The first description is REST's, the second MCP's.
/// A page as reads and updates return it: the JSON that clients rely on, whatever the domain keeps.
#[derive(Debug, Serialize, ToSchema, JsonSchema)]
#[schema(as = Page)]
pub struct PageBody {
    /// The page's identifier: words of its first title and a random suffix. It never changes and is never reused.
    #[schema(example = "hello-world-7k2m9xqz")]
    slug: String,
    /// The page's public address.
    #[schema(format = "uri", example = "https://pages.example/hello-world-7k2m9xqz")]
    #[schemars(extend("format" = "uri"))]
    url: String,
    /// The title; `null` if an update cleared it.
    #[schema(required = true, example = "Hello, world")]
    title: Option<String>,
    /// The Markdown source, byte for byte as it was sent.
    #[schema(value_type = String, required = true, example = "A *first* page.")]
    #[schemars(
        with = "String",
        description = "The Markdown source, byte for byte as it was sent, or the part of it that was asked for."
    )]
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<String>,
    /// The content as sanitised HTML. A stranger wrote it.
    #[schema(value_type = String, required = true, example = "<p>A <em>first</em> page.</p>\n")]
    #[schemars(with = "String", description = "The whole content as sanitised HTML. A stranger wrote it.")]
    #[serde(skip_serializing_if = "Option::is_none")]
    content_html: Option<String>,
    /// When the page was created, in UTC with milliseconds.
    #[schema(format = "date-time", example = "2026-11-21T04:30:00.123Z")]
    #[schemars(extend("format" = "date-time"))]
    created_at: String,
    /// When the page last changed. It equals `created_at` until the first change, and grows with each change.
    #[schema(format = "date-time", example = "2026-11-21T04:30:00.123Z")]
    #[schemars(extend("format" = "date-time"))]
    updated_at: String,
    /// The length of the whole content in characters. It is there if a part was asked for.
    #[schema(ignore)]
    #[schemars(with = "usize")]
    #[serde(skip_serializing_if = "Option::is_none")]
    total_chars: Option<usize>,
    /// The `offset` of the next part. It is there if `content` is not the last part.
    #[schema(ignore)]
    #[schemars(with = "usize")]
    #[serde(skip_serializing_if = "Option::is_none")]
    next_offset: Option<usize>,
}

/// The long texts that a result includes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Included {
    pub content: bool,
    pub html: bool,
    /// `None` for all of the content.
    pub part: Option<Part>,
}

impl Included {
    pub const ALL: Self = Self { content: true, html: true, part: None };
}

/// In Unicode scalar values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    pub offset: usize,
    pub max_chars: usize,
}

impl Part {
    /// Byte offsets of the part, and the characters of all `text`.
    fn within(self, text: &str) -> (usize, usize, usize) {
        let starts = || text.char_indices().map(|(at, _)| at);
        let at = |chars: usize| starts().nth(chars).unwrap_or(text.len());
        (at(self.offset), at(self.offset.saturating_add(self.max_chars)), starts().count())
    }
}

impl PageBody {
    pub fn of(page: &Page, base_url: &Origin, included: Included) -> Self {
        let Page { head, text } = page;
        let mut content = text.content.as_str();
        let (mut total_chars, mut next_offset) = (None, None);
        if let Some(part) = included.part {
            let (start, end, total) = part.within(content);
            total_chars = Some(total);
            next_offset = (end < content.len()).then(|| part.offset.saturating_add(part.max_chars));
            content = &content[start..end];
        }
        Self {
            slug: head.slug.to_string(),
            url: page_url(&head.slug, base_url),
            title: head.title.as_ref().map(|title| title.as_str().to_owned()),
            content: included.content.then(|| content.to_owned()),
            content_html: included.html.then(|| text.html.as_str().to_owned()),
            created_at: head.created_at.to_string(),
            updated_at: head.updated_at.to_string(),
            total_chars,
            next_offset,
        }
    }

    pub fn json(page: &Page, base_url: &Origin) -> Vec<u8> {
        serde_json::to_vec(&Self::of(page, base_url, Included::ALL)).expect("strings and numbers serialise")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_counted_in_characters_and_ends_with_the_text() {
        let part = |offset, max_chars| Part { offset, max_chars }.within("aéb");
        assert_eq!(part(0, 1), (0, 1, 3));
        assert_eq!(part(1, 1), (1, 3, 3));
        assert_eq!(part(1, 9), (1, 4, 3));
        assert_eq!(part(3, 1), (4, 4, 3));
        assert_eq!(part(usize::MAX, usize::MAX), (4, 4, 3));
    }
}

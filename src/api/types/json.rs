//! A page as JSON that is written while it is sent. A response holds the texts that it sends and one chunk of JSON, never
//! the full JSON. A response without the HTML holds a copy of its part of the source, so that a client who asks for a part
//! and reads it slowly does not keep the whole page in memory.
//!
//! It is kept although the send budget bounds answers. Written whole, the answer of a tool has 2 to 13 times the bytes of
//! its texts (1.2 MB where they have 0.6 MB, measured), would be there before it is charged, and takes as long to escape
//! at once as 75 chunks do.
//!
//! Serde writes the page without its two long texts. The texts are escaped in their places, chunk by chunk, so that no
//! single poll occupies a thread of the runtime for long.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use serde::Serialize;

use handbill_core::domain::page::Page;

/// Size of one chunk, in bytes. Escaping one chunk takes about 20 µs; most pages fit into one.
const CHUNK_BYTES: usize = 16 * 1024;

/// The JSON of a page, of which the long texts are not written yet.
pub struct JsonParts {
    texts: Texts,
    /// The JSON before each text, and the text that follows it.
    before_texts: Vec<(String, Text)>,
    /// The JSON after the last text.
    end: String,
}

#[derive(Clone)]
enum Texts {
    Page(Arc<Page>),
    Source(Bytes),
}

/// One of the two long texts of a page.
#[derive(Clone, Copy)]
pub(super) enum Text {
    /// The bytes of the source from `start` to before `end`.
    Source {
        start: usize,
        end: usize,
    },
    Html,
}

impl Text {
    pub(super) fn whole_source(page: &Page) -> Self {
        Self::Source { start: 0, end: page.text.content.as_str().len() }
    }

    fn of(self, texts: &Texts) -> &[u8] {
        match (self, texts) {
            (_, Texts::Source(part)) => part,
            (Self::Source { start, end }, Texts::Page(page)) => &page.text.content.as_str().as_bytes()[start..end],
            (Self::Html, Texts::Page(page)) => page.text.html.as_bytes(),
        }
    }

    /// The end of the JSON before the text.
    fn member(self) -> &'static str {
        match self {
            Self::Source { .. } => r#","content":""#,
            Self::Html => r#","content_html":""#,
        }
    }
}

/// How many times a text is escaped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nesting {
    Json,
    /// Twice: the page is JSON inside a JSON string, without the quotes around it.
    JsonInString,
}

impl JsonParts {
    /// Inserts `texts` of `page` into `members`. `members` must have an empty member for each text, after another member
    /// and in the same order.
    pub(super) fn new(page: Arc<Page>, members: &impl Serialize, texts: impl IntoIterator<Item = Text>) -> Self {
        let mut end = serde_json::to_string(members).expect("it is made of strings and numbers");
        let texts: Vec<Text> = texts.into_iter().collect();
        let held = match texts[..] {
            [Text::Source { start, end }] => {
                Texts::Source(Bytes::copy_from_slice(&page.text.content.as_str().as_bytes()[start..end]))
            }
            [] => Texts::Source(Bytes::new()),
            _ => Texts::Page(page),
        };
        let mut before_texts = Vec::new();
        for text in texts {
            // Inside a string each quote is escaped, so this can only match a member.
            let at = end.find(text.member()).expect("the members include it") + text.member().len();
            let after = end.split_off(at);
            before_texts.push((std::mem::replace(&mut end, after), text));
        }
        Self { texts: held, before_texts, end }
    }

    /// The whole JSON at once, for a page that is small.
    pub fn to_bytes(&self, nesting: Nesting) -> Bytes {
        let mut body = StreamedJson::default();
        body.push_page(self, nesting);
        let mut bytes = Vec::with_capacity(usize::try_from(body.left).unwrap_or_default());
        while let Some(chunk) = body.chunk() {
            bytes.extend_from_slice(&chunk);
        }
        bytes.into()
    }

    pub fn into_body(self) -> StreamedJson {
        let mut body = StreamedJson::default();
        body.push_page(&self, Nesting::Json);
        body
    }
}

/// JSON that contains pages and is written while it is sent. Its length is known from the start.
#[derive(Default)]
pub struct StreamedJson {
    pieces: VecDeque<Piece>,
    /// How many bytes of the first piece were written. For a text, these are bytes before escaping.
    done: usize,
    /// How many bytes remain to be written.
    left: u64,
}

enum Piece {
    Written(Bytes),
    Text { texts: Texts, text: Text, nesting: Nesting },
}

impl StreamedJson {
    /// Appends `bytes` unchanged.
    pub fn push(&mut self, bytes: impl Into<Bytes>) {
        let bytes = bytes.into();
        self.left += bytes.len() as u64;
        self.pieces.push_back(Piece::Written(bytes));
    }

    pub fn push_page(&mut self, json: &JsonParts, nesting: Nesting) {
        let nested = |part: &str| match nesting {
            Nesting::Json => part.as_bytes().to_vec(),
            Nesting::JsonInString => {
                let mut escaped = Vec::with_capacity(2 * part.len());
                Nesting::Json.escape(part.as_bytes(), usize::MAX, &mut escaped);
                escaped
            }
        };
        for (before, text) in &json.before_texts {
            self.push(nested(before));
            self.left += nesting.length(text.of(&json.texts));
            self.pieces.push_back(Piece::Text { texts: json.texts.clone(), text: *text, nesting });
        }
        self.push(nested(&json.end));
    }

    /// The next chunk; `None` at the end.
    fn chunk(&mut self) -> Option<Bytes> {
        let most = CHUNK_BYTES + LONGEST_ESCAPE;
        let mut chunk = Vec::with_capacity(usize::try_from(self.left).map_or(most, |left| left.min(most)));
        while chunk.len() < CHUNK_BYTES
            && let Some(piece) = self.pieces.front()
        {
            let whole = match piece {
                Piece::Written(bytes) => {
                    let end = bytes.len().min(self.done + CHUNK_BYTES - chunk.len());
                    chunk.extend_from_slice(&bytes[self.done..end]);
                    self.done = end;
                    bytes.len()
                }
                Piece::Text { texts, text, nesting } => {
                    let text = text.of(texts);
                    self.done += nesting.escape(&text[self.done..], CHUNK_BYTES, &mut chunk);
                    text.len()
                }
            };
            if self.done == whole {
                self.pieces.pop_front();
                self.done = 0;
            }
        }
        self.left -= chunk.len() as u64;
        (!chunk.is_empty()).then(|| chunk.into())
    }
}

impl Body for StreamedJson {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.chunk().map(|chunk| Ok(Frame::data(chunk))))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

/// Longest escape of one byte, in bytes: `\\u0000`.
const LONGEST_ESCAPE: usize = 7;

/// How many bytes of a text are counted at once. Their escapes add at most 6 bytes each, so that the sum fits into a
/// byte and the compiler can count many bytes in one instruction.
const COUNTED_AT_ONCE: usize = 32;

/// How many bytes escaping adds to each byte, once and twice. Escaping needs it for one byte after the other, and then a
/// table is quicker than to calculate it.
const ADDED: [[u8; 256]; 2] = {
    let mut added = [[0; 256]; 2];
    let mut byte = 0;
    loop {
        added[0][byte as usize] = Nesting::Json.added(byte);
        added[1][byte as usize] = Nesting::JsonInString.added(byte);
        if byte == u8::MAX {
            break added;
        }
        byte += 1;
    }
};

impl Nesting {
    /// How many bytes escaping adds to `byte`. It has no branches, so that the compiler can do this for many bytes at
    /// once.
    const fn added(self, byte: u8) -> u8 {
        let is_control = (byte < 0x20) as u8;
        // `\b`, `\t`, `\n`, `\f` and `\r` are 8 to 13, without 11.
        let is_named = (byte.wrapping_sub(8) <= 5) as u8 & (byte != 11) as u8;
        let is_quoted = (byte == b'"') as u8 | (byte == b'\\') as u8;
        match self {
            Self::Json => 5 * is_control - 4 * is_named + is_quoted,
            Self::JsonInString => 6 * is_control - 4 * is_named + 3 * is_quoted,
        }
    }

    /// The length of `text` after escaping, in bytes.
    fn length(self, text: &[u8]) -> u64 {
        let added = |bytes: &[u8]| u64::from(bytes.iter().map(|&byte| self.added(byte)).sum::<u8>());
        let (chunks, rest) = text.as_chunks::<COUNTED_AT_ONCE>();
        text.len() as u64 + chunks.iter().map(|chunk| added(chunk)).sum::<u64>() + added(rest)
    }

    /// Appends escaped bytes of `text` to `out` until `out` has `limit` bytes or slightly more. Returns how many bytes of
    /// `text` were used.
    fn escape(self, text: &[u8], limit: usize, out: &mut Vec<u8>) -> usize {
        let added = match self {
            Self::Json => &ADDED[0],
            Self::JsonInString => &ADDED[1],
        };
        let mut done = 0;
        while done < text.len() && out.len() < limit {
            let window = &text[done..text.len().min(done.saturating_add(limit - out.len()))];
            let plain = window.iter().position(|&byte| added[usize::from(byte)] != 0).unwrap_or(window.len());
            out.extend_from_slice(&window[..plain]);
            done += plain;
            if let Some(&byte) = window.get(plain) {
                self.push_escape(byte, out);
                done += 1;
            }
        }
        done
    }

    /// Appends the escape sequence of `byte`, which must be a byte that needs escaping.
    fn push_escape(self, byte: u8, out: &mut Vec<u8>) {
        let hex = |digit: u8| b"0123456789abcdef"[usize::from(digit)];
        let once: &[u8] = match byte {
            b'\x08' => b"\\b",
            b'\t' => b"\\t",
            b'\n' => b"\\n",
            b'\x0c' => b"\\f",
            b'\r' => b"\\r",
            b'"' => b"\\\"",
            b'\\' => b"\\\\",
            _ => &[b'\\', b'u', b'0', b'0', hex(byte >> 4), hex(byte & 0xf)],
        };
        match self {
            Self::Json => out.extend_from_slice(once),
            Self::JsonInString => {
                for &byte in once {
                    if matches!(byte, b'"' | b'\\') {
                        out.push(b'\\');
                    }
                    out.push(byte);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;
    use proptest::prelude::*;

    use super::*;
    use crate::api::types::{Included, PageBody};
    use handbill_core::domain::content::Content;
    use handbill_core::domain::edit_key::EditKey;
    use handbill_core::domain::markdown::Rendered;
    use handbill_core::domain::origin::Origin;
    use handbill_core::domain::page::{HeadChanges, PageHead};
    use handbill_core::domain::slug::Slug;
    use handbill_core::domain::timestamp::UnixMillis;
    use handbill_core::domain::title::Title;

    fn page(title: &str, content: &str, html: &str) -> Arc<Page> {
        let (slug, first) = (Slug::parse("a-page-22222222").unwrap(), Title::parse("A page").unwrap());
        let head = PageHead::first(slug, first, EditKey::random(|_| 0).hash(), UnixMillis::new(1));
        let head = head.updated(HeadChanges { title: Some(Title::parse(title).ok()) }, UnixMillis::new(2));
        let rendered = Rendered { html: html.to_owned(), renderer_version: 1, ..Rendered::default() };
        Arc::new(Page::new(head, Content::parse(content.to_owned()).unwrap(), rendered))
    }

    fn base_url() -> Origin {
        Origin::parse("https://pages.example").unwrap()
    }

    /// The bytes that are sent, and the length of the longest frame.
    fn sent(mut body: StreamedJson) -> (Vec<u8>, usize) {
        let promised = body.size_hint().exact().unwrap();
        let (mut bytes, mut longest) = (Vec::new(), 0);
        while let Some(frame) = futures_util::FutureExt::now_or_never(body.frame()).unwrap() {
            let data = frame.unwrap().into_data().unwrap();
            longest = longest.max(data.len());
            bytes.extend(data);
            assert_eq!(body.size_hint().exact(), Some(promised - bytes.len() as u64));
        }
        assert!(body.is_end_stream());
        (bytes, longest)
    }

    fn assert_as_serde(page: &Arc<Page>) {
        let without_html = Included { html: false, ..Included::ALL };
        for included in [Included::ALL, without_html] {
            let streamed = PageBody::json(Arc::clone(page), &base_url(), included);
            let (mut whole, _) = PageBody::without_texts(page, &base_url(), included);
            whole.content = Some(page.text.content.as_str().to_owned());
            whole.content_html = included.html.then(|| page.text.html.clone());
            let json = serde_json::to_string(&whole).unwrap();
            let in_string = serde_json::to_string(&json).unwrap();
            let mut nested = StreamedJson::default();
            nested.push_page(&streamed, Nesting::JsonInString);
            assert_eq!(String::from_utf8(sent(streamed.into_body()).0).unwrap(), json);
            assert_eq!(String::from_utf8(sent(nested).0).unwrap(), in_string[1..in_string.len() - 1]);
        }
    }

    #[test]
    fn every_character_of_ascii_is_written_as_serde_writes_it() {
        let all: String = (0..=127_u8).map(char::from).collect();
        assert_as_serde(&page("T", &all, &all));
    }

    #[test]
    fn no_piece_is_longer_than_a_chunk_and_one_escape_however_long_the_page() {
        for text in ["\u{1}", "\"", "a", "ü", "\\n\n"] {
            let text = text.repeat(102_400 / text.len());
            let page = page("T", &text, &text);
            assert_as_serde(&page);
            let (_, longest) = sent(PageBody::json(page, &base_url(), Included::ALL).into_body());
            assert!(longest < CHUNK_BYTES + LONGEST_ESCAPE, "{longest}");
        }
    }

    #[test]
    fn a_response_without_the_html_holds_a_part_of_the_source_and_not_the_page() {
        let page = page("T", &"a".repeat(102_400), &"b".repeat(600_000));
        let part = Some(crate::api::types::Part { offset: 100, max_chars: 30_000 });
        for (included, holders) in [
            (Included { html: false, part, ..Included::ALL }, 1),
            (Included { html: false, ..Included::ALL }, 1),
            (Included { html: false, content: false, part: None }, 1),
            (Included { part, ..Included::ALL }, 2),
        ] {
            let json = PageBody::json(Arc::clone(&page), &base_url(), included);
            assert_eq!(Arc::strong_count(&page), holders, "{included:?}");
            drop(json);
        }
    }

    #[test]
    fn a_title_that_looks_like_a_member_is_no_member() {
        assert_as_serde(&page(r#"","content":"","content_html":""#, "source", "html"));
        assert_as_serde(&page("content", "source", "html"));
    }

    proptest! {
        #[test]
        fn any_page_is_written_as_serde_writes_it(
            title in "\\PC{1,50}", content in "(?s).{1,200}", html in "(?s).{0,200}", times in 1..300_usize,
        ) {
            assert_as_serde(&page(&title, &content, &html.repeat(times)));
        }
    }
}

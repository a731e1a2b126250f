//! The first barrier: writes the subset's elements as HTML, and everything else as text (spec §2.5).

use std::{mem, ops::Range};

use pulldown_cmark::{CodeBlockKind, Event, HeadingLevel, LinkType, Tag, TagEnd};

use super::facts::{Facts, FirstHeading};
use super::{html::HtmlWriter, links, source::restored, tables, text_run::TextRun};

const MAX_LANGUAGE_BYTES: usize = 32;

pub(super) struct Filtered {
    pub(super) html: String,
    pub(super) facts: Facts,
    pub(super) title_in_text: Option<String>,
    /// The parser reads no Markdown in a block of raw HTML.
    pub(super) has_html_block: bool,
}

/// Accepts any events, even if starts and ends do not match. The HTML has at most `max_bytes`, unless the text alone
/// has more.
pub(super) fn filter<'a>(
    source: &str,
    events: impl Iterator<Item = (Event<'a>, Range<usize>)>,
    max_bytes: usize,
) -> Filtered {
    let mut filter = Filter {
        source,
        may_have_tables: source.contains('|'),
        out: HtmlWriter::new(max_bytes, source),
        open: Vec::new(),
        alt: None,
        images: 0,
        links: 0,
        quotes: 0,
        lines: Lines::Paragraph,
        line_begins: true,
        run: TextRun::default(),
        table: None,
        first_heading: FirstHeading::default(),
        has_html_block: false,
    };
    for (event, range) in events {
        filter.event(event, &range);
    }
    filter.end_table(None);
    filter.end_run();
    while !filter.open.is_empty() {
        filter.end();
    }
    let (html, facts) = filter.out.finish();
    Filtered { html, facts, title_in_text: filter.first_heading.into_text(), has_html_block: filter.has_html_block }
}

enum Open {
    Inline(&'static str),
    Block(&'static str),
    CodeBlock,
    Link,
    Image(Option<String>),
    FlatLink,
    FlatInline,
    FlatBlock,
}

#[derive(PartialEq, Eq)]
enum Lines {
    Paragraph,
    Heading,
    Code,
}

struct Filter<'s> {
    source: &'s str,
    may_have_tables: bool,
    out: HtmlWriter<'s>,
    open: Vec<Open>,
    alt: Option<String>,
    images: usize,
    links: usize,
    quotes: usize,
    lines: Lines,
    line_begins: bool,
    run: TextRun,
    table: Option<Range<usize>>,
    first_heading: FirstHeading,
    has_html_block: bool,
}

impl Filter<'_> {
    fn event(&mut self, event: Event<'_>, range: &Range<usize>) {
        self.first_heading.read(&event);
        let is_inline = is_inline(&event);
        if is_inline {
            let begins_line = mem::take(&mut self.line_begins);
            if self.table.is_none() && begins_line && self.has_table_at(range.start) {
                self.begin_table(range.start);
            }
            if let Some(table) = &mut self.table {
                table.end = table.end.max(range.end);
                return;
            }
        } else {
            self.end_table(Some(&event));
        }
        if let (Event::Text(text), None) = (&event, &self.alt)
            && self.lines != Lines::Code
        {
            self.run.push(text, self.source, range);
            return;
        }
        self.end_run();
        self.pass_text_before(range.start);
        self.line_begins = !is_inline || matches!(event, Event::SoftBreak | Event::HardBreak);
        match event {
            Event::Start(tag) => {
                let open = if self.images > 0 { self.start_in_image(&tag) } else { self.start(&tag, range) };
                self.open.push(open);
            }
            Event::End(tag) => {
                if matches!(tag, TagEnd::BlockQuote(_)) {
                    self.quotes = self.quotes.saturating_sub(1);
                }
                if matches!(tag, TagEnd::CodeBlock | TagEnd::Heading(_)) {
                    self.lines = Lines::Paragraph;
                }
                self.end();
            }
            Event::Code(text) if self.images == 0 => self.out.code(&text),
            Event::Code(text)
            | Event::Text(text)
            | Event::Html(text)
            | Event::InlineHtml(text)
            | Event::InlineMath(text)
            | Event::DisplayMath(text)
            | Event::FootnoteReference(text) => self.text(&text),
            Event::SoftBreak => self.text("\n"),
            Event::HardBreak => {
                if self.images == 0 {
                    self.out.line_break();
                }
                self.text("\n");
            }
            Event::Rule => self.out.rule(),
            Event::TaskListMarker(done) => self.text(if done { "[x] " } else { "[ ] " }),
        }
    }

    fn start(&mut self, tag: &Tag<'_>, range: &Range<usize>) -> Open {
        match tag {
            Tag::Paragraph => self.paragraph(range),
            Tag::HtmlBlock => {
                self.has_html_block = true;
                self.block("p")
            }
            Tag::Heading { level, .. } => self.heading(*level, range),
            Tag::BlockQuote(_) => {
                self.quotes += 1;
                if self.out.quote() { Open::Block("blockquote") } else { Open::FlatBlock }
            }
            Tag::CodeBlock(kind) => self.code_block(kind),
            Tag::List(start) => {
                let name = if start.is_some() { "ol" } else { "ul" };
                if self.out.list(name, *start) { Open::Block(name) } else { Open::FlatBlock }
            }
            // An item of a flattened list is flattened too.
            Tag::Item if matches!(self.open.last(), Some(Open::Block("ul" | "ol"))) => self.block("li"),
            Tag::Emphasis => self.inline("em"),
            Tag::Strong => self.inline("strong"),
            Tag::Strikethrough => self.inline("del"),
            Tag::Link { link_type, dest_url, .. } => self.link(*link_type, &restored(dest_url)),
            Tag::Image { dest_url, .. } => {
                self.images = 1;
                self.alt = Some(String::new());
                Open::Image(links::image(&restored(dest_url)))
            }
            Tag::Superscript | Tag::Subscript => Open::FlatInline,
            Tag::Item
            | Tag::FootnoteDefinition(_)
            | Tag::DefinitionList
            | Tag::DefinitionListTitle
            | Tag::DefinitionListDefinition
            | Tag::Table(_)
            | Tag::TableHead
            | Tag::TableRow
            | Tag::TableCell
            | Tag::MetadataBlock(_) => {
                self.out.fresh_line();
                Open::FlatBlock
            }
        }
    }

    fn start_in_image(&mut self, tag: &Tag<'_>) -> Open {
        if matches!(tag, Tag::Image { .. }) {
            self.images += 1;
            return Open::Image(None);
        }
        Open::FlatInline
    }

    fn end(&mut self) {
        match self.open.pop() {
            Some(Open::Inline(name)) => self.out.close(name),
            Some(Open::Block(name)) => self.out.close_block(name),
            Some(Open::CodeBlock) => {
                self.out.close("code");
                self.out.close_block("pre");
            }
            Some(Open::Link) => {
                self.out.close("a");
                self.links -= 1;
            }
            Some(Open::FlatLink) => self.links -= 1,
            Some(Open::Image(address)) => {
                self.images -= 1;
                if self.images == 0 {
                    let alt = self.alt.take().unwrap_or_default();
                    self.out.image(address.as_deref(), &alt);
                }
            }
            Some(Open::FlatBlock) => self.out.fresh_line(),
            Some(Open::FlatInline) | None => {}
        }
    }

    /// An image's text is written after the image.
    fn pass_text_before(&mut self, position: usize) {
        if self.images == 0 {
            self.out.text_is_past(position);
        }
    }

    fn paragraph(&mut self, range: &Range<usize>) -> Open {
        if self.has_table_at(range.start) {
            self.out.fresh_line();
            return Open::FlatBlock;
        }
        self.block("p")
    }

    fn heading(&mut self, level: HeadingLevel, range: &Range<usize>) -> Open {
        let written = self.source.get(range.clone()).unwrap_or_default();
        if written.starts_with('#') {
            self.lines = Lines::Heading;
        } else if self.may_have_tables && tables::any_begins(written, self.quotes) {
            // A rule after a table reads as the underline of a heading.
            return self.paragraph(range);
        }
        self.block(heading_name(level))
    }

    fn block(&mut self, name: &'static str) -> Open {
        if self.out.block(name) { Open::Block(name) } else { Open::FlatBlock }
    }

    fn inline(&mut self, name: &'static str) -> Open {
        if self.out.inline(name) { Open::Inline(name) } else { Open::FlatInline }
    }

    fn code_block(&mut self, kind: &CodeBlockKind<'_>) -> Open {
        self.lines = Lines::Code;
        let language = match kind {
            CodeBlockKind::Fenced(info) => language(info),
            CodeBlockKind::Indented => None,
        };
        if self.out.code_block(language) { Open::CodeBlock } else { Open::FlatBlock }
    }

    fn link(&mut self, link_type: LinkType, written: &str) -> Open {
        self.links += 1;
        let address = match link_type {
            _ if self.links > 1 => None,
            LinkType::Email => links::email(written),
            _ => links::link(written),
        };
        if address.is_some_and(|address| self.out.link(&address)) { Open::Link } else { Open::FlatLink }
    }

    fn text(&mut self, text: &str) {
        match &mut self.alt {
            Some(alt) => alt.push_str(&restored(text)),
            None => self.out.text(text),
        }
    }

    /// A link contains no links.
    fn end_run(&mut self) {
        if self.run.as_str().is_empty() {
            return;
        }
        if self.links == 0 {
            self.out.run(&self.run);
        } else {
            self.out.text(self.run.as_str());
        }
        self.run.clear();
    }

    fn has_table_at(&self, position: usize) -> bool {
        self.may_have_tables
            && self.lines == Lines::Paragraph
            && self.alt.is_none()
            && tables::begins(self.source, self.line_start(position), self.quotes)
    }

    /// The parser's positions leave out an escaping backslash.
    fn line_start(&self, position: usize) -> usize {
        let is_escaped = self.source.get(..position).is_some_and(|before| before.ends_with('\\'));
        position - usize::from(is_escaped)
    }

    fn begin_table(&mut self, position: usize) {
        self.end_run();
        self.out.trim_line_end();
        while let Some(Open::Inline(_) | Open::FlatInline | Open::Link | Open::FlatLink) = self.open.last() {
            self.end();
        }
        if let Some(Open::Block("p" | "h2" | "h3" | "h4")) = self.open.last() {
            self.end();
            self.open.push(Open::FlatBlock);
        }
        let start = self.line_start(position);
        self.table = Some(start..start);
    }

    fn end_table(&mut self, next: Option<&Event<'_>>) {
        let Some(table) = self.table.take() else { return };
        let text = &self.source[table.clone()];
        let after = &self.source[table.end..];
        // A rule or a row of `=` reads as the underline of a heading.
        let is_underlined = matches!(next, Some(Event::End(TagEnd::Heading(_))));
        let last_row = if is_underlined { tables::rows(after, self.quotes).next() } else { None };
        let last_row = last_row.filter(|row| row.starts_with('='));
        let is_open = self.out.code_block(None);
        let rows: Vec<_> = tables::rows(text, self.quotes).chain(last_row).collect();
        for row in tables::padded(&rows, |bytes| self.out.has_room(bytes)) {
            self.out.text(&row);
            self.out.text("\n");
        }
        self.open.push(if is_open { Open::CodeBlock } else { Open::FlatBlock });
        self.end();
        if is_underlined && last_row.is_none() {
            self.out.rule();
        }
    }
}

/// The title is the page's `h1` (contract decision 12), and the subset ends at `h4`.
fn heading_name(level: HeadingLevel) -> &'static str {
    match level {
        HeadingLevel::H1 | HeadingLevel::H2 => "h2",
        HeadingLevel::H3 => "h3",
        HeadingLevel::H4 | HeadingLevel::H5 | HeadingLevel::H6 => "h4",
    }
}

/// The first word of a fence's info string, if it is a plain name of a language.
fn language(info: &str) -> Option<&str> {
    let name = info.split(|c: char| c.is_whitespace() || c == ',').next()?;
    let plain = name.bytes().all(|b| b.is_ascii_alphanumeric() || b"+#._-".contains(&b));
    (plain && (1..=MAX_LANGUAGE_BYTES).contains(&name.len())).then_some(name)
}

/// Whether `event` is within a line of text.
fn is_inline(event: &Event<'_>) -> bool {
    match event {
        Event::Start(tag) => is_inline_end(tag.to_end()),
        Event::End(tag) => is_inline_end(*tag),
        Event::Rule | Event::Html(_) => false,
        _ => true,
    }
}

fn is_inline_end(tag: TagEnd) -> bool {
    use TagEnd::{Emphasis, Image, Link, Strikethrough, Strong, Subscript, Superscript};
    matches!(tag, Emphasis | Strong | Strikethrough | Superscript | Subscript | Link | Image)
}

//! The first barrier: writes the elements of the Markdown subset, and everything else as text (spec §2.5).
//!
//! An element that finds no room (see [`super::html`]) is flattened: its text stands where it would have stood.

use pulldown_cmark::{CodeBlockKind, Event, HeadingLevel, LinkType, Tag};

use super::html::HtmlWriter;
use super::links;

/// Longest name of a language in a `language-…` class, in bytes.
const MAX_LANGUAGE_BYTES: usize = 32;

/// HTML of the subset, before the sanitiser.
pub(super) struct Filtered {
    pub(super) html: String,
    /// The origins of the links that were kept: the first two that differ.
    pub(super) link_origins: Vec<String>,
}

/// Writes `events` as HTML. Any sequence of events is accepted, balanced or not.
pub(super) fn filter<'a>(events: impl Iterator<Item = Event<'a>>) -> Filtered {
    let mut filter = Filter::default();
    for event in events {
        filter.event(event);
    }
    while !filter.open.is_empty() {
        filter.end();
    }
    Filtered { html: filter.out.into_html(), link_origins: filter.link_origins }
}

/// What the end of a construct has to do.
enum Open {
    /// Close this element, which stands in a line of text.
    Inline(&'static str),
    /// Close this element and end the line.
    Block(&'static str),
    /// Close the two elements of a code block.
    CodeBlock,
    /// Close this link.
    Link,
    /// Write the image whose address this is, or its alternative text when it has none.
    Image(Option<String>),
    /// Nothing: a construct in a line of text that was flattened.
    FlatInline,
    /// End the line: a block that was flattened.
    FlatBlock,
}

#[derive(Default)]
struct Filter {
    out: HtmlWriter,
    open: Vec<Open>,
    /// The alternative text of the image that is being read; what is inside an image is only ever its text.
    alt: Option<String>,
    /// How many images the event stands in.
    images: usize,
    in_link: bool,
    link_origins: Vec<String>,
}

impl Filter {
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => {
                let open = if self.images > 0 { self.start_in_image(&tag) } else { self.start(&tag) };
                self.open.push(open);
            }
            Event::End(_) => self.end(),
            Event::Code(text) => self.inline_code(&text),
            Event::Text(text)
            | Event::Html(text)
            | Event::InlineHtml(text)
            | Event::InlineMath(text)
            | Event::DisplayMath(text)
            | Event::FootnoteReference(text) => self.text(&text),
            Event::SoftBreak => self.text("\n"),
            Event::HardBreak => {
                if self.images == 0 && self.out.has_room_for(1) {
                    self.out.void("br", &[]);
                }
                self.text("\n");
            }
            Event::Rule => {
                self.out.fresh_line();
                if self.out.has_room_for(1) {
                    self.out.void("hr", &[]);
                    self.out.fresh_line();
                }
            }
            Event::TaskListMarker(done) => self.text(if done { "[x] " } else { "[ ] " }),
        }
    }

    fn start(&mut self, tag: &Tag<'_>) -> Open {
        match tag {
            Tag::Paragraph | Tag::HtmlBlock => self.block("p"),
            Tag::Heading { level, .. } => self.block(heading(*level)),
            Tag::BlockQuote(_) => self.container("blockquote", &[], 1),
            Tag::CodeBlock(kind) => self.code_block(kind),
            Tag::List(None) => self.container("ul", &[], 2),
            Tag::List(Some(1)) => self.container("ol", &[], 2),
            Tag::List(Some(start)) => self.container("ol", &[("start", &start.to_string())], 2),
            // An item of a list that was flattened has nowhere to be.
            Tag::Item if matches!(self.open.last(), Some(Open::Block("ul" | "ol"))) => self.block("li"),
            Tag::Emphasis => self.inline("em"),
            Tag::Strong => self.inline("strong"),
            Tag::Strikethrough => self.inline("del"),
            Tag::Link { link_type, dest_url, .. } => self.link(*link_type, dest_url),
            Tag::Image { dest_url, .. } => {
                self.images = 1;
                self.alt = Some(String::new());
                Open::Image(links::image(dest_url))
            }
            // Constructs whose extension is off, so that the parser leaves them as text.
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
            Some(Open::Block(name)) => {
                if name == "p" {
                    // A block of raw HTML ends with its line.
                    self.out.trim_line_end();
                }
                self.out.close(name);
                self.out.fresh_line();
            }
            Some(Open::CodeBlock) => {
                self.out.close("code");
                self.out.close("pre");
                self.out.fresh_line();
            }
            Some(Open::Link) => {
                self.out.close("a");
                self.in_link = false;
            }
            Some(Open::Image(address)) => {
                self.images -= 1;
                if self.images == 0 {
                    let alt = self.alt.take().unwrap_or_default();
                    self.image(address, &alt);
                }
            }
            Some(Open::FlatBlock) => self.out.fresh_line(),
            Some(Open::FlatInline) | None => {}
        }
    }

    fn block(&mut self, name: &'static str) -> Open {
        self.out.fresh_line();
        if !self.out.has_room_for(1) {
            return Open::FlatBlock;
        }
        self.out.open(name, &[]);
        Open::Block(name)
    }

    fn container(&mut self, name: &'static str, attributes: &[(&str, &str)], levels: usize) -> Open {
        self.out.fresh_line();
        if !self.out.has_room_for(levels) {
            return Open::FlatBlock;
        }
        self.out.open(name, attributes);
        self.out.fresh_line();
        Open::Block(name)
    }

    fn inline(&mut self, name: &'static str) -> Open {
        if !self.out.has_room_for(1) {
            return Open::FlatInline;
        }
        self.out.open(name, &[]);
        Open::Inline(name)
    }

    fn code_block(&mut self, kind: &CodeBlockKind<'_>) -> Open {
        self.out.fresh_line();
        if !self.out.has_room_for(2) {
            return Open::FlatBlock;
        }
        self.out.open("pre", &[]);
        let language = match kind {
            CodeBlockKind::Fenced(info) => language(info),
            CodeBlockKind::Indented => None,
        };
        match language {
            Some(language) => self.out.open("code", &[("class", &format!("language-{language}"))]),
            None => self.out.open("code", &[]),
        }
        Open::CodeBlock
    }

    fn inline_code(&mut self, text: &str) {
        if self.images == 0 && self.out.has_room_for(1) {
            self.out.open("code", &[]);
            self.out.text(text);
            self.out.close("code");
        } else {
            self.text(text);
        }
    }

    fn link(&mut self, link_type: LinkType, written: &str) -> Open {
        if self.in_link || !self.out.has_room_for(1) {
            return Open::FlatInline;
        }
        let address = if link_type == LinkType::Email { links::email(written) } else { links::link(written) };
        let Some(address) = address else { return Open::FlatInline };
        if let Some(origin) = address.origin {
            let origin = origin.as_str();
            if self.link_origins.len() < 2 && self.link_origins.iter().all(|known| known != origin) {
                self.link_origins.push(origin.to_owned());
            }
        }
        self.out.open("a", &[("href", &address.href), ("rel", "nofollow ugc")]);
        self.in_link = true;
        Open::Link
    }

    fn image(&mut self, address: Option<String>, alt: &str) {
        match address {
            Some(src) if self.out.has_room_for(1) => self
                .out
                .void("img", &[("src", &src), ("alt", alt), ("loading", "lazy"), ("referrerpolicy", "no-referrer")]),
            _ => self.out.text(alt),
        }
    }

    fn text(&mut self, text: &str) {
        match &mut self.alt {
            Some(alt) => alt.push_str(text),
            None => self.out.text(text),
        }
    }
}

/// The title is the page's `h1` (contract decision 12), and the subset ends at `h4`.
fn heading(level: HeadingLevel) -> &'static str {
    match level {
        HeadingLevel::H1 | HeadingLevel::H2 => "h2",
        HeadingLevel::H3 => "h3",
        HeadingLevel::H4 | HeadingLevel::H5 | HeadingLevel::H6 => "h4",
    }
}

/// The language that a fence's info string names first, when it is a plain name.
fn language(info: &str) -> Option<&str> {
    let name = info.split(|c: char| c.is_whitespace() || c == ',').next()?;
    let plain = name.bytes().all(|b| b.is_ascii_alphanumeric() || b"+#._-".contains(&b));
    (plain && (1..=MAX_LANGUAGE_BYTES).contains(&name.len())).then_some(name)
}

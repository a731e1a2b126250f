//! Writes the elements of the subset. An element is left out if it exceeds the bounds of [`super::html`]; the caller
//! writes its text in either case.

use super::html::{Element, HtmlWriter};
use super::links::LinkAddress;
use super::text_run::TextRun;

/// A list is opened only if at least this item fits in it.
const ITEM: Element<'static> = ("li", &[]);

/// HTML of the subset under construction.
pub(super) struct ElementWriter<'s> {
    out: HtmlWriter<'s>,
    /// The origins of the links: the first two that differ.
    link_origins: Vec<String>,
}

impl<'s> ElementWriter<'s> {
    pub(super) fn new(out: HtmlWriter<'s>) -> Self {
        Self { out, link_origins: Vec::new() }
    }

    /// The HTML, and the origins of the links in it: the first two that differ.
    pub(super) fn finish(self) -> (String, Vec<String>) {
        (self.out.into_html(), self.link_origins)
    }

    /// The writer of the text and line ends around the elements.
    pub(super) fn html(&mut self) -> &mut HtmlWriter<'s> {
        &mut self.out
    }

    /// Opens an element within a line.
    pub(super) fn inline(&mut self, name: &str) -> bool {
        self.open(&[(name, &[])])
    }

    /// Opens an element that begins a line.
    pub(super) fn block(&mut self, name: &str) -> bool {
        self.out.fresh_line();
        self.open(&[(name, &[])])
    }

    pub(super) fn quote(&mut self) -> bool {
        let is_open = self.block("blockquote");
        self.out.fresh_line();
        is_open
    }

    /// Opens a list. Its items are numbered from `start`, or have no numbers.
    pub(super) fn list(&mut self, name: &str, start: Option<u64>) -> bool {
        self.out.fresh_line();
        let start = start.filter(|&start| start != 1).map(|start| start.to_string());
        let attributes: &[(&str, &str)] = match &start {
            Some(start) => &[("start", start)],
            None => &[],
        };
        let is_open = self.out.has_room_for(&[(name, attributes), ITEM]);
        if is_open {
            self.out.open((name, attributes));
            self.out.fresh_line();
        }
        is_open
    }

    pub(super) fn code_block(&mut self, language: Option<&str>) -> bool {
        self.out.fresh_line();
        let class = language.map(|language| format!("language-{language}"));
        let attributes: &[(&str, &str)] = match &class {
            Some(class) => &[("class", class)],
            None => &[],
        };
        let nested: [Element<'_>; 2] = [("pre", &[]), ("code", attributes)];
        self.open(&nested)
    }

    pub(super) fn close(&mut self, name: &str) {
        self.out.close(name);
    }

    /// Closes the innermost element, which is `name`, and ends the line.
    pub(super) fn close_block(&mut self, name: &str) {
        self.out.close(name);
        self.out.fresh_line();
    }

    pub(super) fn rule(&mut self) {
        self.out.fresh_line();
        self.void(("hr", &[]));
        self.out.fresh_line();
    }

    pub(super) fn line_break(&mut self) {
        self.void(("br", &[]));
    }

    pub(super) fn code(&mut self, text: &str) {
        let is_open = self.inline("code");
        self.out.text(text);
        if is_open {
            self.out.close("code");
        }
    }

    pub(super) fn link(&mut self, address: &LinkAddress) -> bool {
        if !self.open(&[("a", &[("href", &address.href), ("rel", "nofollow ugc")])]) {
            return false;
        }
        if let Some(origin) = &address.origin {
            let origin = origin.as_str();
            if self.link_origins.len() < 2 && self.link_origins.iter().all(|known| known != origin) {
                self.link_origins.push(origin.to_owned());
            }
        }
        true
    }

    /// Writes an image, or its alternative text if it has no address or does not fit.
    pub(super) fn image(&mut self, src: Option<&str>, alt: &str) {
        let is_written = src.is_some_and(|src| {
            self.void(("img", &[("src", src), ("alt", alt), ("loading", "lazy"), ("referrerpolicy", "no-referrer")]))
        });
        if !is_written {
            self.out.text(alt);
        }
    }

    /// Writes the text of `run` with its bare addresses as links.
    pub(super) fn run(&mut self, run: &TextRun) {
        let mut written = 0;
        while let Some((range, address)) = run.next_address(written) {
            self.out.text(&run.as_str()[written..range.start]);
            let is_link = self.link(&address);
            self.out.text(&run.as_str()[range.clone()]);
            if is_link {
                self.out.close("a");
            }
            written = range.end;
        }
        self.out.text(&run.as_str()[written..]);
    }

    fn open(&mut self, nested: &[Element<'_>]) -> bool {
        let has_room = self.out.has_room_for(nested);
        if has_room {
            for element in nested {
                self.out.open(*element);
            }
        }
        has_room
    }

    fn void(&mut self, element: Element<'_>) -> bool {
        let has_room = self.out.has_room_for(&[element]);
        if has_room {
            self.out.void(element);
        }
        has_room
    }
}

//! Writes the elements of the subset. Beyond the bounds of [`super::html`], only their text is written.

use super::html::{Element, HtmlWriter};
use super::links::{LinkAddress, MAX_VALUE_BYTES};
use super::text_run::TextRun;

const ITEM: Element<'static> = ("li", &[]);

impl HtmlWriter<'_> {
    pub(super) fn inline(&mut self, name: &str) -> bool {
        self.try_open(&[(name, &[])])
    }

    pub(super) fn block(&mut self, name: &str) -> bool {
        self.fresh_line();
        self.try_open(&[(name, &[])])
    }

    pub(super) fn quote(&mut self) -> bool {
        let is_open = self.block("blockquote");
        self.fresh_line();
        is_open
    }

    pub(super) fn list(&mut self, name: &str, start: Option<u64>) -> bool {
        self.fresh_line();
        let start = start.filter(|&start| start != 1).map(|start| start.to_string());
        let attributes = start.as_deref().map(|start| ("start", start));
        let list = (name, attributes.as_slice());
        let is_open = self.has_room_for(&[list, ITEM]);
        if is_open {
            self.open(list);
            self.fresh_line();
        }
        is_open
    }

    pub(super) fn code_block(&mut self, language: Option<&str>) -> bool {
        self.fresh_line();
        let class = language.map(|language| format!("language-{language}"));
        let attributes = class.as_deref().map(|class| ("class", class));
        self.try_open(&[("pre", &[]), ("code", attributes.as_slice())])
    }

    pub(super) fn close_block(&mut self, name: &str) {
        self.close(name);
        self.fresh_line();
    }

    pub(super) fn rule(&mut self) {
        self.fresh_line();
        self.try_void(("hr", &[]));
        self.fresh_line();
    }

    pub(super) fn line_break(&mut self) {
        self.try_void(("br", &[]));
    }

    pub(super) fn code(&mut self, text: &str) {
        let is_open = self.inline("code");
        self.text(text);
        if is_open {
            self.close("code");
        }
    }

    pub(super) fn link(&mut self, address: &LinkAddress) -> bool {
        let is_open = self.try_open(&[("a", &[("href", &address.href), ("rel", "nofollow ugc")])]);
        if is_open {
            self.facts().link(address);
        }
        is_open
    }

    /// Writes an image, or its alternative text if it has no address, is too long or does not fit.
    pub(super) fn image(&mut self, src: Option<&str>, alt: &str) {
        let attributes = |src| [("src", src), ("alt", alt), ("loading", "lazy"), ("referrerpolicy", "no-referrer")];
        let src = src.filter(|_| alt.len() <= MAX_VALUE_BYTES);
        match src.filter(|src| self.try_void(("img", &attributes(src)))) {
            Some(src) => self.facts().image(src, alt),
            None => self.text(alt),
        }
    }

    pub(super) fn run(&mut self, run: &TextRun) {
        let mut written = 0;
        while let Some((range, address)) = run.next_address(written) {
            self.text(&run.as_str()[written..range.start]);
            let is_link = self.link(&address);
            self.text(&run.as_str()[range.clone()]);
            if is_link {
                self.close("a");
            }
            written = range.end;
        }
        self.text(&run.as_str()[written..]);
    }

    fn try_open(&mut self, nested: &[Element<'_>]) -> bool {
        let has_room = self.has_room_for(nested);
        if has_room {
            for element in nested {
                self.open(*element);
            }
        }
        has_room
    }

    fn try_void(&mut self, element: Element<'_>) -> bool {
        let has_room = self.has_room_for(&[element]);
        if has_room {
            self.void(element);
        }
        has_room
    }
}

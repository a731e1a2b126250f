//! Writes the elements of the subset. Beyond the bounds of [`super::html`], only their text is written.

use super::facts::Facts;
use super::html::{Element, HtmlWriter};
use super::links::{LinkAddress, MAX_VALUE_BYTES};
use super::text_run::TextRun;

const ITEM: Element<'static> = ("li", &[]);

pub(super) struct ElementWriter<'s> {
    out: HtmlWriter<'s>,
}

impl<'s> ElementWriter<'s> {
    pub(super) fn new(out: HtmlWriter<'s>) -> Self {
        Self { out }
    }

    pub(super) fn finish(self) -> (String, Facts) {
        self.out.finish()
    }

    pub(super) fn html(&mut self) -> &mut HtmlWriter<'s> {
        &mut self.out
    }

    pub(super) fn inline(&mut self, name: &str) -> bool {
        self.open(&[(name, &[])])
    }

    pub(super) fn block(&mut self, name: &str) -> bool {
        self.out.fresh_line();
        self.open(&[(name, &[])])
    }

    pub(super) fn quote(&mut self) -> bool {
        let is_open = self.block("blockquote");
        self.out.fresh_line();
        is_open
    }

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
        let is_open = self.open(&[("a", &[("href", &address.href), ("rel", "nofollow ugc")])]);
        if is_open {
            self.out.facts().link(address);
        }
        is_open
    }

    /// Writes an image, or its alternative text if it has no address, is too long or does not fit.
    pub(super) fn image(&mut self, src: Option<&str>, alt: &str) {
        let attributes = |src| [("src", src), ("alt", alt), ("loading", "lazy"), ("referrerpolicy", "no-referrer")];
        let src = src.filter(|_| alt.len() <= MAX_VALUE_BYTES);
        match src.filter(|src| self.void(("img", &attributes(src)))) {
            Some(src) => self.out.facts().image(src, alt),
            None => self.out.text(alt),
        }
    }

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

//! Renders Markdown to the HTML of `content_html` (spec §2.5).
//!
//! ```text
//! source → source::prepare → pulldown-cmark's events → subset::filter → sanitize::clean → HTML
//! ```
//!
//! Two barriers share no code: `subset` writes only the subset's elements, and `sanitize` removes all others from its
//! output. Without bugs in the first barrier the second one changes nothing, and tests check that.
//!
//! These decisions are not in the contract:
//!
//! * Strikethrough is `<del>`. Lists keep their `start`.
//! * Titles of links and images are left out, because touch and keyboard cannot reach them.
//! * Raw HTML, including comments, is text of its paragraph.
//! * A bare address in a tag is not a link, and neither is one in the text of a link that was left out.
//! * A table has a `|` or a `:` in its second line. All lines before the next blank one are its rows, as on GitHub.
//! * After 50,000 elements, below 32 levels or beyond the bound on bytes, elements are flattened to text. So is a marker
//!   of a list or quote from column 257 on.
//! * A link or image whose address or alternative text has more than 8 KB is text.
//! * Front matter without a text below it is text.
//! * A byte order mark at the beginning is not content. U+0000 and U+FDD0 to U+FDD8 become U+FFFD, and so do references
//!   to them.

mod elements;
mod facts;
pub mod front_matter;
mod html;
pub mod language;
mod links;
pub mod plain_text;
mod sanitize;
mod source;
mod subset;
mod tables;
mod text_run;

pub use facts::Shown;
pub use links::is_short_enough;

use front_matter::{FrontMatter, without_front_matter};
use language::Language;
use source::Spared;
use subset::Filtered;

/// Grows whenever the same Markdown would give other HTML or another excerpt. Pages with a lower version are rendered
/// again when they are read.
pub const RENDERER_VERSION: u16 = 7;

/// Begins a code block. In rendered HTML, `<` only ever begins a tag.
pub const CODE_BLOCK: &str = "<pre>";

/// HTML that is safe to serve, with the facts that serving it needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rendered {
    pub html: String,
    /// The beginning of the text, on one line.
    pub excerpt: String,
    /// Byte offsets of each [`CODE_BLOCK`] in the HTML.
    pub code_blocks: Vec<u32>,
    /// The first two different origins of links: only one of them can be our own.
    pub link_origins: Vec<String>,
    pub language: Option<Language>,
    /// Names a text without a title: the title of the front matter, else the first heading.
    pub title_in_text: Option<String>,
    pub shown: Shown,
    pub renderer_version: u16,
}

/// The addresses of [`Rendered::shown`]. Makes no HTML.
pub fn addresses(markdown: &str) -> Vec<String> {
    filter(markdown).facts.shown.addresses
}

/// Never fails or panics. The HTML has at most 64 KB plus six bytes for each byte of content, and never over 4 MB. No
/// text is lost.
pub fn render(markdown: &str) -> Rendered {
    let Filtered { html, facts, title_in_text, .. } = filter(markdown);
    let mut html = sanitize::clean(&html);
    // A page keeps it.
    html.shrink_to_fit();
    Rendered {
        excerpt: facts.excerpt.cut(),
        language: Language::of(&facts.sample),
        code_blocks: html.match_indices(CODE_BLOCK).filter_map(|(at, _)| u32::try_from(at).ok()).collect(),
        html,
        link_origins: facts.link_origins,
        title_in_text,
        shown: facts.shown,
        renderer_version: RENDERER_VERSION,
    }
}

fn filter(markdown: &str) -> Filtered {
    let mut filtered = filter_text(without_front_matter(markdown));
    let Some(matter) = FrontMatter::of(markdown) else { return filtered };
    let FrontMatter { block, text, .. } = matter;
    if !matter.is_left_out() {
        // Its lines are a heading to Markdown, and to nobody else.
        filtered.title_in_text = matter.title.or_else(|| filter_text(text).title_in_text);
        return filtered;
    }
    filtered.title_in_text = matter.title.or(filtered.title_in_text);
    // The source shows it to its readers, so no check may overlook it.
    let hidden = filter_text(block).facts.shown;
    filtered.facts.shown.text.push_str(&hidden.text);
    filtered.facts.shown.addresses.extend(hidden.addresses);
    filtered
}

fn filter_text(markdown: &str) -> Filtered {
    let filtered = filter_sparing(markdown, Spared::Addresses);
    // A spared line that turns out not to be an address may hide the Markdown after it.
    if filtered.has_html_block { filter_sparing(markdown, Spared::Nothing) } else { filtered }
}

fn filter_sparing(markdown: &str, spared: Spared) -> Filtered {
    let source = source::prepare(markdown, spared);
    subset::filter(&source, source::events(&source), html::max_bytes(markdown.len()))
}

#[cfg(test)]
mod barrier_tests;
#[cfg(test)]
mod pieces;
#[cfg(test)]
mod tests;

//! Renders Markdown to the HTML of `content_html` (spec §2.5).
//!
//! ```text
//! source → source::prepare → pulldown-cmark's events → subset::filter → sanitize::clean → HTML
//! ```
//!
//! There are two barriers in a row, and they share no code. `subset` writes only elements of the subset, with addresses
//! that `links` allows, and escapes everything else. `sanitize` parses the result as a browser would and removes everything
//! that is not on its own list. Without bugs in the first barrier the second one changes nothing, and tests check that.
//! Facts about the text (`facts`, `heading`) are gathered while the first barrier writes.
//!
//! These decisions are not in the contract:
//!
//! * Strikethrough is `<del>`. Lists that do not begin at 1 keep their `start`.
//! * The titles of links and images are left out, because touch and keyboard cannot reach them.
//! * Raw HTML, including comments, is text of its paragraph: a line of raw HTML begins no block.
//! * A bare address in a tag is not a link, and neither is one in the text of a link that was left out.
//! * A table has a `|` or a `:` in its second line. All lines before the next blank one are its rows, as on GitHub.
//! * Elements after the first 50,000, below 32 levels or beyond the bound on bytes are flattened to text. A marker of a
//!   list or quote in column 257 of its line or later is text.
//! * A link or image whose address or alternative text has more than 8 KB is text.
//! * A byte order mark at the beginning is not content. U+0000 and U+FDD0 to U+FDD8, which are not valid characters of
//!   a text, become U+FFFD, and so do references to them.

#[cfg(test)]
mod barrier_tests;
mod constructs;
mod elements;
pub mod excerpt;
mod facts;
mod heading;
pub mod host_name;
mod html;
pub mod invisible;
pub mod language;
mod links;
#[cfg(test)]
mod pieces;
mod placeholder;
mod sanitize;
mod source;
mod subset;
mod tables;
#[cfg(test)]
mod tests;
mod text_run;

pub use facts::Shown;

use language::Language;
use source::Spared;
use subset::Filtered;

/// The version of the renderer. It grows whenever the same Markdown would give other HTML or another excerpt. A page
/// with a lower version is rendered again when it is read.
pub const RENDERER_VERSION: u16 = 5;

/// The tag that begins a code block. In rendered HTML, `<` only ever begins a tag: text and attributes have a reference
/// instead.
pub const CODE_BLOCK: &str = "<pre>";

/// HTML that is safe to serve, with the facts that serving it needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rendered {
    pub html: String,
    /// The beginning of the text, on one line: at most [`excerpt::MAX_CHARS`] characters and an ellipsis.
    pub excerpt: String,
    /// The byte offset of each [`CODE_BLOCK`] in the HTML.
    pub code_blocks: Vec<u32>,
    /// The first two different origins of the `http` and `https` links. Two are enough, because only one of them can be
    /// our own.
    pub link_origins: Vec<String>,
    /// The language of the text, if the detector is sure of it.
    pub language: Option<Language>,
    /// The heading that names a text without a title.
    pub first_heading: Option<String>,
    pub shown: Shown,
    pub renderer_version: u16,
}

impl Rendered {
    /// Whether a link leads to another origin than `own`, which is written as the URL standard does.
    pub fn has_external_links(&self, own: &str) -> bool {
        any_external(&self.link_origins, own)
    }
}

/// Whether one of `link_origins` is another origin than `own`, which is written as the URL standard does.
pub fn any_external(link_origins: &[String], own: &str) -> bool {
    link_origins.iter().any(|origin| origin != own)
}

/// Renders `markdown`. Never fails or panics.
///
/// The HTML has at most 64 KB plus six bytes for each byte of the content, and
/// never over 4 MB. No text is lost. Elements are nested at most 32 deep.
pub fn render(markdown: &str) -> Rendered {
    let Filtered { html, facts, first_heading, .. } = filter(markdown);
    let mut html = sanitize::clean(&html);
    // It grew by doubling, and a page keeps it.
    html.shrink_to_fit();
    Rendered {
        excerpt: facts.excerpt(),
        language: facts.language(),
        code_blocks: html.match_indices(CODE_BLOCK).filter_map(|(at, _)| u32::try_from(at).ok()).collect(),
        html,
        link_origins: facts.link_origins,
        first_heading,
        shown: facts.shown,
        renderer_version: RENDERER_VERSION,
    }
}

/// All steps before the sanitiser.
fn filter(markdown: &str) -> Filtered {
    let filtered = filter_sparing(markdown, Spared::Addresses);
    // A spared line that turns out not to be an address may hide the Markdown after it.
    if filtered.has_html_block { filter_sparing(markdown, Spared::Nothing) } else { filtered }
}

fn filter_sparing(markdown: &str, spared: Spared) -> Filtered {
    let source = source::prepare(markdown, spared);
    subset::filter(&source, placeholder::events(&source), html::max_bytes(markdown.len()))
}

//! Markdown to the HTML of `content_html` (spec §2.5).
//!
//! ```text
//! source → source::prepare → pulldown-cmark's events → subset::filter → sanitize::clean → HTML
//! ```
//!
//! Two barriers stand one behind the other and share no code. `subset` writes only elements of the subset and escapes
//! everything else, by the address rules of `links`; `sanitize` parses what it wrote as a browser would and removes
//! whatever is not on a list of its own. On a day without bugs the second changes nothing, and tests hold it to that.
//!
//! What is not in the contract and was decided here:
//!
//! * Strikethrough is `<del>`. Lists that do not begin at 1 keep their `start`.
//! * The titles of links and images are left out: they cannot be reached by touch or keyboard.
//! * Raw HTML is text of the paragraph in which it stands, comments included: a line of it begins no block.
//! * A bare address in a tag is no link, nor is one in the text of a link that was left out.
//! * A table has a `|` or a `:` in its second line. The lines up to a blank one are its rows, as on GitHub.
//! * After 50,000 elements the rest is flattened, as below 32 levels and beyond the bound on bytes. A list or quote whose
//!   marker stands in column 257 of its line or after does not begin, and the marker is text.
//! * A byte order mark at the beginning is not content. U+0000 and U+FDD0 to U+FDD8, which are no characters, become
//!   U+FFFD.

#[cfg(test)]
mod barrier_tests;
mod constructs;
mod elements;
mod exposed;
mod html;
mod links;
mod placeholder;
mod sanitize;
mod source;
mod subset;
mod tables;
#[cfg(test)]
mod tests;
mod text_run;

use pulldown_cmark::{Options, Parser};

use super::excerpt::excerpt_of;
use super::language::Language;

use source::Spared;

/// Changes whenever the same Markdown would give other HTML, or another excerpt. A page that a lower version wrote is
/// rendered again when it is read.
pub const RENDERER_VERSION: u16 = 2;

/// The tag that begins a code block. `<` begins a tag and nothing else: text and attributes have a reference instead.
pub const CODE_BLOCK: &str = "<pre>";

/// HTML that is safe to serve, and what must be known of it when it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rendered {
    /// Sanitised HTML of the Markdown subset.
    pub html: String,
    /// How its text begins, as [`excerpt_of`] cuts it.
    pub excerpt: String,
    /// The byte offset of each [`CODE_BLOCK`] in the HTML.
    pub code_blocks: Vec<u32>,
    /// The origins of its `http` and `https` links: the first two that differ, since two cannot both be our own.
    pub link_origins: Vec<String>,
    /// The language of its text, where that is certain.
    pub language: Option<Language>,
    /// The [`RENDERER_VERSION`] that made it.
    pub renderer_version: u16,
}

impl Rendered {
    /// Whether a link leads to another origin than `own`.
    pub fn has_external_links(&self, own: &super::origin::Origin) -> bool {
        self.link_origins.iter().any(|origin| origin != own.as_str())
    }

    /// Whether `is_found` says so of the text that readers see, or of an attribute's value, such as an address.
    pub fn exposes(&self, is_found: impl Fn(&str) -> bool) -> bool {
        exposed::any(&self.html, is_found)
    }
}

/// Renders `markdown`. Never fails or panics.
///
/// The HTML of content that [`super::content::Content`] accepts has at most 64 KB and six bytes for each byte of the
/// content, never over 4 MB, and no text is lost; elements are nested at most 32 deep.
pub fn render(markdown: &str) -> Rendered {
    let filtered = filter(markdown);
    let html = html::with_references(&sanitize::clean(&filtered.html));
    Rendered {
        excerpt: excerpt_of(&html),
        code_blocks: html.match_indices(CODE_BLOCK).filter_map(|(at, _)| u32::try_from(at).ok()).collect(),
        language: Language::of_html(&html),
        html,
        link_origins: filtered.link_origins,
        renderer_version: RENDERER_VERSION,
    }
}

/// Everything before the sanitiser.
fn filter(markdown: &str) -> subset::Filtered {
    let filtered = filter_sparing(markdown, Spared::Addresses);
    // A spared line that is no address after all may hide the Markdown after it.
    if filtered.has_html_block { filter_sparing(markdown, Spared::Nothing) } else { filtered }
}

fn filter_sparing(markdown: &str, spared: Spared) -> subset::Filtered {
    let source = source::prepare(markdown, spared);
    let events = Parser::new_ext(&source, Options::ENABLE_STRIKETHROUGH).into_offset_iter();
    subset::filter(&source, events, html::max_bytes(markdown.len()))
}

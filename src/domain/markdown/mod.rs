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
//! * Credentials in an `http` or `https` address stay, as in the address that the author wrote.
//! * Raw HTML, comments included, is text where it stood; a block of it is a paragraph.
//! * After 50,000 elements the rest is flattened, as below 32 levels. A list or quote whose marker stands in column 257 of
//!   its line or after does not begin, and the marker is text.
//! * A byte order mark at the beginning is not content. U+0000 and U+FDD0 to U+FDD5, which are no characters, become
//!   U+FFFD.

mod html;
mod links;
mod sanitize;
mod source;
mod subset;
#[cfg(test)]
mod tests;

use pulldown_cmark::{Options, Parser};

use super::language::Language;

/// Changes whenever the same Markdown would give other HTML; a page written by a lower one is rendered anew when read.
pub const RENDERER_VERSION: u16 = 2;

/// HTML that is safe to serve, and what must be known of it when it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rendered {
    /// Sanitised HTML of the Markdown subset.
    pub html: String,
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
}

/// Renders `markdown`. Never fails or panics.
///
/// Of content that [`super::content::Content`] accepts, the HTML has at most 4 MB and elements nested at most 32 deep.
pub fn render(markdown: &str) -> Rendered {
    let filtered = filter(markdown);
    let html = html::with_references(&sanitize::clean(&filtered.html));
    Rendered {
        language: Language::of_html(&html),
        html,
        link_origins: filtered.link_origins,
        renderer_version: RENDERER_VERSION,
    }
}

/// Everything before the sanitiser.
fn filter(markdown: &str) -> subset::Filtered {
    let source = source::prepare(markdown);
    subset::filter(Parser::new_ext(&source, Options::ENABLE_STRIKETHROUGH))
}

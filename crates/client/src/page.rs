//! The page that a command is about.

use url::Url;

use crate::{ClientError, Result};
use handbill_pages::values::origin::Origin;
use handbill_pages::values::slug::{Slug, name_in_path};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PageReference {
    pub(crate) server: Origin,
    pub(crate) slug: Slug,
}

impl PageReference {
    /// Accepts a whole address, or a path of it.
    pub(crate) fn parse(text: &str, server: &Origin) -> Result<Self> {
        let text = text.trim();
        let (server, path) = match Url::parse(text) {
            Ok(url) => (Origin::of(&url).ok_or_else(|| not_a_page(text))?, url.path().to_owned()),
            Err(_) => (server.clone(), text.to_owned()),
        };
        let slug = Slug::parse(name_in_path(&path)).map_err(|_| not_a_page(text))?;
        Ok(Self { server, slug })
    }

    pub(crate) fn url(&self) -> String {
        format!("{}/{}", self.server, self.slug)
    }
}

fn not_a_page(text: &str) -> ClientError {
    ClientError::Usage(format!(
        "{text:?} is neither a page nor a published file. Use an address, or a slug like hello-world-7k2m9xqz"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Option<String> {
        let server = Origin::parse("https://pages.example").unwrap();
        PageReference::parse(text, &server).ok().map(|page| page.url())
    }

    #[test]
    fn an_address_names_its_server_and_a_slug_is_on_the_chosen_one() {
        for text in ["a-page-22222222", "/a-page-22222222", "a-page-22222222.md", " a-page-22222222\n"] {
            assert_eq!(parsed(text).as_deref(), Some("https://pages.example/a-page-22222222"), "{text}");
        }
        for text in ["http://localhost:8080/a-page-22222222", "http://LOCALHOST:8080/a-page-22222222.md#x"] {
            assert_eq!(parsed(text).as_deref(), Some("http://localhost:8080/a-page-22222222"), "{text}");
        }
    }

    #[test]
    fn anything_else_is_refused() {
        for text in
            ["", "-", "page", "https://pages.example/", "ftp://pages.example/a-page-22222222", "a page-22222222"]
        {
            assert_eq!(parsed(text), None, "{text}");
        }
    }
}

//! The page that a command is about: its slug, and the server if the user gave a whole address.

use url::Url;

use super::error::ClientError;
use handbill_core::domain::origin::Origin;
use handbill_core::domain::slug::Slug;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct PageReference {
    pub(super) server: Origin,
    pub(super) slug: Slug,
}

impl PageReference {
    /// The page that `text` names: a whole address, `/slug`, `slug` or `slug.md`. Without an address it is on `server`.
    pub(super) fn parse(text: &str, server: &Origin) -> Result<Self, ClientError> {
        let text = text.trim();
        let (server, path) = match Url::parse(text) {
            Ok(url) => {
                let origin = Origin::of(&url).ok_or_else(|| not_a_page(text))?;
                (origin, url.path().to_owned())
            }
            Err(_) => (server.clone(), text.to_owned()),
        };
        let name = path.strip_prefix('/').unwrap_or(&path);
        let name = name.strip_suffix("/edit").unwrap_or(name);
        let name = name.strip_suffix(".md").unwrap_or(name);
        let slug = Slug::parse(name).map_err(|_| not_a_page(text))?;
        Ok(Self { server, slug })
    }

    /// The page's public address.
    pub(super) fn url(&self) -> String {
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

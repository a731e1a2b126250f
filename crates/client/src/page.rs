//! The page that a command is about, and its saved key.

use std::{fs, path::Path};

use url::Url;

use crate::args::ConnectionArgs;
use crate::key_file::SavedKey;
use crate::{ClientError, Result};
use handbill_pages::values::slug::{Slug, name_in_path};
use handbill_pages::values::{edit_key::EditKey, origin::Origin};

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

impl ConnectionArgs {
    /// Finds an address, a slug of a saved page or of the server, or the newest page published from a file.
    pub(crate) fn find(&self, name: &str) -> Result<PageReference> {
        // A page can be read without a key file.
        let saved = self.keys().and_then(|file| file.keys());
        let named = match (PageReference::parse(name, &self.server()?), fs::canonicalize(name)) {
            (Err(ClientError::Usage(_)), Ok(file)) => return page_from(&file, name, &saved?),
            (parsed, _) => parsed?,
        };
        if name.contains("://") {
            return Ok(named);
        }
        let own = saved.unwrap_or_default().into_iter().rev().filter_map(|saved| saved.page());
        Ok(own.into_iter().find(|own| own.slug == named.slug).unwrap_or(named))
    }

    pub(crate) fn find_own(&self, name: &str) -> Result<(PageReference, EditKey, SavedKey)> {
        let page = self.find(name)?;
        let saved = self.keys()?.find(&page)?;
        let own = saved.and_then(|saved| Some((EditKey::parse(&saved.edit_key).ok()?, saved)));
        let (key, saved) = own.ok_or_else(|| {
            ClientError::Key(format!(
                "no key for {} is saved here. `handbill key --import -` adds a key or an edit link",
                page.url()
            ))
        })?;
        Ok((page, key, saved))
    }
}

fn page_from(file: &Path, name: &str, saved: &[SavedKey]) -> Result<PageReference> {
    let pages: Vec<_> = published_from(file, saved).collect();
    let newest = pages.last().ok_or_else(|| {
        ClientError::Usage(format!(
            "{name} hasn't been published from here. Use the page's address, or `handbill publish {name}`"
        ))
    })?;
    if pages.len() > 1 {
        eprintln!("handbill: {name} was published {} times; this is about the newest, {}", pages.len(), newest.url());
    }
    Ok(newest.clone())
}

/// Newest last.
pub(crate) fn published_from(file: &Path, saved: &[SavedKey]) -> impl Iterator<Item = PageReference> {
    saved.iter().filter(move |own| own.source.as_deref() == Some(file)).filter_map(SavedKey::page)
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

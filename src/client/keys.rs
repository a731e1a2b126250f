//! Keeping, finding and forgetting the key of one page, as all commands do it.

use std::fs;
use std::path::{Path, PathBuf};

use super::api::CreatedPage;
use super::args::PageArgs;
use super::error::ClientError;
use super::key_file::{KeptKey, KeyFile};
use super::reference::PageReference;
use handbill_core::domain::edit_key::EditKey;
use handbill_core::domain::markdown::render;
use handbill_core::domain::title::{MAX_CHARS, Title};

/// Keeps the key of a page that was just published. If that fails, the error shows the key.
pub(super) fn keep(
    keys: &KeyFile,
    created: &CreatedPage,
    title: Option<String>,
    source: Option<PathBuf>,
) -> Result<(), ClientError> {
    let page = KeptKey {
        url: created.url.clone(),
        edit_key: created.edit_key.clone(),
        title,
        created_at: Some(created.created_at.clone()),
        source,
    };
    let kept = keys.lock().map_err(|error| error.to_string()).and_then(|locked| {
        locked.keep(&page).map_err(|error| format!("could not write the key file {} ({error})", keys.path().display()))
    });
    kept.map_err(|reason| {
        let CreatedPage { url, edit_key, .. } = created;
        ClientError::KeyNotKept(format!(
            "{reason}, but the page is published. Write this down now, it is shown only once:\n{url}\n{edit_key}"
        ))
    })
}

pub(super) fn forget_page(keys: &KeyFile, page: &PageReference) -> Result<(), ClientError> {
    let locked = keys.lock()?;
    let mut pages = keys.pages()?;
    let before = pages.len();
    pages.retain(|kept| !kept.is(page));
    if pages.len() == before { Ok(()) } else { locked.replace(&pages) }
}

fn key_of(page: &PageReference, kept: Option<&KeptKey>) -> Result<EditKey, ClientError> {
    kept.and_then(KeptKey::key).ok_or_else(|| {
        ClientError::Key(format!(
            "no key for {} is saved here: `handbill keys import` adds one from another machine",
            page.url()
        ))
    })
}

/// The page that `args` name: by its address or slug, or by the file that it was published from. Unless `--server` is typed, a bare
/// slug names the saved page that has it, if there is exactly one.
pub(super) fn page_of(PageArgs { page: name, connection }: &PageArgs) -> Result<PageReference, ClientError> {
    let saved = || KeyFile::in_directory(connection.keys.keys_dir.clone()).and_then(|keys| keys.pages());
    let named = match (PageReference::parse(name, &connection.server()?), fs::canonicalize(name)) {
        (Err(ClientError::Usage(_)), Ok(file)) => return page_from(&file, name, &saved()?),
        (parsed, _) => parsed?,
    };
    if name.contains("://") || connection.is_server_typed() {
        return Ok(named);
    }
    // Without a key file there is no saved page, and a page can be read nevertheless.
    let saved = saved().unwrap_or_default();
    let same_slug: Vec<_> = saved.iter().filter_map(KeptKey::reference).filter(|own| own.slug == named.slug).collect();
    Ok(if let [own] = &same_slug[..] { own.clone() } else { named })
}

/// The newest page that was published from `file`, which the user called `name`.
fn page_from(file: &Path, name: &str, saved: &[KeptKey]) -> Result<PageReference, ClientError> {
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

/// The pages that were published from `file`, the newest last.
pub(super) fn published_from(file: &Path, saved: &[KeptKey]) -> impl Iterator<Item = PageReference> {
    saved.iter().filter(move |own| own.source.as_deref() == Some(file)).filter_map(KeptKey::reference)
}

/// A page of the user's own, and what is kept of it.
pub(super) struct OwnPage {
    pub(super) keys: KeyFile,
    pub(super) page: PageReference,
    pub(super) key: EditKey,
    pub(super) kept: Option<KeptKey>,
}

impl OwnPage {
    pub(super) fn find(args: &PageArgs) -> Result<Self, ClientError> {
        let page = page_of(args)?;
        let keys = KeyFile::in_directory(args.connection.keys.keys_dir.clone())?;
        let kept = keys.find(&page)?;
        let key = key_of(&page, kept.as_ref())?;
        Ok(Self { keys, page, key, kept })
    }

    /// Notes the new title of the page in the key file.
    pub(super) fn retitle(&self, title: &str) -> Result<(), ClientError> {
        let locked = self.keys.lock()?;
        let mut pages = self.keys.pages()?;
        let Some(kept) = pages.iter_mut().find(|kept| kept.is(&self.page)) else { return Ok(()) };
        kept.title = Some(title.to_owned()).filter(|title| !title.trim().is_empty());
        locked.replace(&pages)
    }
}

/// The title that the first heading of a text gives. A heading may be longer than a title.
pub(super) fn heading_title(content: &str) -> Option<String> {
    let title: String = render(content).first_heading?.chars().take(MAX_CHARS).collect();
    Title::parse(&title).is_ok().then_some(title)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_cannot_take_the_key_of_a_page_away() {
        let home = tempfile::tempdir().unwrap();
        let keys = KeyFile::in_directory(Some(home.path().to_owned())).unwrap();
        let created = |letter: &str| CreatedPage {
            url: "https://pages.example/hello-world-7k2m9xqz".to_owned(),
            edit_key: format!("hbk_{}", letter.repeat(43)),
            created_at: "2026-11-21T04:30:00.123Z".to_owned(),
        };
        keep(&keys, &created("a"), None, None).unwrap();
        let refused = keep(&keys, &created("b"), None, None).unwrap_err().to_string();
        assert!(refused.contains("it has another key of that page"), "{refused}");
        let kept: Vec<_> = keys.pages().unwrap().into_iter().map(|kept| kept.edit_key).collect();
        assert_eq!(kept, [created("a").edit_key]);
    }
}

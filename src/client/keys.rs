//! Keeping, finding and forgetting the key of one page, as all commands do it.

use std::path::PathBuf;

use super::api::CreatedPage;
use super::args::ConnectionArgs;
use super::error::ClientError;
use super::key_file::{KeptKey, KeyFile};
use super::reference::PageReference;
use handbill_core::domain::edit_key::EditKey;

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

pub(super) fn key_of(page: &PageReference, kept: Option<&KeptKey>) -> Result<EditKey, ClientError> {
    kept.and_then(KeptKey::key).ok_or_else(|| {
        ClientError::Key(format!(
            "no key of {} is kept: `handbill keys import` takes one from another machine",
            page.url()
        ))
    })
}

/// The connection's key file and the page that `text` names, with its key.
pub(super) fn with_key(text: &str, connection: &ConnectionArgs) -> Result<(PageReference, EditKey), ClientError> {
    let page = PageReference::parse(text, &connection.server)?;
    let keys = KeyFile::in_directory(connection.keys.keys_dir.clone())?;
    let key = key_of(&page, keys.find(&page)?.as_ref())?;
    Ok((page, key))
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

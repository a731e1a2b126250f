//! Keeping, finding and forgetting the key of one page, as all commands do it.

use std::path::PathBuf;

use super::api::CreatedPage;
use super::args::ConnectionArgs;
use super::error::ClientError;
use super::key_file::{KeptKey, KeyFile};
use super::reference::PageReference;
use crate::domain::edit_key::EditKey;

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

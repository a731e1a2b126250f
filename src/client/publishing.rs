//! Publishing so that a lost answer loses nothing.
//!
//! The key is made here, and is on disk with the text before they are sent. Until the page's address is kept, the same text
//! published again has the same key, and so the server finds the page that it may have made.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;

use http::StatusCode;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::error::ClientError;
use super::key_file::{DIRECTORY_MODE, KeyFile, private};
use handbill_core::domain::edit_key::EditKey;
use handbill_core::domain::hex;
use handbill_core::domain::origin::Origin;
use handbill_core::ports::random::{Random, index_below};

/// The folder beside the key file, with a file for each text whose create was not answered yet.
const FOLDER: &str = "sending";

/// A page that is about to be published. It has no `Debug`, so that no message can show its key.
pub(super) struct Outgoing {
    /// The body of the create.
    pub(super) body: Value,
    file: PathBuf,
    /// Whether it was sent before. Then the page may exist.
    is_repeat: bool,
}

impl Outgoing {
    /// Makes a key for the page, or finds the one of an earlier attempt. When this returns, it is on disk.
    pub(super) fn begin(keys: &KeyFile, server: &Origin, title: &str, content: &str) -> Result<Self, ClientError> {
        let text = json!([server.as_str(), title, content]).to_string();
        let folder = keys.path().with_file_name(FOLDER);
        let file = folder.join(hex::encode(&Sha256::digest(text)));
        // Another command may begin the same.
        let _locked = keys.lock()?;
        // A file that a crash cut short was never sent.
        let earlier = fs::read(&file).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
        let is_whole = |body: &Value| body["edit_key"].as_str().is_some_and(|key| EditKey::parse_new(key).is_ok());
        if let Some(body) = earlier.filter(is_whole) {
            return Ok(Self { body, file, is_repeat: true });
        }
        let body = json!({"title": title, "content": content, "edit_key": new_key().reveal()});
        let written = || -> io::Result<()> {
            DirBuilder::new().recursive(true).mode(DIRECTORY_MODE).create(&folder)?;
            let mut written = private().create(true).truncate(true).write(true).open(&file)?;
            written.write_all(body.to_string().as_bytes())?;
            written.sync_all()?;
            File::open(&folder)?.sync_all()
        };
        written().map_err(|error| ClientError::Failed(format!("could not write {} ({error})", file.display())))?;
        Ok(Self { body, file, is_repeat: false })
    }

    /// Forgets the attempt if `status` says that nothing was stored. At a limit the same text is sent later. After a lost
    /// answer only Handbill itself can say so, and not who stands before it.
    pub(super) fn answered(&self, status: StatusCode, was_lost: bool) {
        let is_refused = match status.as_u16() {
            400 => true,
            300..=499 => status != StatusCode::TOO_MANY_REQUESTS && !self.is_repeat && !was_lost,
            _ => false,
        };
        if is_refused {
            self.end();
        }
    }

    /// Forgets the attempt: the key is kept with the page's address, or nothing was stored.
    pub(super) fn end(&self) {
        // A file that stays makes the same text the same page once more.
        let _ = fs::remove_file(&self.file);
    }
}

/// A key that every server takes.
fn new_key() -> EditKey {
    loop {
        let key = EditKey::random(|bound| index_below(&Random::System, bound));
        if EditKey::parse_new(key.reveal()).is_ok() {
            return key;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn the_same_text_has_the_same_key_until_its_page_is_kept_and_no_other_text_has_it() {
        let home = tempfile::tempdir().unwrap();
        let keys = KeyFile::in_directory(Some(home.path().join("keys"))).unwrap();
        let begin = |server: &str, title: &str, content: &str| {
            let outgoing = Outgoing::begin(&keys, &Origin::parse(server).unwrap(), title, content).unwrap();
            let key = outgoing.body["edit_key"].as_str().unwrap().to_owned();
            (outgoing, key)
        };
        let (outgoing, key) = begin("https://a.example", "T", "c");
        assert!(EditKey::parse_new(&key).is_ok());
        assert_eq!(fs::metadata(&outgoing.file).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(begin("https://a.example", "T", "c").1, key);
        for (server, title, content) in [("https://b.example", "T", "c"), ("https://a.example", "T", "d")] {
            assert_ne!(begin(server, title, content).1, key);
        }
        let whole = fs::read(&outgoing.file).unwrap();
        fs::write(&outgoing.file, &whole[..whole.len() / 2]).unwrap();
        let (outgoing, second) = begin("https://a.example", "T", "c");
        assert_ne!(second, key, "a file that was cut short was never sent");
        outgoing.end();
        assert_ne!(begin("https://a.example", "T", "c").1, second);
    }

    #[test]
    fn a_text_is_forgotten_once_it_is_known_that_it_was_not_stored() {
        let home = tempfile::tempdir().unwrap();
        let keys = KeyFile::in_directory(Some(home.path().join("keys"))).unwrap();
        let begin = || Outgoing::begin(&keys, &Origin::parse("https://a.example").unwrap(), "T", "c").unwrap();
        let stays = |outgoing: Outgoing, status: u16, was_lost| {
            outgoing.answered(StatusCode::from_u16(status).unwrap(), was_lost);
            let stays = outgoing.file.exists();
            outgoing.end();
            stays
        };
        for refused in [301, 400, 403, 404, 413, 431] {
            assert!(!stays(begin(), refused, false), "{refused}");
        }
        for open in [200, 429, 500, 503] {
            assert!(stays(begin(), open, false), "{open}");
        }
        for (status, may_stay) in [(404, true), (400, false)] {
            assert_eq!(stays(begin(), status, true), may_stay, "the answer before was lost");
            drop(begin());
            assert_eq!(stays(begin(), status, false), may_stay, "an earlier command may have made the page");
        }
    }
}

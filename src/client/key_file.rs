//! The user's pages and edit keys: a private file with one JSON object a line.
//!
//! A change replaces the file atomically, under a lock on the directory.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::ClientError;
use super::page::PageReference;
use handbill_pages::values::edit_key::EditKey;
use handbill_pages::values::origin::Origin;

const FILE: &str = "keys.jsonl";
const NEW_FILE: &str = "keys.jsonl.new";

const DIRECTORY_MODE: u32 = 0o700;

const FILE_MODE: u32 = 0o600;

/// Has no `Debug`, so that no message shows the key.
#[derive(Clone, Serialize, Deserialize, PartialEq, Eq)]
pub(super) struct SavedKey {
    /// The server's address until the page's is known.
    pub(super) url: String,
    pub(super) edit_key: String,
    pub(super) title: Option<String>,
    pub(super) created_at: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) source: Option<PathBuf>,
    /// A name for the sent text ([`super::publish`]), until the server has answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) sent: Option<String>,
}

impl SavedKey {
    pub(super) fn new(url: &str, edit_key: &str) -> Self {
        let url = url.to_owned();
        let edit_key = edit_key.to_owned();
        Self { url, edit_key, title: None, created_at: None, source: None, sent: None }
    }

    pub(super) fn is_of(&self, page: &PageReference) -> bool {
        self.page().is_some_and(|own| own == *page)
    }

    pub(super) fn page(&self) -> Option<PageReference> {
        // An address names its own server.
        let nowhere = Origin::parse("http://localhost").ok()?;
        self.url.contains("://").then(|| PageReference::parse(&self.url, &nowhere).ok())?
    }

    fn is_whole(&self) -> bool {
        EditKey::parse(&self.edit_key).is_ok() && (self.sent.is_some() || self.page().is_some())
    }
}

#[derive(Clone)]
pub(super) struct KeyFile {
    directory: PathBuf,
}

impl KeyFile {
    pub(super) fn in_directory(directory: PathBuf) -> Self {
        Self { directory }
    }

    pub(super) fn path(&self) -> PathBuf {
        self.directory.join(FILE)
    }

    /// Oldest first.
    pub(super) fn keys(&self) -> Result<Vec<SavedKey>, ClientError> {
        match fs::read_to_string(self.path()) {
            Ok(text) => parse(&text).map_err(|line| {
                let path = self.path();
                ClientError::Failed(format!("line {line} of {} is not a page with its key: repair it", path.display()))
            }),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(self.failed("read", &error)),
        }
    }

    pub(super) fn find(&self, page: &PageReference) -> Result<Option<SavedKey>, ClientError> {
        Ok(self.keys()?.into_iter().rfind(|saved| saved.is_of(page)))
    }

    /// Excludes other commands. On return, the keys are on disk.
    pub(super) fn change<T>(&self, change: impl FnOnce(&mut Vec<SavedKey>) -> T) -> Result<T, ClientError> {
        let directory = self.lock().map_err(|error| self.failed("write", &error))?;
        let before = self.keys()?;
        let mut keys = before.clone();
        let done = change(&mut keys);
        if keys != before {
            self.write(&keys, &directory).map_err(|error| self.failed("write", &error))?;
        }
        Ok(done)
    }

    pub(super) fn forget(&self, page: &PageReference) -> Result<(), ClientError> {
        self.change(|keys| keys.retain(|saved| !saved.is_of(page)))
    }

    /// Until the file is closed.
    fn lock(&self) -> io::Result<File> {
        DirBuilder::new().recursive(true).mode(DIRECTORY_MODE).create(&self.directory)?;
        let directory = File::open(&self.directory)?;
        directory.lock()?;
        Ok(directory)
    }

    fn write(&self, keys: &[SavedKey], directory: &File) -> io::Result<()> {
        let new = self.directory.join(NEW_FILE);
        let mut file = OpenOptions::new().mode(FILE_MODE).create(true).truncate(true).write(true).open(&new)?;
        for saved in keys {
            writeln!(file, "{}", serde_json::to_string(saved)?)?;
        }
        file.sync_all()?;
        fs::rename(&new, self.path())?;
        directory.sync_all()
    }

    fn failed(&self, what: &str, error: &io::Error) -> ClientError {
        ClientError::cannot(&format!("{what} the key file {}", self.path().display()), error)
    }
}

/// Accepts lines of a key file, edit links, and addresses with the key on the next line, as the editor downloads them.
/// An error is the number of the first other line.
pub(super) fn parse(text: &str) -> Result<Vec<SavedKey>, usize> {
    let key_in =
        |line: &str| line.rfind("hbk_").map(|at| line[at..].to_owned()).filter(|key| EditKey::parse(key).is_ok());
    let mut keys = Vec::new();
    let mut lines = (1_usize..).zip(text.lines().map(str::trim)).filter(|(_, line)| !line.is_empty());
    while let Some((number, line)) = lines.next() {
        let saved = if line.starts_with('{') {
            serde_json::from_str(line).map_err(|_| number)?
        } else if let Some((url, key)) = line.split_once("/edit#") {
            SavedKey::new(url, key)
        } else {
            let key = lines.next().and_then(|(_, next)| key_in(next)).ok_or(number)?;
            SavedKey::new(line, &key)
        };
        keys.push(Some(saved).filter(SavedKey::is_whole).ok_or(number)?);
    }
    Ok(keys)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;

    use tempfile::tempdir;

    use super::*;

    fn page(slug: &str) -> SavedKey {
        SavedKey {
            title: Some("A \"page\"\n".to_owned()),
            source: Some(PathBuf::from("/notes/a.md")),
            ..SavedKey::new(&format!("https://pages.example/{slug}"), &format!("hbk_{}", "k".repeat(43)))
        }
    }

    fn add(file: &KeyFile, page: &SavedKey) {
        file.change(|keys| keys.push(page.clone())).unwrap();
    }

    #[test]
    fn keys_are_saved_in_a_file_that_only_the_user_can_read() {
        let directory = tempdir().unwrap();
        let file = KeyFile::in_directory(directory.path().join("a/b"));
        assert!(file.keys().unwrap().is_empty());
        let pages = [page("a-page-22222222"), page("b-page-22222222")];
        for page in &pages {
            add(&file, page);
        }
        assert!(file.keys().unwrap() == pages);
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&file.path()), mode(&directory.path().join("a/b"))), (0o600, 0o700));
        file.forget(&pages[0].page().unwrap()).unwrap();
        assert!(file.keys().unwrap() == pages[1..]);
    }

    #[test]
    fn a_change_that_fails_leaves_the_file() {
        let directory = tempdir().unwrap();
        let file = KeyFile::in_directory(directory.path().to_owned());
        add(&file, &page("a-page-22222222"));
        fs::create_dir(directory.path().join(NEW_FILE)).unwrap();
        let refused = file.forget(&page("a-page-22222222").page().unwrap()).unwrap_err().to_string();
        assert!(refused.contains("can't write the key file"), "{refused}");
        assert_eq!(file.keys().unwrap().len(), 1);
    }

    #[test]
    fn an_edit_link_and_a_key_on_the_next_line_are_keys_too() {
        let one = page("a-page-22222222");
        let two = page("b-page-22222222");
        let line = serde_json::to_string(&page("c-page-22222222")).unwrap();
        let bare = |page: &SavedKey| SavedKey::new(&page.url, &page.edit_key);
        let two_lines = |page: &SavedKey, words: &str| format!("{}\r\n{words}{}\r\n", page.url, page.edit_key);
        let text = format!("{}\n{line}\n{}", two_lines(&one, ""), two_lines(&two, "Edit key (shown this once): "));
        assert!(parse(&text) == Ok(vec![bare(&one), page("c-page-22222222"), bare(&two)]));
        let edit_link = |page: &SavedKey| format!("{}/edit#{}\n", page.url, page.edit_key);
        assert!(parse(&(edit_link(&one) + &edit_link(&two))) == Ok(vec![bare(&one), bare(&two)]));
        let address = &one.url;
        let key = &one.edit_key;
        for (damaged, line) in [
            (format!("{address}\n"), 1),
            (format!("\n{address}\n{key}x\n"), 2),
            (format!("{line}\n{address}/edit#{key}x\n"), 2),
            (format!("words\n{key}\n"), 1),
            (format!("{key}\n{address}\n"), 1),
            (format!("{line}\n{{}}\n"), 2),
        ] {
            assert!(parse(&damaged) == Err(line), "{damaged}");
        }
    }
}

//! The user's pages and edit keys: a private file with one JSON object a line.
//!
//! A change replaces the file atomically, under a lock on the directory. A line that is not a page with its key is named
//! on standard error, and stays as it is.

use std::fs::{self, DirBuilder, File};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::{os::unix::fs::DirBuilderExt, str, sync::Once};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tempfile::NamedTempFile;

use crate::page::PageReference;
use crate::{ClientError, Result};
use handbill_pages::values::{edit_key::EditKey, origin::Origin};

const FILE: &str = "keys.jsonl";

const DIRECTORY_MODE: u32 = 0o700;

/// Has no `Debug`, so that no message shows the key.
#[derive(Clone, Default, Serialize, Deserialize, PartialEq, Eq)]
pub(crate) struct SavedKey {
    /// The server's address until the page's is known.
    pub(crate) url: String,
    pub(crate) edit_key: String,
    pub(crate) title: Option<String>,
    pub(crate) created_at: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) source: Option<PathBuf>,
    /// The page's, when its text was last sent from here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) updated_at: Option<String>,
    /// A name for the sent text ([`super::publish`]), until the server has answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) sent: Option<String>,
}

impl SavedKey {
    pub(crate) fn new(url: &str, edit_key: &str) -> Self {
        Self { url: url.to_owned(), edit_key: edit_key.to_owned(), ..Self::default() }
    }

    /// For programs that others may watch.
    pub(crate) fn without_key(&self) -> Value {
        let Self { url, title, created_at, source, .. } = self;
        json!({"url": url, "title": title, "created_at": created_at, "source": source})
    }

    pub(crate) fn is_of(&self, page: &PageReference) -> bool {
        self.page().is_some_and(|own| own == *page)
    }

    pub(crate) fn page(&self) -> Option<PageReference> {
        // An address names its own server.
        let nowhere = Origin::parse("http://localhost").ok()?;
        self.url.contains("://").then(|| PageReference::parse(&self.url, &nowhere).ok())?
    }

    fn is_whole(&self) -> bool {
        EditKey::parse(&self.edit_key).is_ok() && (self.sent.is_some() || self.page().is_some())
    }
}

#[derive(Clone)]
pub(crate) struct KeyFile {
    directory: PathBuf,
}

impl KeyFile {
    pub(crate) fn in_directory(directory: PathBuf) -> Self {
        Self { directory }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.directory.join(FILE)
    }

    /// Oldest first.
    pub(crate) fn keys(&self) -> Result<Vec<SavedKey>> {
        Ok(self.read()?.0)
    }

    fn read(&self) -> Result<(Vec<SavedKey>, Vec<OtherLine>)> {
        static WARNING: Once = Once::new();
        let (keys, others) = match fs::read(self.path()) {
            Ok(bytes) => parse(&bytes),
            Err(error) if error.kind() == ErrorKind::NotFound => Default::default(),
            Err(error) => return Err(self.failed("read", &error)),
        };
        let file = self.path().display().to_string();
        WARNING.call_once(|| warn_of(&others, &file, "it stays there; repair or remove it"));
        Ok((keys, others))
    }

    pub(crate) fn find(&self, page: &PageReference) -> Result<Option<SavedKey>> {
        Ok(self.keys()?.into_iter().rfind(|saved| saved.is_of(page)))
    }

    /// Excludes other commands. On return, the keys are on disk.
    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut Vec<SavedKey>) -> T) -> Result<T> {
        let directory = self.lock().map_err(|error| self.failed("write", &error))?;
        let (before, others) = self.read()?;
        let mut keys = before.clone();
        let done = change(&mut keys);
        if keys != before {
            self.write(&keys, &others, &directory).map_err(|error| self.failed("write", &error))?;
        }
        Ok(done)
    }

    pub(crate) fn forget(&self, page: &PageReference) -> Result<()> {
        self.change(|keys| keys.retain(|saved| !saved.is_of(page)))
    }

    /// Until the file is closed.
    fn lock(&self) -> io::Result<File> {
        DirBuilder::new().recursive(true).mode(DIRECTORY_MODE).create(&self.directory)?;
        let directory = File::open(&self.directory)?;
        directory.lock()?;
        Ok(directory)
    }

    fn write(&self, keys: &[SavedKey], others: &[OtherLine], directory: &File) -> io::Result<()> {
        // Only the user can read it.
        let mut file = NamedTempFile::new_in(&self.directory)?;
        for saved in keys {
            writeln!(file, "{}", serde_json::to_string(saved)?)?;
        }
        for (_, line) in others {
            file.write_all(&[line, &b"\n"[..]].concat())?;
        }
        file.as_file().sync_all()?;
        file.persist(self.path())?;
        directory.sync_all()
    }

    fn failed(&self, what: &str, error: &io::Error) -> ClientError {
        ClientError::cannot(&format!("{what} the key file {}", self.path().display()), error)
    }
}

/// Newest last.
pub(crate) fn published_from(file: &Path, saved: &[SavedKey]) -> impl Iterator<Item = PageReference> {
    saved.iter().filter(move |own| own.source.as_deref() == Some(file)).filter_map(SavedKey::page)
}

/// Its number from 1 on, and its bytes without the line feed.
pub(crate) type OtherLine = (usize, Vec<u8>);

/// Shows no line, which may have a key in it.
pub(crate) fn warn_of(lines: &[OtherLine], file: &str, what_happens: &str) {
    for (number, _) in lines {
        eprintln!("handbill: line {number} of {file} is not a page with its key: {what_happens}");
    }
}

/// Accepts lines of a key file, edit links, and addresses with the key on the next line, as the editor downloads them.
/// Returns the other lines too.
pub(crate) fn parse(bytes: &[u8]) -> (Vec<SavedKey>, Vec<OtherLine>) {
    let key_in =
        |line: &str| line.rfind("hbk_").map(|at| line[at..].to_owned()).filter(|key| EditKey::parse(key).is_ok());
    let (mut keys, mut others) = (Vec::new(), Vec::new());
    // A line that is not UTF-8 is no key.
    let lines = bytes.split(|byte| *byte == b'\n').map(|line| (line, str::from_utf8(line).unwrap_or_default().trim()));
    let mut lines = (1..).zip(lines).filter(|(_, (line, _))| !line.trim_ascii().is_empty()).peekable();
    while let Some((number, (bytes, line))) = lines.next() {
        let saved = if line.starts_with('{') {
            serde_json::from_str(line).ok().filter(SavedKey::is_whole)
        } else if let Some((url, key)) = line.split_once("/edit#") {
            // Words may stand before the link.
            let url = url.rsplit(' ').next().unwrap_or_default();
            Some(SavedKey::new(url, key)).filter(SavedKey::is_whole)
        } else {
            let key = lines.peek().and_then(|(_, (_, next))| key_in(next));
            let saved = key.map(|key| SavedKey::new(line, &key)).filter(SavedKey::is_whole);
            saved.inspect(|_| _ = lines.next())
        };
        match saved {
            Some(saved) => keys.push(saved),
            None => others.push((number, bytes.to_vec())),
        }
    }
    (keys, others)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

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
        fn mode(path: &Path) -> u32 {
            fs::metadata(path).unwrap().permissions().mode() & 0o777
        }

        let directory = tempdir().unwrap();
        let file = KeyFile::in_directory(directory.path().join("a/b"));
        assert!(file.keys().unwrap().is_empty());
        let pages = [page("a-page-22222222"), page("b-page-22222222")];
        for page in &pages {
            add(&file, page);
        }
        assert!(file.keys().unwrap() == pages);
        assert_eq!((mode(&file.path()), mode(&directory.path().join("a/b"))), (0o600, 0o700));
        file.forget(&pages[0].page().unwrap()).unwrap();
        assert!(file.keys().unwrap() == pages[1..]);
    }

    #[test]
    fn an_edit_link_and_a_key_on_the_next_line_are_keys_too() {
        fn bare(page: &SavedKey) -> SavedKey {
            SavedKey::new(&page.url, &page.edit_key)
        }

        fn two_lines(page: &SavedKey, words: &str) -> String {
            format!("{}\r\n{words}{}\r\n", page.url, page.edit_key)
        }

        fn edit_link(page: &SavedKey) -> String {
            format!("{}/edit#{}\n", page.url, page.edit_key)
        }

        let one = page("a-page-22222222");
        let two = page("b-page-22222222");
        let line = serde_json::to_string(&page("c-page-22222222")).unwrap();
        let text = format!("{}\n{line}\n{}", two_lines(&one, ""), two_lines(&two, "Edit key (shown this once): "));
        assert!(parse(text.as_bytes()).0 == [bare(&one), page("c-page-22222222"), bare(&two)]);
        let text = edit_link(&one) + "Edit link (secret): " + &edit_link(&two);
        assert!(parse(text.as_bytes()) == (vec![bare(&one), bare(&two)], Vec::new()));
    }

    #[test]
    fn a_line_that_is_no_key_hides_no_other() {
        let one = page("a-page-22222222");
        let (address, key) = (&one.url, &one.edit_key);
        let line = serde_json::to_string(&one).unwrap();
        for (damaged, numbers) in [
            (format!("{address}\n"), vec![1]),
            (format!("\n{address}\n{key}x\n"), vec![2, 3]),
            (format!("{line}\n{address}/edit#{key}x\n"), vec![2]),
            (format!("words\n{key}\n"), vec![1, 2]),
            (format!("{key}\n{address}\n"), vec![1, 2]),
            (format!("{{}}\n{line}\n{{\n"), vec![1, 3]),
            (format!("{address}\n{line}\n"), vec![1]),
        ] {
            let (keys, others) = parse(damaged.as_bytes());
            assert_eq!(others.iter().map(|(number, _)| *number).collect::<Vec<_>>(), numbers, "{damaged}");
            assert_eq!(keys.len(), damaged.matches(&line).count(), "{damaged}");
        }
    }

    #[test]
    fn a_change_keeps_other_lines_byte_for_byte() {
        let directory = tempdir().unwrap();
        let file = KeyFile::in_directory(directory.path().to_owned());
        let other = b"  {\"damaged\xff\t\r";
        fs::write(file.path(), [other, &b"\n\n"[..]].concat()).unwrap();
        add(&file, &page("a-page-22222222"));
        add(&file, &page("b-page-22222222"));
        file.forget(&page("a-page-22222222").page().unwrap()).unwrap();
        assert!(file.keys().unwrap() == [page("b-page-22222222")]);
        assert!(fs::read(file.path()).unwrap().ends_with(&[b"\n", &other[..], b"\n"].concat()));
    }
}

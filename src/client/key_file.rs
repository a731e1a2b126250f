//! The file with the user's pages and their edit keys: one JSON object a line, readable by the user alone.
//!
//! A new page is appended and synced before its address is printed, so a crash at any later point loses no key. A line
//! that a crash cut short is ignored and replaced. Any other line that is not a page is skipped and kept, because it may
//! hold a key that its user can still repair. Other changes write a new file, sync it and put it in the old one's place. Commands that run at the same time take turns by a lock on a second file, which is never replaced.

use std::collections::HashMap;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Once;

use directories::ProjectDirs;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::error::ClientError;
use super::reference::PageReference;
use handbill_core::domain::edit_key::EditKey;
use handbill_core::domain::origin::Origin;

const FILE: &str = "keys.jsonl";
const LOCK: &str = "keys.lock";
const NEW_FILE: &str = "keys.jsonl.new";

/// The directory's mode: only the user may list it.
pub(super) const DIRECTORY_MODE: u32 = 0o700;

/// The mode of the files: only the user may read them.
const FILE_MODE: u32 = 0o600;

/// A key that is kept, and its page. It has no `Debug`, so that no message can show the key by mistake.
#[derive(Clone, Serialize, Deserialize, PartialEq, Eq)]
pub(super) struct KeptKey {
    /// The page's address.
    pub(super) url: String,
    pub(super) edit_key: String,
    pub(super) title: Option<String>,
    pub(super) created_at: Option<String>,
    /// The file that the page was published from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) source: Option<PathBuf>,
}

impl KeptKey {
    pub(super) fn is(&self, page: &PageReference) -> bool {
        self.reference().is_some_and(|own| own == *page)
    }

    /// The page's server and slug; `None` if the address is not that of a page.
    pub(super) fn reference(&self) -> Option<PageReference> {
        // An address names its own server, so the other one does not matter.
        let nowhere = Origin::parse("http://localhost").ok()?;
        self.url.contains("://").then(|| PageReference::parse(&self.url, &nowhere).ok())?
    }

    /// The key, if it has the form of one.
    pub(super) fn key(&self) -> Option<EditKey> {
        EditKey::parse(&self.edit_key).ok()
    }
}

#[derive(Clone)]
pub(super) struct KeyFile {
    directory: PathBuf,
}

/// The key file while no other command can change it.
pub(super) struct LockedKeyFile<'a> {
    file: &'a KeyFile,
    _lock: File,
}

impl KeyFile {
    /// The file in `directory`, or in the user's data directory.
    pub(super) fn in_directory(directory: Option<PathBuf>) -> Result<Self, ClientError> {
        let by_default = || ProjectDirs::from("", "", "handbill").map(|dirs| dirs.data_dir().to_owned());
        directory.or_else(by_default).map(|directory| Self { directory }).ok_or_else(|| {
            ClientError::Failed("there is no home directory for the key file: set HANDBILL_KEYS_DIR".to_owned())
        })
    }

    pub(super) fn path(&self) -> PathBuf {
        self.directory.join(FILE)
    }

    /// Every kept page, oldest first. If a page was kept twice, the newer entry counts. The user is told of lines that are
    /// not a page.
    pub(super) fn pages(&self) -> Result<Vec<KeptKey>, ClientError> {
        static TOLD: Once = Once::new();
        let bytes = self.read()?;
        let Parsed { pages, damaged } = parse(&bytes);
        for (line, _) in damaged.iter().filter(|_| !TOLD.is_completed()) {
            let path = self.path();
            eprintln!("handbill: line {line} of {} is not a kept page: it is skipped, and stays there", path.display());
        }
        TOLD.call_once(|| {});
        Ok(pages)
    }

    fn read(&self) -> Result<Vec<u8>, ClientError> {
        let mut bytes = Vec::new();
        let read = File::open(self.path()).and_then(|mut file| {
            make_private(&file, &self.path())?;
            file.read_to_end(&mut bytes)
        });
        match read {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(self.failed("read", &error)),
            _ => Ok(bytes),
        }
    }

    pub(super) fn find(&self, page: &PageReference) -> Result<Option<KeptKey>, ClientError> {
        Ok(self.pages()?.into_iter().find(|kept| kept.is(page)))
    }

    /// Waits until no other command changes the file, and creates the directory if it is missing.
    pub(super) fn lock(&self) -> Result<LockedKeyFile<'_>, ClientError> {
        let locked = || -> io::Result<File> {
            DirBuilder::new().recursive(true).mode(DIRECTORY_MODE).create(&self.directory)?;
            let lock = private().create(true).truncate(false).write(true).open(self.directory.join(LOCK))?;
            lock.lock()?;
            Ok(lock)
        };
        locked().map(|lock| LockedKeyFile { file: self, _lock: lock }).map_err(|error| self.failed("write", &error))
    }

    fn failed(&self, what: &str, error: &io::Error) -> ClientError {
        ClientError::Failed(format!("could not {what} the key file {} ({error})", self.path().display()))
    }
}

impl LockedKeyFile<'_> {
    /// Appends `page`. When this returns, the key is on disk. It fails if the page has another key there.
    pub(super) fn keep(&self, page: &KeptKey) -> io::Result<()> {
        let mut line = serde_json::to_string(page)?;
        line.push('\n');
        let mut file = private().create(true).truncate(false).read(true).write(true).open(self.file.path())?;
        make_private(&file, &self.file.path())?;
        let length = file.metadata()?.len();
        let mut bytes = Vec::new();
        (&file).take(length).read_to_end(&mut bytes)?;
        // No new page has the address of an old one, so a server that says so would only take the old one's key away.
        let is_another = |kept: &KeptKey| kept.reference() == page.reference() && kept.edit_key != page.edit_key;
        if parse(&bytes).pages.iter().any(is_another) {
            return Err(io::Error::other("it has another key of that page"));
        }
        let end = bytes.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end as u64 + 1);
        if end < length {
            file.set_len(end)?;
        }
        file.seek(SeekFrom::Start(end))?;
        file.write_all(line.as_bytes())?;
        file.sync_all()?;
        sync_directory(&self.file.directory)
    }

    /// Replaces all pages. Lines that are not a page stay, after them.
    pub(super) fn replace(&self, pages: &[KeptKey]) -> Result<(), ClientError> {
        let before = self.file.read()?;
        let written = || -> io::Result<()> {
            let new = self.file.directory.join(NEW_FILE);
            let mut file = private().create(true).truncate(true).write(true).open(&new)?;
            file.write_all(lines(pages)?.as_bytes())?;
            for (_, line) in parse(&before).damaged {
                file.write_all(&[line, b"\n"].concat())?;
            }
            file.sync_all()?;
            fs::rename(&new, self.file.path())?;
            sync_directory(&self.file.directory)
        };
        written().map_err(|error| self.file.failed("write", &error))
    }
}

pub(super) fn lines(pages: &[KeptKey]) -> io::Result<String> {
    let mut text = String::new();
    for page in pages {
        text.push_str(&serde_json::to_string(page)?);
        text.push('\n');
    }
    Ok(text)
}

/// The pages in a key file, and the lines that are not a page with a key, each with its number.
struct Parsed<'a> {
    pages: Vec<KeptKey>,
    damaged: Vec<(usize, &'a [u8])>,
}

/// The lines of a key file. A last line without its end was cut by a crash and is ignored.
fn parse(bytes: &[u8]) -> Parsed<'_> {
    let whole = bytes.iter().rposition(|&byte| byte == b'\n').unwrap_or(0);
    let (mut pages, mut last, mut damaged) = (Vec::new(), HashMap::new(), Vec::new());
    for (number, line) in (1_usize..).zip(bytes[..whole].split(|&byte| byte == b'\n')) {
        if line.trim_ascii().is_empty() {
            continue;
        }
        let page = serde_json::from_slice(line).ok().filter(|page: &KeptKey| page.key().is_some());
        let Some((reference, page)) = page.and_then(|page| Some((page.reference()?, page))) else {
            damaged.push((number, line));
            continue;
        };
        last.insert(reference.clone(), number);
        pages.push((number, reference, page));
    }
    pages.retain(|(number, reference, _)| last.get(reference) == Some(number));
    Parsed { pages: pages.into_iter().map(|(.., page)| page).collect(), damaged }
}

/// The pages in `text`, which is an export, or has edit links, or addresses, each with its key on the next line: as `publish`
/// shows a key that it cannot keep, as a shell gets it, and as the editor's download has it. An error is the number of the
/// first line that is not a page with a key.
pub(super) fn parse_import(text: &str) -> Result<Vec<KeptKey>, usize> {
    let key_in = |line: &str| line.rfind("hbk_").and_then(|at| EditKey::parse(&line[at..]).ok());
    let mut entries = String::new();
    let mut lines = text.lines().map(str::trim).peekable();
    while let Some(line) = lines.next() {
        // The number of lines stays the same, so that an error names the right one.
        if let Some((url, key)) = line.split_once("/edit#").filter(|(_, key)| EditKey::parse(key).is_ok()) {
            entries.push_str(&json!({"url": url, "edit_key": key}).to_string());
        } else if let Some(key) = lines.peek().copied().and_then(key_in).filter(|_| !line.is_empty()) {
            lines.next();
            entries.push('\n');
            entries.push_str(&json!({"url": line, "edit_key": key.reveal()}).to_string());
        } else {
            entries.push_str(line);
        }
        entries.push('\n');
    }
    let Parsed { pages, damaged } = parse(entries.as_bytes());
    damaged.first().map_or(Ok(pages), |(line, _)| Err(*line))
}

/// Takes from others the right to read an older file, and tells the user that they had it.
fn make_private(file: &File, path: &Path) -> io::Result<()> {
    let found = file.metadata()?;
    // A device, such as a full one in a test, belongs to everybody.
    if found.is_file() && found.permissions().mode() & 0o077 != 0 {
        file.set_permissions(fs::Permissions::from_mode(FILE_MODE))?;
        eprintln!("handbill: others could read the keys in {}: only you can read it now", path.display());
    }
    Ok(())
}

/// Options that create a file which only the user can read.
pub(super) fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.mode(FILE_MODE);
    options
}

/// Puts the names in `directory` on disk.
fn sync_directory(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use tempfile::tempdir;

    use super::*;

    fn page(slug: &str) -> KeptKey {
        KeptKey {
            url: format!("https://pages.example/{slug}"),
            edit_key: format!("hbk_{}", "k".repeat(43)),
            title: Some("A \"page\"\n".to_owned()),
            created_at: None,
            source: Some(PathBuf::from("/notes/a.md")),
        }
    }

    fn urls(file: &KeyFile) -> Vec<String> {
        file.pages().unwrap().into_iter().map(|page| page.url).collect()
    }

    #[test]
    fn pages_are_kept_in_a_file_that_only_the_user_can_read() {
        let directory = tempdir().unwrap();
        let file = KeyFile::in_directory(Some(directory.path().join("a/b"))).unwrap();
        assert_eq!(urls(&file), [""; 0]);
        for slug in ["a-page-22222222", "b-page-22222222"] {
            file.lock().unwrap().keep(&page(slug)).unwrap();
        }
        assert!(file.pages().unwrap() == [page("a-page-22222222"), page("b-page-22222222")]);
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&file.path()), mode(&directory.path().join("a/b"))), (0o600, 0o700));
        file.lock().unwrap().replace(&[page("c-page-22222222")]).unwrap();
        assert_eq!((urls(&file).len(), mode(&file.path())), (1, 0o600));
    }

    #[test]
    fn a_line_that_a_crash_cut_short_is_ignored_and_replaced() {
        let directory = tempdir().unwrap();
        let file = KeyFile::in_directory(Some(directory.path().to_owned())).unwrap();
        file.lock().unwrap().keep(&page("a-page-22222222")).unwrap();
        let whole = fs::read_to_string(file.path()).unwrap();
        for cut in 1..whole.len() {
            fs::write(file.path(), format!("{whole}{}", &whole[..cut])).unwrap();
            assert_eq!(urls(&file).len(), 1);
            file.lock().unwrap().keep(&page("b-page-22222222")).unwrap();
            assert_eq!(urls(&file).len(), 2, "{cut}");
        }
    }

    #[test]
    fn a_line_that_somebody_damaged_is_skipped_and_stays() {
        let directory = tempdir().unwrap();
        let file = KeyFile::in_directory(Some(directory.path().to_owned())).unwrap();
        let good = lines(&[page("a-page-22222222")]).unwrap();
        for damaged in ["{}", "hbk_", r#"{"url": "https://pages.example/a-page-22222222", "edit_key": "x"}"#] {
            fs::write(file.path(), format!("{damaged}\n{good}")).unwrap();
            assert_eq!(parse(&file.read().unwrap()).damaged, [(1, damaged.as_bytes())]);
            file.lock().unwrap().keep(&page("b-page-22222222")).unwrap();
            assert_eq!(urls(&file).len(), 2);
            file.lock().unwrap().replace(&[page("c-page-22222222")]).unwrap();
            let left = fs::read_to_string(file.path()).unwrap();
            assert_eq!(left, format!("{}{damaged}\n", lines(&[page("c-page-22222222")]).unwrap()));
        }
    }

    #[test]
    fn an_address_and_the_key_on_the_next_line_are_an_entry_too() {
        let (one, two) = (page("a-page-22222222"), page("b-page-22222222"));
        let bare = |page: &KeptKey| KeptKey { title: None, source: None, ..page.clone() };
        let two_lines = |page: &KeptKey, words: &str| format!("{}\r\n{words}{}\r\n", page.url, page.edit_key);
        let text = format!(
            "{}\n{}{}",
            two_lines(&one, ""),
            lines(&[page("c-page-22222222")]).unwrap(),
            two_lines(&two, "Edit key (shown this once): ")
        );
        assert!(parse_import(&text).unwrap() == [bare(&one), page("c-page-22222222"), bare(&two)]);
        // An edit link has both.
        let link = |page: &KeptKey| format!("{}/edit#{}\n", page.url, page.edit_key);
        assert!(parse_import(&(link(&one) + &link(&two))).unwrap() == [bare(&one), bare(&two)]);
        let address = &one.url;
        let key = &one.edit_key;
        for (damaged, line) in [
            (format!("{address}\n"), 1),
            (format!("\n{address}\n\n{key}\n"), 2),
            (format!("{address}\n{key}x\n"), 1),
            (format!("words\n{key}\n"), 2),
            (format!("{key}\n{address}\n"), 1),
        ] {
            assert!(parse_import(&damaged) == Err(line), "{damaged}");
        }
    }

    #[test]
    fn the_newer_of_two_entries_of_a_page_counts() {
        let newer = KeptKey { title: None, ..page("a-page-22222222") };
        let text = lines(&[page("a-page-22222222"), page("b-page-22222222"), newer.clone()]).unwrap();
        assert!(parse(text.as_bytes()).pages == [page("b-page-22222222"), newer]);
    }
}

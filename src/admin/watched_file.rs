//! A file that is read again when it has changed.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

/// A file and the state in which it was read last.
pub(super) struct WatchedFile {
    path: PathBuf,
    seen: Option<Stamp>,
}

/// Facts about a file that change whenever the file is written or replaced, or a link to it leads to another file.
type Stamp = (u64, u64, u64, i64, i64);

impl WatchedFile {
    /// The file `path`, not read yet.
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path, seen: None }
    }

    /// The file's text if it is not in the state in which it was read last. After an error it is read again the next
    /// time.
    pub(super) fn changed(&mut self) -> io::Result<Option<String>> {
        // The state is taken before the text. A file that changes in between is read once more the next time.
        let found =
            fs::metadata(&self.path).map(|data| (data.dev(), data.ino(), data.size(), data.mtime(), data.mtime_nsec()));
        let found = found.inspect_err(|_| self.seen = None)?;
        if self.seen == Some(found) {
            return Ok(None);
        }
        let text = fs::read_to_string(&self.path).inspect_err(|_| self.seen = None)?;
        self.seen = Some(found);
        Ok(Some(text))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_file_is_read_once_in_each_of_its_states() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("list");
        let mut file = WatchedFile::new(path.clone());
        assert!(file.changed().is_err());
        for text in ["one", "other text", ""] {
            fs::write(&path, text).unwrap();
            assert_eq!(file.changed().unwrap().as_deref(), Some(text));
            assert_eq!(file.changed().unwrap(), None);
        }
        fs::remove_file(&path).unwrap();
        assert!(file.changed().is_err());
        fs::write(&path, "").unwrap();
        assert_eq!(file.changed().unwrap().as_deref(), Some(""), "it is read again after it was away");
    }

    #[test]
    fn a_link_that_is_turned_to_another_file_is_a_change() {
        let directory = tempfile::tempdir().unwrap();
        let [first, second, link] = ["first", "second", "link"].map(|name| directory.path().join(name));
        fs::write(&first, "text").unwrap();
        fs::write(&second, "tex2").unwrap();
        symlink(&first, &link).unwrap();
        let mut file = WatchedFile::new(link.clone());
        assert_eq!(file.changed().unwrap().as_deref(), Some("text"));
        fs::remove_file(&link).unwrap();
        symlink(&second, &link).unwrap();
        assert_eq!(file.changed().unwrap().as_deref(), Some("tex2"));
    }
}

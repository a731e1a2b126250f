//! Making the data directory so that a power failure cannot take it away with the pages in it.
//!
//! A new directory is a name in its parent, and only a sync of the parent puts that name on disk.

use std::fs::{DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

/// Pages may be drafts that nobody was given the address of: only the service's user reads them on disk.
const MODE: u32 = 0o700;

/// What is asked of the file system. A test has one that loses power.
pub(super) trait Folders {
    /// Whether there is a directory at `path`.
    fn is_directory(&self, path: &Path) -> bool;

    /// Makes one directory, whose parent is there.
    fn make(&self, path: &Path) -> io::Result<()>;

    /// Puts the names in the directory at `path` on disk.
    fn sync(&self, path: &Path) -> io::Result<()>;
}

/// The machine's own file system.
pub(super) struct FileSystem;

impl Folders for FileSystem {
    fn is_directory(&self, path: &Path) -> bool {
        path.is_dir()
    }

    fn make(&self, path: &Path) -> io::Result<()> {
        DirBuilder::new().mode(MODE).create(path)
    }

    fn sync(&self, path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }
}

/// Makes `directory` and whatever is missing on the way to it. When this returns, all that it made is on disk.
pub(super) fn make(folders: &impl Folders, directory: &Path) -> io::Result<()> {
    let missing: Vec<_> = way_to(directory).take_while(|part| !folders.is_directory(part)).collect();
    for part in missing.into_iter().rev() {
        match folders.make(part) {
            // Another process was faster, and may not have synced it yet.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && folders.is_directory(part) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                return Err(io::ErrorKind::NotADirectory.into());
            }
            made => made?,
        }
        folders.sync(parent_of(part))?;
    }
    Ok(())
}

/// Syncs every directory on the way to `directory`, which is there: an earlier start may have been killed between making
/// one and syncing it. Those that this process cannot sync were made by somebody else.
pub(super) fn sync_way(folders: &impl Folders, directory: &Path) {
    for part in way_to(directory) {
        let _ = folders.sync(parent_of(part));
    }
}

/// `path` and the directories above it, from below.
fn way_to(path: &Path) -> impl Iterator<Item = &Path> {
    path.ancestors().take_while(|part| !part.as_os_str().is_empty())
}

fn parent_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        // The root is its own parent.
        None => path,
        Some(_) => Path::new("."),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::collections::BTreeMap;
    use std::path::PathBuf;

    use super::*;

    /// Directories, and whether the name of each is on disk.
    struct Simulated(RefCell<BTreeMap<PathBuf, bool>>);

    impl Simulated {
        fn with(directories: &[&str]) -> Self {
            Self(RefCell::new(directories.iter().map(|path| (PathBuf::from(path), true)).collect()))
        }

        fn survives_a_power_failure(&self, path: &str) -> bool {
            let directories = self.0.borrow();
            way_to(Path::new(path)).all(|part| directories.get(part).copied().unwrap_or(false))
        }
    }

    impl Folders for Simulated {
        fn is_directory(&self, path: &Path) -> bool {
            self.0.borrow().contains_key(path)
        }

        fn make(&self, path: &Path) -> io::Result<()> {
            assert!(self.is_directory(parent_of(path)), "{} has no parent", path.display());
            match self.0.borrow_mut().insert(path.to_owned(), false) {
                None => Ok(()),
                Some(_) => Err(io::ErrorKind::AlreadyExists.into()),
            }
        }

        fn sync(&self, path: &Path) -> io::Result<()> {
            for (entry, durable) in self.0.borrow_mut().iter_mut() {
                *durable |= parent_of(entry) == path;
            }
            Ok(())
        }
    }

    #[test]
    fn every_new_directory_on_the_way_survives_a_power_failure() {
        for path in ["/data", "/var/data", "/var/lib/handbill/data", "data", "some/where/else", "./data"] {
            let folders = Simulated::with(&["/", "/var", "."]);
            make(&folders, Path::new(path)).unwrap();
            assert!(folders.survives_a_power_failure(path), "{path}");
        }
    }

    #[test]
    fn a_directory_that_an_earlier_start_made_but_did_not_sync_is_synced() {
        let folders = Simulated::with(&["/"]);
        for path in ["/a", "/a/b", "/a/b/c"] {
            folders.make(Path::new(path)).unwrap();
        }
        let path = "/a/b/c";
        make(&folders, Path::new(path)).unwrap();
        assert!(!folders.survives_a_power_failure(path), "making finds it there");
        sync_way(&folders, Path::new(path));
        assert!(folders.survives_a_power_failure(path));
    }
}

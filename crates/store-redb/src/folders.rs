//! Creates the data directory so that a power failure cannot remove it with the pages in it.
//!
//! A new directory is a name in its parent. Only a sync of the parent puts that name on disk.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, fchown};
use std::path::Path;

/// The mode of a new directory. A page may be a draft with an address that nobody else knows, so only the service's
/// user may read pages on disk.
const MODE: u32 = 0o700;

const FILE_MODE: u32 = 0o600;

/// Opens a file of the data directory for reading and writing, after it has been created if it is missing.
///
/// The file gets the owner of its directory: what a command of root has made can be opened by the service.
pub(super) fn create_file(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(FILE_MODE).open(path)?;
    give_to_owner(&file, path)?;
    Ok(file)
}

fn give_to_owner(new: &File, path: &Path) -> io::Result<()> {
    let (metadata, owner) = (new.metadata()?, fs::metadata(parent_of(path))?);
    if metadata.uid() != owner.uid() {
        // Only root can. Anybody else is the user who will open the file again.
        let _ = fchown(new, Some(owner.uid()), Some(owner.gid()));
    }
    Ok(())
}

/// Operations of the file system. Tests use an implementation that loses power.
pub(super) trait Folders {
    fn is_directory(&self, path: &Path) -> bool;

    /// Creates one directory. Its parent exists.
    fn create(&self, path: &Path) -> io::Result<()>;

    /// Puts the names in the directory at `path` on disk.
    fn sync(&self, path: &Path) -> io::Result<()>;
}

/// The machine's own file system.
pub(super) struct FileSystem;

impl Folders for FileSystem {
    fn is_directory(&self, path: &Path) -> bool {
        path.is_dir()
    }

    fn create(&self, path: &Path) -> io::Result<()> {
        DirBuilder::new().mode(MODE).create(path)?;
        give_to_owner(&File::open(path)?, path)
    }

    fn sync(&self, path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }
}

/// Creates `directory` and its missing ancestors. When this returns, all of them are on disk.
pub(super) fn create_all(folders: &impl Folders, directory: &Path) -> io::Result<()> {
    let missing: Vec<_> = upwards(directory).take_while(|part| !folders.is_directory(part)).collect();
    for part in missing.into_iter().rev() {
        match folders.create(part) {
            // Another process created the directory first, and may not have synced it yet.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && folders.is_directory(part) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                return Err(io::ErrorKind::NotADirectory.into());
            }
            created => created?,
        }
        folders.sync(parent_of(part))?;
    }
    Ok(())
}

/// Syncs every ancestor of `directory`, which must exist. An earlier start may have been killed between creating an
/// ancestor and syncing it. If this process cannot sync an ancestor, somebody else created that ancestor.
pub(super) fn sync_ancestors(folders: &impl Folders, directory: &Path) {
    for part in upwards(directory) {
        let _ = folders.sync(parent_of(part));
    }
}

fn upwards(path: &Path) -> impl Iterator<Item = &Path> {
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
            upwards(Path::new(path)).all(|part| directories.get(part).copied().unwrap_or(false))
        }
    }

    impl Folders for Simulated {
        fn is_directory(&self, path: &Path) -> bool {
            self.0.borrow().contains_key(path)
        }

        fn create(&self, path: &Path) -> io::Result<()> {
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
            create_all(&folders, Path::new(path)).unwrap();
            assert!(folders.survives_a_power_failure(path), "{path}");
        }
    }

    #[test]
    fn a_directory_that_an_earlier_start_made_but_did_not_sync_is_synced() {
        let folders = Simulated::with(&["/"]);
        for path in ["/a", "/a/b", "/a/b/c"] {
            folders.create(Path::new(path)).unwrap();
        }
        let path = "/a/b/c";
        create_all(&folders, Path::new(path)).unwrap();
        assert!(!folders.survives_a_power_failure(path), "making finds it there");
        sync_ancestors(&folders, Path::new(path));
        assert!(folders.survives_a_power_failure(path));
    }
}

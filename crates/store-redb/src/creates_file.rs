//! The switch of creates in a file, for a store that one process uses: `{"paused": true, "hourly_budget": 500}`.
//!
//! The process reads the file every second, so it can be written by hand too. No file means that nothing is restricted.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use parking_lot::Mutex;
use thiserror::Error;
use tokio::task::spawn_blocking;

use super::folders::create_file;
use crate::domain::creates::{Creates, MAX_HOURLY_BUDGET};
use crate::ports::creates_switch::CreatesSwitch;
use crate::ports::page_store::StoreError;

pub struct CreatesFile {
    path: PathBuf,
    /// The limits that were kept last, in the file of [`last_path`].
    kept: Arc<Mutex<Option<Creates>>>,
}

#[derive(Debug, Error)]
#[error("{} is not as expected ({reason}): write {{\"paused\": false, \"hourly_budget\": null}}, or remove the file", path.display())]
struct SenselessFile {
    path: PathBuf,
    reason: String,
}

impl CreatesFile {
    /// The switch in the file `path`, which need not exist.
    pub fn new(path: PathBuf) -> Self {
        Self { path, kept: Arc::default() }
    }
}

#[async_trait]
impl CreatesSwitch for CreatesFile {
    async fn load(&self) -> Result<Creates, StoreError> {
        let (path, kept) = (self.path.clone(), Arc::clone(&self.kept));
        let loading = spawn_blocking(move || {
            let creates = load(&path)?;
            let mut kept = kept.lock();
            // Next time is early enough if it cannot be written now.
            if *kept != Some(creates) && save(&last_path(&path), creates).is_ok() {
                *kept = Some(creates);
            }
            Ok(creates)
        });
        loading.await.unwrap_or_else(|panicked| Err(StoreError::Unavailable(panicked.into())))
    }

    async fn last(&self) -> Option<Creates> {
        let path = last_path(&self.path);
        let is_there = path.exists();
        let loaded = spawn_blocking(move || load(&path)).await.ok()?.ok();
        loaded.filter(|_| is_there)
    }

    async fn save(&self, creates: Creates) -> Result<(), StoreError> {
        let path = self.path.clone();
        let saving =
            spawn_blocking(move || save(&path, creates).map_err(|error| StoreError::Unavailable(error.into())));
        saving.await.unwrap_or_else(|panicked| Err(StoreError::Unavailable(panicked.into())))
    }
}

/// The file that keeps the last limits that made sense, beside the one that somebody may write by hand.
fn last_path(path: &Path) -> PathBuf {
    path.with_extension("last")
}

fn load(path: &Path) -> Result<Creates, StoreError> {
    let text = match fs::read(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Creates::default()),
        Err(error) => return Err(StoreError::Unavailable(error.into())),
    };
    let senseless = |reason: String| StoreError::Unreadable(SenselessFile { path: path.to_owned(), reason }.into());
    let creates: Creates = serde_json::from_slice(&text).map_err(|error| senseless(error.to_string()))?;
    let range = || senseless(format!("hourly_budget is not between 1 and {MAX_HOURLY_BUDGET}"));
    if creates.is_valid() { Ok(creates) } else { Err(range()) }
}

/// Replaces the file as a whole, so that no reader sees a part of it.
fn save(path: &Path, creates: Creates) -> io::Result<()> {
    let next = path.with_extension("new");
    let mut file = create_file(&next)?;
    file.set_len(0)?;
    file.write_all(&serde_json::to_vec(&creates)?)?;
    file.sync_all()?;
    fs::rename(&next, path)?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[tokio::test]
    async fn the_switch_is_what_was_saved_last_and_open_without_a_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("creates.json");
        let switch = CreatesFile::new(path.clone());
        assert_eq!(switch.load().await.unwrap(), Creates::default());
        for creates in [
            Creates { paused: true, hourly_budget: Some(7) },
            Creates { paused: false, hourly_budget: None },
            Creates { paused: false, hourly_budget: Some(MAX_HOURLY_BUDGET) },
        ] {
            switch.save(creates).await.unwrap();
            assert_eq!(CreatesFile::new(path.clone()).load().await.unwrap(), creates);
        }
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600, "as all files of the directory");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 2, "the file, and what it said last");
    }

    #[tokio::test]
    async fn a_file_that_somebody_wrote_by_hand_is_read_and_one_without_sense_says_what_to_write() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("creates.json");
        let switch = CreatesFile::new(path.clone());
        assert_eq!(switch.last().await, None);
        fs::write(&path, "{\"paused\": true}\n").unwrap();
        assert_eq!(switch.load().await.unwrap(), Creates { paused: true, hourly_budget: None });
        for senseless in ["", "paused", "{\"pause\": true}", "{\"hourly_budget\": 0}", "{\"hourly_budget\": 1000001}"] {
            fs::write(&path, senseless).unwrap();
            let Err(StoreError::Unreadable(reason)) = switch.load().await else { panic!("{senseless:?} was taken") };
            assert!(reason.to_string().contains("{\"paused\": false, \"hourly_budget\": null}"), "{reason}");
            let last = Some(Creates { paused: true, hourly_budget: None });
            assert_eq!(CreatesFile::new(path.clone()).last().await, last, "in the next process");
        }
    }
}

//! The replicas' clocks, which a test moves by libfaketime. Monotonic clocks are left alone.
//!
//! Cassandra's clock cannot be moved in this way: under libfaketime its process is busy at rest and stalls for seconds.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

pub(crate) struct Clocks(TempDir);

impl Clocks {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().expect("a folder"))
    }

    pub(crate) fn environment(&self, number: u8) -> Vec<(&'static str, OsString)> {
        let file = self.file(number);
        if !file.exists() {
            set(&file, 0);
        }
        let switches = ["FAKETIME_NO_CACHE", "FAKETIME_DONT_FAKE_MONOTONIC", "FAKETIME_DISABLE_SHM", "NO_FAKE_STAT"];
        let switches = switches.map(|switch| (switch, "1".into()));
        [("LD_PRELOAD", library().into()), ("FAKETIME_TIMESTAMP_FILE", file.into())]
            .into_iter()
            .chain(switches)
            .collect()
    }

    pub(crate) fn set(&self, number: u8, seconds: i64) {
        set(&self.file(number), seconds);
    }

    fn file(&self, number: u8) -> PathBuf {
        self.0.path().join(number.to_string())
    }
}

/// Makes `file` say how far a clock is off. Nobody sees it half written.
fn set(file: &Path, seconds: i64) {
    let fresh = file.with_extension("new");
    fs::write(&fresh, format!("{seconds:+}\n")).expect("it can be written");
    fs::rename(fresh, file).expect("it can be renamed");
}

/// The library for programs with threads, where Debian has it.
fn library() -> PathBuf {
    let folders = fs::read_dir("/usr/lib").expect("it is a folder").flatten();
    let mut libraries = folders.map(|folder| folder.path().join("faketime/libfaketimeMT.so.1"));
    libraries.find(|library| library.exists()).expect("libfaketime is installed by ./tests/run")
}

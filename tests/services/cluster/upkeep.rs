//! Commands that operators run on the cluster itself while clients are at work: exports, imports of older exports, and sweeps.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Stdio;

use tempfile::{TempDir, tempdir};
use tokio::sync::watch;

use super::service::Service;
use crate::replica::ending_with_us;

/// Texts younger than this are kept. It is twice as much as a test moves the clock of a replica.
const MIN_AGE: &str = "2h";

/// The commands, one after the other, each as a process of its own.
pub(crate) struct Upkeep {
    store: Vec<String>,
    files: TempDir,
    done: BTreeMap<&'static str, usize>,
}

impl Upkeep {
    pub(crate) fn of(service: &Service) -> Self {
        Self { store: service.store_options(), files: tempdir().expect("there is room"), done: BTreeMap::new() }
    }

    /// Goes on until `is_over`. How often each command succeeded; one that meets a fault may fail.
    pub(crate) async fn go_on(mut self, is_over: watch::Receiver<bool>) -> BTreeMap<&'static str, usize> {
        let mut before: Option<PathBuf> = None;
        for number in 1.. {
            let file = self.files.path().join(format!("{number}.ndjson.zst"));
            let is_whole = self.command("export", &[&file.to_string_lossy()]).await;
            // By now clients have changed, hidden and deleted what an older file has.
            if let Some(older) = &before {
                self.command("import", &[&older.to_string_lossy()]).await;
            }
            self.command("sweep", &["--min-age", MIN_AGE]).await;
            if is_whole {
                before = Some(file);
            }
            if *is_over.borrow() {
                break;
            }
        }
        self.done
    }

    /// Whether the command succeeded.
    async fn command(&mut self, name: &'static str, arguments: &[&str]) -> bool {
        let mut command = ending_with_us(env!("CARGO_BIN_EXE_handbill"));
        command.env_clear().arg(name).args(arguments).args(&self.store).kill_on_drop(true);
        let ended = command.stdout(Stdio::null()).stderr(Stdio::null()).status().await.expect("it starts");
        *self.done.entry(name).or_default() += usize::from(ended.success());
        ended.success()
    }
}

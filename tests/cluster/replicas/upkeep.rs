//! Commands that operators run while clients are at work: exports, and imports of older exports.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use handbill_test_support::server::program;
use tempfile::{TempDir, tempdir};
use tokio::sync::watch;

use super::service::Service;
use crate::deployment::ending_with_us;

/// The commands, one after the other, each as a process of its own, which asks a replica.
pub(crate) struct Upkeep {
    socket: PathBuf,
    files: TempDir,
    done: BTreeMap<&'static str, usize>,
}

impl Upkeep {
    pub(crate) fn of(service: &Service) -> Self {
        Self { socket: service.socket(1), files: tempdir().expect("there is room"), done: BTreeMap::new() }
    }

    /// Goes on until `is_over`. How often each command succeeded; one that meets a fault may fail.
    pub(crate) async fn go_on(mut self, is_over: watch::Receiver<bool>) -> BTreeMap<&'static str, usize> {
        let mut before: Option<PathBuf> = None;
        for number in 1.. {
            let file = self.files.path().join(format!("{number}.ndjson"));
            let output = File::create(&file).expect("there is room");
            let is_whole = self.command("export", None, output.into()).await;
            // By now clients have changed, hidden and deleted what an older file has.
            if let Some(older) = &before {
                self.command("import", Some(older), Stdio::null()).await;
            }
            if is_whole {
                before = Some(file);
            }
            if *is_over.borrow() {
                break;
            }
        }
        self.done
    }

    async fn command(&mut self, name: &'static str, file: Option<&Path>, output: Stdio) -> bool {
        let mut command = ending_with_us(&program());
        command.env_clear().arg(name).args(file).arg("--admin-socket").arg(&self.socket).kill_on_drop(true);
        let ended = command.stdout(output).stderr(Stdio::null()).status().await.expect("it starts");
        *self.done.entry(name).or_default() += usize::from(ended.success());
        ended.success()
    }
}

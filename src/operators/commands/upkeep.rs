//! `handbill check` and `handbill compact`, which work on the files of an embedded store that no process uses.

use std::process::ExitCode;

use clap::Args;

use super::lines::{print_line, progress, shown};
use super::stores::Stores;
use crate::config::EmbeddedSettings;

/// The arguments of `handbill check`.
#[derive(Args, Debug)]
pub struct Check {
    #[command(flatten)]
    embedded: EmbeddedSettings,
}

/// The arguments of `handbill compact`.
#[derive(Args, Debug)]
pub struct Compact {
    #[command(flatten)]
    embedded: EmbeddedSettings,
}

impl Check {
    /// Exit code 1 if something is wrong.
    pub(super) fn run(&self, stores: &impl Stores) -> Result<ExitCode, String> {
        let bar = progress(None);
        let checked = stores.check(&self.embedded, &|done, all| {
            bar.set_length(all.unwrap_or(done));
            bar.set_position(done);
        });
        bar.finish_and_clear();
        let checked = checked?;
        for fault in &checked.faults {
            print_line(&format!("fault: {}", shown(fault)))?;
        }
        let further = checked.fault_count - checked.faults.len() as u64;
        if further > 0 {
            print_line(&format!("and {further} more faults"))?;
        }
        let (pages, tombstones) = (checked.pages, checked.tombstones);
        let verdict = if checked.fault_count == 0 { "whole" } else { "damaged" };
        print_line(&format!(
            "{}: {verdict}; {pages} pages and {tombstones} deletions can be read, {} deletions are in the ledger",
            self.embedded.data_dir.display(),
            checked.ledger,
        ))?;
        Ok(if checked.fault_count == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

impl Compact {
    pub(super) fn run(&self, stores: &impl Stores) -> Result<ExitCode, String> {
        let bar = progress(None);
        let compacted = stores.compact(&self.embedded, &|done, all| {
            bar.set_length(all.unwrap_or(done));
            bar.set_position(done);
        });
        bar.finish_and_clear();
        let (before, after) = compacted?;
        print_line(&format!("{before} bytes before, {after} bytes after"))?;
        Ok(ExitCode::SUCCESS)
    }
}

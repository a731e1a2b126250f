//! `handbill check` and `handbill compact`, which work on the files of an embedded store that no process uses.

use std::process::ExitCode;

use clap::Args;

use super::lines::{print_line, progress, shown, shown_on};
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
    pub(super) fn run(&self) -> Result<ExitCode, String> {
        let bar = progress(None);
        let checked = handbill_store_redb::check(&self.embedded.data_dir, &shown_on(&bar));
        bar.finish_and_clear();
        let checked = checked.map_err(|error| error.to_string())?;
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
    pub(super) fn run(&self) -> Result<ExitCode, String> {
        let bar = progress(None);
        let compacted = handbill_store_redb::compact(&self.embedded.data_dir, &shown_on(&bar));
        bar.finish_and_clear();
        let compacted = compacted.map_err(|error| error.to_string())?;
        print_line(&format!("{} bytes before, {} bytes after", compacted.before, compacted.after))?;
        Ok(ExitCode::SUCCESS)
    }
}

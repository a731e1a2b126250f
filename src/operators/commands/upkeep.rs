//! `handbill check`, and `handbill compact`. On an embedded store they work on its files, which no process may use.

use std::num::NonZero;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;

use super::lines::{print_line, progress, shown, shown_on};
use crate::config::{EmbeddedSettings, Moved, PlaceSettings};
use handbill_core::domain::counted::counted;
use handbill_core::ports::clock::{Clock, SystemClock};
use handbill_store_cql::{CqlSettings, Share, SweepPlan};

/// Younger texts that no page shows are not counted: they may belong to writes under way.
const DAY: Duration = Duration::from_hours(24);

#[derive(Args, Debug)]
pub struct Check {
    /// Check this part of a cluster alone, such as 3/8
    #[arg(long, value_name = "NUMBER/OF", default_value = "1/1")]
    part: Share,
    /// Keys of a cluster read in a second, which bounds the load
    #[arg(long, value_name = "KEYS", default_value = "2000")]
    rows_per_second: NonZero<u32>,
    #[command(flatten)]
    place: PlaceSettings,
}

#[derive(Args, Debug)]
pub struct Compact {
    #[command(flatten)]
    embedded: EmbeddedSettings,
}

impl Check {
    /// Exit code 1 if something is wrong.
    pub(super) async fn run(&self) -> Result<ExitCode, String> {
        match self.place.place_of(self.part).map_err(|wrong| wrong.to_string())? {
            Moved::Files(embedded) => check_files(embedded),
            Moved::Cluster(cluster) => self.check_cluster(&cluster).await,
        }
    }

    async fn check_cluster(&self, cluster: &CqlSettings) -> Result<ExitCode, String> {
        let (now, rows_per_second) = (SystemClock::new().now(), self.rows_per_second);
        let plan = SweepPlan { dry_run: true, min_age: DAY, share: self.part, rows_per_second, now };
        // A line that cannot be printed is counted all the same.
        let fault = |line: &str| drop(print_line(&format!("fault: {}", shown(line))));
        let checked = Box::pin(handbill_store_cql::check(cluster, plan, fault)).await;
        let checked = checked.map_err(|error| error.to_string())?;
        print_line(&checked.to_string())?;
        Ok(if checked.is_whole() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

fn check_files(embedded: &EmbeddedSettings) -> Result<ExitCode, String> {
    let bar = progress(None);
    let checked = handbill_store_redb::check(&embedded.data_dir, &shown_on(&bar));
    bar.finish_and_clear();
    let checked = checked.map_err(|error| error.to_string())?;
    for fault in &checked.faults {
        print_line(&format!("fault: {}", shown(fault)))?;
    }
    let further = checked.fault_count - checked.faults.len() as u64;
    if further > 0 {
        print_line(&format!("and {} more", counted(further, "fault")))?;
    }
    let [tombstones, ledger] = [checked.tombstones, checked.ledger].map(|count| counted(count, "deletion"));
    let verdict = if checked.fault_count == 0 { "whole" } else { "damaged" };
    print_line(&format!(
        "{}: {verdict}; {} and {tombstones} can be read; the ledger has {ledger}",
        embedded.data_dir.display(),
        counted(checked.pages, "page"),
    ))?;
    Ok(if checked.fault_count == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
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

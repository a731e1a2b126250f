//! Options of `handbill sweep`.

use std::num::NonZero;
use std::time::Duration;

use clap::Args;

use super::ClusterSettings;

/// The settings that `sweep` uses.
#[derive(Args, Debug)]
pub struct SweepSettings {
    #[command(flatten, next_help_heading = "Sweep")]
    pub options: SweepOptions,
    #[command(flatten)]
    pub cluster: ClusterSettings,
}

/// The options of `sweep` itself.
#[derive(Args, Clone, Copy, Debug)]
pub struct SweepOptions {
    /// Only count the texts that would be deleted
    #[arg(long)]
    pub dry_run: bool,
    /// Keep texts younger than this; it must be far above the difference of the replicas' clocks
    #[arg(long, value_name = "DURATION", default_value = "1d", value_parser = min_age)]
    pub min_age: Duration,
    /// Keys read in a second, which bounds the load on the cluster
    #[arg(long, value_name = "KEYS", default_value = "2000")]
    pub rows_per_second: NonZero<u32>,
}

/// Shortest `--min-age`: far longer than a write takes.
const SHORTEST_AGE: Duration = Duration::from_mins(10);

fn min_age(text: &str) -> Result<Duration, String> {
    let age = humantime::parse_duration(text).map_err(|error| error.to_string())?;
    if age < SHORTEST_AGE {
        Err("give at least 10m: a younger text may belong to a write under way".to_owned())
    } else {
        Ok(age)
    }
}

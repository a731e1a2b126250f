//! Settings of what may be published, and of whom readers can tell.

use std::path::PathBuf;

use clap::Args;

/// Settings of what may be published.
#[derive(Args, Debug)]
pub struct ModerationSettings {
    /// File with hosts and fingerprints that no page may have, one a line; it is read again when it changes [default: none]
    #[arg(long, env = "HANDBILL_BLOCKLIST_FILE", value_name = "FILE")]
    pub blocklist_file: Option<PathBuf>,
}

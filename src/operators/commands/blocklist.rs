//! `handbill blocklist recheck`: finds published pages that the list refuses now.

use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::client::Client;
use super::criteria::find;
use super::reader::Reader;
use super::stores::Stores;
use crate::config::{BlocklistSettings, OperatedSettings};
use crate::operators::api::types::ScanRequest;
use crate::operators::moderation::check_blocklist;
use handbill_core::domain::timestamp::UnixMillis;
use handbill_core::ports::clock::{Clock, SystemClock};
use handbill_core::service::PublishingPolicy;

/// An act on the list. It is no subcommand, because only commands know which options belong to another store.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Act {
    /// Print the published pages that the list refuses now, one a line, for handbill hide to read
    Recheck,
}

/// The arguments of `handbill blocklist`. A running process uses the list that is in force there.
#[derive(Args, Debug)]
pub struct Blocklist {
    /// The act: recheck
    #[arg(value_enum)]
    act: Act,
    /// Only pages that were created or changed within this time
    #[arg(long, value_name = "DURATION", default_value = "30d", value_parser = humantime::parse_duration)]
    since: Duration,
    /// Print one JSON object a line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    reader: Reader,
    #[command(flatten, next_help_heading = "Moderation")]
    list: BlocklistSettings,
    #[command(flatten)]
    settings: OperatedSettings,
}

impl Blocklist {
    pub(super) async fn run(&self, stores: &Stores<'_>) -> Result<ExitCode, String> {
        let Self { act: Act::Recheck, since, json, reader, list, settings } = self;
        let policy = PublishingPolicy::default();
        if let Some(path) = &list.blocklist_file {
            policy.set_blocklist(check_blocklist(path).map_err(|error| error.to_string())?);
        }
        let client = Client::under(policy, settings, stores).await?;
        let since = i64::try_from(since.as_millis()).unwrap_or(i64::MAX);
        let changed_after = UnixMillis::new(SystemClock::new().now().get().saturating_sub(since));
        let changed_after = Some(changed_after.to_string());
        let request = ScanRequest { by: reader.name(), changed_after, refused: true, ..ScanRequest::default() };
        find(&client, request, *json, |is_hidden| !is_hidden).await?;
        Ok(ExitCode::SUCCESS)
    }
}

//! Keeps what operators allow up to date: the blocklist in its file, and whether creates are paused.

use std::fs;
use std::mem;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use prometheus_client::metrics::gauge::Gauge;
use thiserror::Error;
use tokio::task::spawn_blocking;
use tokio::time::{MissedTickBehavior, interval};

use super::watched_file::WatchedFile;
use crate::telemetry::labels::RefusalLabels;
use crate::telemetry::metrics::Metrics;
use handbill_core::domain::blocklist::Blocklist;
use handbill_core::ports::creates_switch::CreatesSwitch;
use handbill_core::ports::page_store::{NotReachedError, StoreError};
use handbill_core::service::PublishingPolicy;

/// How often the blocklist and the switch are looked at. Operators see a change take effect at once, and a look costs next
/// to nothing.
const RELOAD_INTERVAL: Duration = Duration::from_secs(1);

/// The blocklist cannot be read, or its text makes no sense.
#[derive(Debug, Error)]
#[error("the blocklist {} cannot be used ({reason}): correct it, or leave --blocklist-file out", path.display())]
pub struct ModerationError {
    path: PathBuf,
    reason: String,
}

/// The operators' policy, and its sources.
pub struct Moderation {
    policy: PublishingPolicy,
    blocklist: Option<FollowedList>,
    metrics: Arc<Metrics>,
    switch: Source,
}

/// The blocklist's file, which is put into force when it has changed.
struct FollowedList {
    file: WatchedFile,
    source: Source,
    /// How many entries are in force.
    entries: usize,
}

/// Something that is read again and again, and whether that failed the last time, so that a failure is logged once.
struct Source {
    what: &'static str,
    /// The consequence until it was read.
    unread: &'static str,
    was_read: bool,
    failure: Option<String>,
    /// Shows whether the last read failed.
    stale: Option<Gauge>,
}

impl Moderation {
    /// Reads the blocklist, if there is to be one. While none was ever read, nothing is published.
    pub fn open(blocklist: Option<PathBuf>, metrics: &Arc<Metrics>) -> Self {
        let refusals = metrics.publishing_refusals.clone();
        // The objective of writes subtracts pauses, so they are there from the beginning.
        for reason in ["content", "blocklist", "paused"] {
            drop(refusals.get_or_create(&RefusalLabels { reason }));
        }
        let policy = PublishingPolicy::observed(move |reason| {
            refusals.get_or_create(&RefusalLabels { reason }).inc();
        });
        let blocklist = blocklist.map(|path| {
            policy.set_blocklist(None);
            let source = Source::new("blocklist", "nothing is published", Some(metrics.blocklist_stale.clone()));
            FollowedList { file: WatchedFile::new(path), source, entries: 0 }
        });
        let switch = Source::new("switch of creates", "no page is created", None);
        let mut moderation = Self { policy, blocklist, metrics: Arc::clone(metrics), switch };
        moderation.reload_blocklist();
        moderation
    }

    pub fn policy(&self) -> PublishingPolicy {
        self.policy.clone()
    }

    /// Reads `switch`. Until it was read, no page is created.
    pub async fn read_switch(&mut self, switch: &dyn CreatesSwitch) {
        self.switch.was_read |= self.reload_switch(switch).await.is_ok();
    }

    /// Looks at the blocklist and `switch` again and again.
    pub async fn follow(mut self, switch: Arc<dyn CreatesSwitch>) {
        let mut looks = interval(RELOAD_INTERVAL);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            looks.tick().await;
            match self.reload_switch(&*switch).await {
                // `/readyz` and the log report this already, and until then no page can be created.
                Err(StoreError::Unavailable(cause)) if cause.is::<NotReachedError>() => {}
                read => self.switch.report(read.err().map(|error| error.causes())),
            }
            let looking = spawn_blocking(move || {
                self.reload_blocklist();
                self
            });
            match looking.await {
                Ok(moderation) => self = moderation,
                // The process is ending.
                Err(_) => return,
            }
        }
    }

    /// Reads the blocklist if it has changed. After an error the list that was read last stays in force.
    pub fn reload_blocklist(&mut self) {
        if let Some(list) = &mut self.blocklist {
            let failure = list.read(&self.policy, &self.metrics).err();
            list.source.report(failure);
        }
    }

    /// Reads the switch. After an error what was read last stays.
    async fn reload_switch(&mut self, switch: &dyn CreatesSwitch) -> Result<(), StoreError> {
        let paused = switch.paused().await?;
        if self.policy.set_paused(paused) {
            tracing::info!(paused, "operators changed whether pages may be created");
        }
        self.metrics.paused.set(i64::from(paused));
        Ok(())
    }
}

impl FollowedList {
    /// Reads the file if it has changed. A text that made no sense is still an error if it has not changed.
    fn read(&mut self, policy: &PublishingPolicy, metrics: &Metrics) -> Result<(), String> {
        let Some(text) = self.file.changed().map_err(|error| error.to_string())? else {
            return self.source.failure.clone().map_or(Ok(()), Err);
        };
        let list = Blocklist::parse(&text).map_err(|error| error.to_string())?;
        let entries = list.len();
        let before = mem::replace(&mut self.entries, entries);
        if entries == 0 && before > 0 {
            tracing::warn!(before, "the blocklist was read and is empty now: nothing of it is in force");
        } else {
            tracing::info!(entries, before, "the blocklist was read");
        }
        metrics.blocklist_entries.set(i64::try_from(entries).unwrap_or(i64::MAX));
        policy.set_blocklist(list);
        Ok(())
    }
}

impl Source {
    fn new(what: &'static str, unread: &'static str, stale: Option<Gauge>) -> Self {
        Self { what, unread, was_read: false, failure: None, stale }
    }

    /// Logs a failure when it begins or changes, and its end.
    fn report(&mut self, failure: Option<String>) {
        let Self { what, unread, .. } = *self;
        match &failure {
            Some(reason) if self.failure != failure && self.was_read => {
                tracing::error!(reason, "the {what} cannot be read; what was read last stays in force");
            }
            Some(reason) if self.failure != failure => {
                tracing::error!(
                    reason,
                    "the {what} cannot be read, and no earlier one is known: {unread} until it can be read"
                );
            }
            None if self.failure.is_some() => tracing::info!("the {what} can be read again"),
            _ => {}
        }
        if let Some(stale) = &self.stale {
            stale.set(i64::from(failure.is_some()));
        }
        self.was_read |= failure.is_none();
        self.failure = failure;
    }
}

/// Fails if the blocklist at `path` cannot be used.
pub fn check_blocklist(path: &Path) -> Result<(), ModerationError> {
    let text = fs::read_to_string(path).map_err(|error| error.to_string());
    let read = text.and_then(|text| Blocklist::parse(&text).map_err(|error| error.to_string()));
    read.map(drop).map_err(|reason| ModerationError { path: path.to_owned(), reason })
}

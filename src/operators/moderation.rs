//! Keeps what operators allow up to date: the blocklist in its file, and the switch of creates.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;
use tokio::task::spawn_blocking;
use tokio::time::{MissedTickBehavior, interval};

use super::watched_file::WatchedFile;
use crate::telemetry::labels::{RefusalLabels, ReloadLabels};
use crate::telemetry::metrics::Metrics;
use handbill_core::domain::blocklist::Blocklist;
use handbill_core::ports::creates_switch::CreatesSwitch;
use handbill_core::ports::page_store::{NotReachedError, StoreError};
use handbill_core::service::PublishingPolicy;

/// How often the file and the switch are looked at. Operators see a change take effect at once, and a look costs next
/// to nothing.
const RELOAD_INTERVAL: Duration = Duration::from_secs(1);

#[derive(Debug, Error)]
pub enum ModerationError {
    /// The blocklist cannot be read, or a line makes no sense.
    #[error("the blocklist {} cannot be used ({reason}): correct it, or leave --blocklist-file out", path.display())]
    Blocklist { path: PathBuf, reason: String },
    /// The file with the switch of creates makes no sense.
    #[error("{0}")]
    Switch(String),
}

/// The operators' policy, and its sources.
pub struct Moderation {
    policy: PublishingPolicy,
    blocklist: Option<WatchedFile>,
    metrics: Arc<Metrics>,
    /// The error of the last look at the switch, so that it is logged once.
    switch_failure: Option<String>,
    /// The same for the blocklist.
    blocklist_failure: Option<String>,
}

impl Moderation {
    /// Reads `blocklist`, if there is one.
    pub fn open(blocklist: Option<PathBuf>, metrics: &Arc<Metrics>) -> Result<Self, ModerationError> {
        let refusals = metrics.publishing_refusals.clone();
        let policy = PublishingPolicy::observed(move |reason| {
            refusals.get_or_create(&RefusalLabels { reason }).inc();
        });
        let mut moderation = Self {
            policy,
            blocklist: blocklist.map(WatchedFile::new),
            metrics: Arc::clone(metrics),
            switch_failure: None,
            blocklist_failure: None,
        };
        moderation.reload_blocklist().map_err(|reason| ModerationError::Blocklist {
            path: moderation.blocklist.as_ref().map(|file| file.path().to_owned()).unwrap_or_default(),
            reason,
        })?;
        Ok(moderation)
    }

    pub fn policy(&self) -> PublishingPolicy {
        self.policy.clone()
    }

    /// Reads `switch`. A switch that cannot be reached yet does not stop the start: it is read again soon.
    pub async fn read_switch(&mut self, switch: &dyn CreatesSwitch) -> Result<(), ModerationError> {
        match self.reload_switch(switch).await {
            Err(StoreError::Unreadable(reason)) => Err(ModerationError::Switch(reason.to_string())),
            _ => Ok(()),
        }
    }

    /// Looks at the file and `switch` again and again.
    pub async fn follow(mut self, switch: Arc<dyn CreatesSwitch>) {
        let mut looks = interval(RELOAD_INTERVAL);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            looks.tick().await;
            match self.reload_switch(&*switch).await {
                // `/readyz` and the log report this already, and until then no page can be created.
                Err(StoreError::Unavailable(cause)) if cause.is::<NotReachedError>() => {}
                read => {
                    let failure = read.err().map(|error| chain(&error));
                    report("switch of creates", failure.as_ref(), &mut self.switch_failure);
                }
            }
            let looking = spawn_blocking(move || {
                let failure = self.reload_blocklist().err();
                report("blocklist", failure.as_ref(), &mut self.blocklist_failure);
                self
            });
            match looking.await {
                Ok(moderation) => self = moderation,
                // The process is ending.
                Err(_) => return,
            }
        }
    }

    /// Reads the blocklist if it has changed. After an error the list that was read last stays.
    fn reload_blocklist(&mut self) -> Result<(), String> {
        let Some(file) = &mut self.blocklist else { return Ok(()) };
        let list = match file.changed() {
            Ok(None) => return self.blocklist_failure.clone().map_or(Ok(()), Err),
            Ok(Some(text)) => Blocklist::parse(&text).map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        let outcome = if list.is_ok() { "done" } else { "failed" };
        self.metrics.moderation_reloads.get_or_create(&ReloadLabels { source: "blocklist", outcome }).inc();
        let list = list?;
        tracing::info!(entries = list.len(), "the blocklist was read");
        self.metrics.blocklist_entries.set(i64::try_from(list.len()).unwrap_or(i64::MAX));
        self.policy.set_blocklist(list);
        Ok(())
    }

    /// Reads the switch. After an error what was read last stays.
    async fn reload_switch(&mut self, switch: &dyn CreatesSwitch) -> Result<(), StoreError> {
        let count =
            |outcome| self.metrics.moderation_reloads.get_or_create(&ReloadLabels { source: "creates", outcome }).inc();
        let creates = switch.load().await.inspect_err(|_| {
            count("failed");
        })?;
        if self.policy.set_creates(creates) {
            count("done");
            let (paused, hourly_budget) = (creates.paused, creates.hourly_budget);
            tracing::info!(paused, hourly_budget, "operators changed whether pages may be created");
        }
        self.metrics.creates_paused.set(i64::from(creates.paused));
        Ok(())
    }
}

/// Logs a failure when it begins or changes, and its end.
fn report(what: &str, failure: Option<&String>, before: &mut Option<String>) {
    match failure {
        Some(reason) if before.as_ref() != failure => {
            tracing::error!(reason, "the {what} cannot be read; what was read last stays in force");
        }
        None if before.is_some() => tracing::info!("the {what} can be read again"),
        _ => {}
    }
    *before = failure.cloned();
}

fn chain(error: &StoreError) -> String {
    let cause = std::error::Error::source(error).map(|cause| format!(": {cause}")).unwrap_or_default();
    format!("{error}{cause}")
}

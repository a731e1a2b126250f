//! Keeps what operators allow up to date: the blocklist and the tiers of limits in their files, and the switch of creates.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use prometheus_client::metrics::gauge::Gauge;
use thiserror::Error;
use tokio::task::spawn_blocking;
use tokio::time::{MissedTickBehavior, interval};

use super::watched_file::WatchedFile;
use crate::telemetry::labels::{RefusalLabels, ReloadLabels, SourceLabels};
use crate::telemetry::metrics::Metrics;
use handbill_core::domain::blocklist::Blocklist;
use handbill_core::domain::limit_tier::Tiers;
use handbill_core::ports::creates_switch::CreatesSwitch;
use handbill_core::ports::page_store::{NotReachedError, StoreError};
use handbill_core::service::{LimitTiers, PublishingPolicy};

/// How often the files and the switch are looked at. Operators see a change take effect at once, and a look costs next
/// to nothing.
const RELOAD_INTERVAL: Duration = Duration::from_secs(1);

#[derive(Debug, Error)]
pub enum ModerationError {
    /// The file cannot be read, or its text makes no sense.
    #[error("the {what} {} cannot be used ({reason}): correct it, or leave {option} out", path.display())]
    File { what: &'static str, path: PathBuf, reason: String, option: &'static str },
    /// The file with the switch of creates makes no sense.
    #[error("{0}")]
    Switch(String),
}

/// The files that operators write.
#[derive(Clone, Default)]
pub struct OperatorsFiles {
    pub blocklist: Option<PathBuf>,
    pub limit_tiers: Option<PathBuf>,
}

/// The operators' policy, and its sources.
pub struct Moderation {
    policy: PublishingPolicy,
    tiers: LimitTiers,
    files: Vec<FollowedFile>,
    metrics: Arc<Metrics>,
    switch: Source,
}

/// Puts the text of a file into force, or says why it makes no sense.
type Take = Box<dyn Fn(&str) -> Result<(), String> + Send>;

/// A file that is put into force when it has changed.
struct FollowedFile {
    file: WatchedFile,
    source: Source,
    take: Take,
}

/// Something that is read again and again, and whether that failed the last time, so that a failure is logged once.
struct Source {
    label: &'static str,
    what: &'static str,
    failure: Option<String>,
    stale: Gauge,
}

impl Moderation {
    /// Reads the files that there are. A blocklist that cannot be used is an error. Tiers that cannot be used are not, since
    /// without them only fewer pages are created; they are reported like any that become bad later.
    pub fn open(files: OperatorsFiles, window: Duration, metrics: &Arc<Metrics>) -> Result<Self, ModerationError> {
        let refusals = metrics.publishing_refusals.clone();
        let policy = PublishingPolicy::observed(move |reason| {
            refusals.get_or_create(&RefusalLabels { reason }).inc();
        });
        let tiers = LimitTiers::new(window);
        let mut followed = Vec::new();
        if let Some(path) = files.blocklist {
            let (policy, entries) = (policy.clone(), metrics.blocklist_entries.clone());
            let take = move |text: &str| {
                let list = Blocklist::parse(text).map_err(|error| error.to_string())?;
                tracing::info!(entries = list.len(), "the blocklist was read");
                entries.set(i64::try_from(list.len()).unwrap_or(i64::MAX));
                policy.set_blocklist(list);
                Ok(())
            };
            let mut file = FollowedFile::new(path.clone(), Source::new("blocklist", "blocklist", metrics), take);
            let what = file.source.what;
            file.read(metrics).map_err(|reason| ModerationError::File {
                what,
                path,
                reason,
                option: "--blocklist-file",
            })?;
            followed.push(file);
        }
        if let Some(path) = files.limit_tiers {
            let tiers = tiers.clone();
            let take = move |text: &str| {
                let read = Tiers::parse(text).map_err(|error| error.to_string())?;
                tracing::info!(networks = read.networks(), "the tiers of limits were read");
                tiers.set(read);
                Ok(())
            };
            let mut file = FollowedFile::new(path, Source::new("tiers", "file of tiers", metrics), take);
            file.reload(metrics);
            followed.push(file);
        }
        let switch = Source::new("creates", "switch of creates", metrics);
        Ok(Self { policy, tiers, files: followed, metrics: Arc::clone(metrics), switch })
    }

    pub fn policy(&self) -> PublishingPolicy {
        self.policy.clone()
    }

    /// The tiers of limits that the service asks.
    pub fn tiers(&self) -> LimitTiers {
        self.tiers.clone()
    }

    /// Reads `switch`. A switch that cannot be reached yet does not stop the start: it is read again soon.
    pub async fn read_switch(&mut self, switch: &dyn CreatesSwitch) -> Result<(), ModerationError> {
        match self.reload_switch(switch).await {
            Err(StoreError::Unreadable(reason)) => Err(ModerationError::Switch(reason.to_string())),
            _ => Ok(()),
        }
    }

    /// Looks at the files and `switch` again and again.
    pub async fn follow(mut self, switch: Arc<dyn CreatesSwitch>) {
        let mut looks = interval(RELOAD_INTERVAL);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            looks.tick().await;
            match self.reload_switch(&*switch).await {
                // `/readyz` and the log report this already, and until then no page can be created.
                Err(StoreError::Unavailable(cause)) if cause.is::<NotReachedError>() => {}
                read => self.switch.report(read.err().map(|error| chain(&error))),
            }
            let looking = spawn_blocking(move || {
                self.reload_files();
                self
            });
            match looking.await {
                Ok(moderation) => self = moderation,
                // The process is ending.
                Err(_) => return,
            }
        }
    }

    /// Reads the files that have changed. After an error what was read last stays in force.
    pub fn reload_files(&mut self) {
        for file in &mut self.files {
            file.reload(&self.metrics);
        }
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

impl FollowedFile {
    fn new(path: PathBuf, source: Source, take: impl Fn(&str) -> Result<(), String> + Send + 'static) -> Self {
        Self { file: WatchedFile::new(path), source, take: Box::new(take) }
    }

    fn reload(&mut self, metrics: &Metrics) {
        let failure = self.read(metrics).err();
        self.source.report(failure);
    }

    /// Reads the file if it has changed. A text that made no sense is still an error if it has not changed.
    fn read(&mut self, metrics: &Metrics) -> Result<(), String> {
        let read = match self.file.changed() {
            Ok(None) => return self.source.failure.clone().map_or(Ok(()), Err),
            Ok(Some(text)) => (self.take)(&text),
            Err(error) => Err(error.to_string()),
        };
        let outcome = if read.is_ok() { "done" } else { "failed" };
        metrics.moderation_reloads.get_or_create(&ReloadLabels { source: self.source.label, outcome }).inc();
        read
    }
}

impl Source {
    fn new(label: &'static str, what: &'static str, metrics: &Metrics) -> Self {
        let stale = metrics.moderation_stale.get_or_create(&SourceLabels { source: label }).clone();
        Self { label, what, failure: None, stale }
    }

    /// Logs a failure when it begins or changes, and its end.
    fn report(&mut self, failure: Option<String>) {
        let what = self.what;
        match &failure {
            Some(reason) if self.failure != failure => {
                tracing::error!(reason, "the {what} cannot be read; what was read last stays in force");
            }
            None if self.failure.is_some() => tracing::info!("the {what} can be read again"),
            _ => {}
        }
        self.stale.set(i64::from(failure.is_some()));
        self.failure = failure;
    }
}

/// Fails if the tiers of limits at `path` cannot be used.
pub fn check_tiers(path: &Path) -> Result<(), ModerationError> {
    let text = fs::read_to_string(path).map_err(|error| error.to_string());
    let read = text.and_then(|text| Tiers::parse(&text).map_err(|error| error.to_string()));
    let refused = |reason| ModerationError::File {
        what: "file of tiers",
        path: path.to_owned(),
        reason,
        option: "--limit-tiers-file",
    };
    read.map(drop).map_err(refused)
}

fn chain(error: &StoreError) -> String {
    let cause = std::error::Error::source(error).map(|cause| format!(": {cause}")).unwrap_or_default();
    format!("{error}{cause}")
}

//! [`AuditLog`] in a table to which entries are only ever added.
//!
//! Each entry is written under the next number by a lightweight transaction, and has 128 random bits, its id. A writer
//! that was refused, or did not learn the outcome, reads the entries after the last one that it knew. If its id is
//! among them, the entry is written; else it tries the next free number. So numbers have no gaps, and no entry is there
//! twice, however often it is tried and by however many processes.
//!
//! A page and the audit cannot be written in one transaction. So a takedown is noted in `takedowns_begun` before the
//! page's head is written, and the note is removed after the entry. Whoever reads the audit first adds the entries of
//! notes whose page is taken down. A process that ends in between leaves such a note, and no gap.

use std::time::Duration;

use async_trait::async_trait;
use scylla::DeserializeRow;
use scylla::statement::prepared::PreparedStatement;
use scylla::value::CqlTimestamp;
use thiserror::Error;
use tokio::time::{Instant, sleep};

use super::lwt::Pauses;
use super::nonces::Nonce;
use super::permit::Permit;
use super::rows::millis;
use super::single_attempts::{Attempt, Failures};
use super::store::CqlStore;
use crate::domain::audit::{AuditAction, AuditEntry, NumberedEntry};
use crate::domain::page::Tombstone;
use crate::domain::slug::Slug;
use crate::ports::audit_log::{AuditLog, MAX_ENTRIES};
use crate::ports::page_store::{Lookup, StoreError};

/// Entries of one partition.
const BUCKET: u64 = 10_000;

/// Entries that one request reads.
const PAGE: i32 = 1000;

/// A takedown whose page can still be read after this time was not done, and never will be.
const GIVEN_UP_AFTER: Duration = Duration::from_hours(1);

const TAKEDOWN: &str = "takedown";
const CREATES: &str = "creates";
const HIDE: &str = "hide";
const SHOW: &str = "show";
const EXPORT: &str = "export";
const INSPECT: &str = "inspect";
const SCAN: &str = "scan";
const LOG: &str = "log";

#[derive(DeserializeRow)]
struct EntryRow {
    number: i64,
    id: Option<Vec<u8>>,
    done_at: Option<CqlTimestamp>,
    done_by: Option<String>,
    action: Option<String>,
    slug: Option<String>,
    reason: Option<String>,
    paused: Option<bool>,
    hourly_budget: Option<i32>,
}

#[derive(DeserializeRow)]
struct BegunRow {
    id: Vec<u8>,
    done_at: Option<CqlTimestamp>,
    done_by: Option<String>,
    slug: Option<String>,
    reason: Option<String>,
    audit_after: Option<i64>,
    read_at: Option<CqlTimestamp>,
}

/// A takedown that was begun, with its future entry.
struct Begun {
    id: Nonce,
    entry: AuditEntry,
    /// The audit had this many entries before.
    after: u64,
}

impl Begun {
    fn left(&self, tombstone: &Tombstone) -> bool {
        let by = tombstone.takedown.as_ref().map(|takedown| takedown.by.as_str());
        by == Some(self.entry.by.as_str()) && tombstone.deleted_at == self.entry.at
    }
}

/// An entry that this version of Handbill cannot read.
#[derive(Debug, Error)]
#[error("entry {0} of the audit cannot be read")]
struct UnreadableEntry(i64);

impl EntryRow {
    fn into_entry(self) -> Result<NumberedEntry, UnreadableEntry> {
        let number = self.number;
        let numbered = |entry| NumberedEntry { number: number.cast_unsigned(), entry };
        self.entry().map(numbered).ok_or(UnreadableEntry(number))
    }

    fn entry(self) -> Option<AuditEntry> {
        let action = match self.action?.as_str() {
            TAKEDOWN => {
                AuditAction::Takedown { slug: Slug::parse(&self.slug?).ok()?, reason: self.reason?.parse().ok()? }
            }
            HIDE => AuditAction::Hide { slug: Slug::parse(&self.slug?).ok()?, reason: self.reason?.parse().ok()? },
            SHOW => AuditAction::Show { slug: Slug::parse(&self.slug?).ok()? },
            EXPORT => AuditAction::Export,
            INSPECT => AuditAction::Inspect { slug: Slug::parse(&self.slug?).ok()? },
            SCAN => AuditAction::Scan,
            LOG => AuditAction::Log,
            CREATES => AuditAction::Creates {
                paused: self.paused?,
                hourly_budget: self.hourly_budget.map(u32::try_from).transpose().ok()?,
            },
            _ => return None,
        };
        Some(AuditEntry { at: millis(self.done_at?), by: self.done_by?, action })
    }
}

impl BegunRow {
    fn into_begun(self) -> Option<Begun> {
        let slug = Slug::parse(&self.slug?).ok()?;
        let action = AuditAction::Takedown { slug, reason: self.reason?.parse().ok()? };
        Some(Begun {
            id: self.id.try_into().ok()?,
            entry: AuditEntry { at: millis(self.done_at?), by: self.done_by?, action },
            after: u64::try_from(self.audit_after?).ok()?,
        })
    }
}

fn bucket_of(number: u64) -> i64 {
    (number.saturating_sub(1) / BUCKET).cast_signed()
}

/// A takedown whose page is about to be deleted.
pub(super) struct TakedownNote(Begun);

impl CqlStore {
    /// Notes the takedown in `tombstone`, if it has one, before its page is deleted.
    pub(super) async fn note_takedown(
        &self,
        permit: &Permit<'_>,
        tombstone: &Tombstone,
    ) -> Result<Option<TakedownNote>, StoreError> {
        let Some(takedown) = &tombstone.takedown else { return Ok(None) };
        let action = AuditAction::Takedown { slug: tombstone.slug.clone(), reason: takedown.reason };
        let entry = AuditEntry { at: tombstone.deleted_at, by: takedown.by.clone(), action };
        let after = self.known_end(permit).await?;
        let id = self.random_nonce();
        let values = (
            id.as_slice(),
            CqlTimestamp(entry.at.get()),
            entry.by.as_str(),
            tombstone.slug.as_str(),
            takedown.reason.code(),
            after.cast_signed(),
        );
        let request = async || {
            self.session.execute_unpaged(&self.operated.begin_takedown, values).await?;
            Ok(())
        };
        self.repeat(permit, request).await?;
        Ok(Some(TakedownNote(Begun { id, entry, after })))
    }

    /// Ends a takedown: enters it if it was done, and removes its note.
    pub(super) async fn close_takedown(&self, permit: &Permit<'_>, note: Option<TakedownNote>, was_done: bool) {
        let Some(TakedownNote(begun)) = note else { return };
        let ended = async {
            if was_done {
                self.append_once(permit, &begun).await?;
            }
            self.remove_note(permit, &begun.id).await
        };
        if let Err(error) = ended.await {
            tracing::warn!(%error, "a takedown is not in the audit yet; `handbill audit` adds it");
        }
    }

    async fn remove_note(&self, permit: &Permit<'_>, id: &Nonce) -> Result<(), StoreError> {
        let request = async || {
            self.session.execute_unpaged(&self.operated.end_takedown, (id.as_slice(),)).await?;
            Ok(())
        };
        self.repeat(permit, request).await
    }

    /// Adds the entries of takedowns that were done by processes that ended before they could.
    async fn settle_takedowns(&self, permit: &Permit<'_>) -> Result<(), StoreError> {
        for row in self.rows::<BegunRow>(permit, &self.operated.read_takedowns, ()).await? {
            let now = row.read_at.map_or(0, |CqlTimestamp(now)| now);
            let Some(begun) = row.into_begun() else { continue };
            let AuditAction::Takedown { slug, .. } = &begun.entry.action else { continue };
            let was_done = match self.settled_head(permit, slug).await? {
                Lookup::Deleted(tombstone) => begun.left(&tombstone),
                Lookup::Active(_) | Lookup::Hidden(_) | Lookup::Absent => false,
            };
            if was_done {
                self.append_once(permit, &begun).await?;
            }
            let age = u128::try_from(now.saturating_sub(begun.entry.at.get())).unwrap_or(0);
            if was_done || age > GIVEN_UP_AFTER.as_millis() {
                self.remove_note(permit, &begun.id).await?;
            }
        }
        Ok(())
    }

    /// Adds the entry of `begun` unless it is there.
    async fn append_once(&self, permit: &Permit<'_>, begun: &Begun) -> Result<(), StoreError> {
        // One at a time: entries that are added at once would only refuse each other.
        let mut end = self.audit_end.lock().await;
        let (mut last, mut failures, mut pauses) = (begun.after, Failures::default(), Pauses::new());
        loop {
            // A serial read also completes an attempt whose outcome is unknown.
            loop {
                let rows = self.entries_after(permit, &self.operated.read_audit_serially, last, PAGE).await?;
                if rows.iter().any(|row| row.id.as_deref() == Some(&begun.id)) {
                    return Ok(());
                }
                let Some(row) = rows.last() else { break };
                last = row.number.cast_unsigned();
            }
            *end = last;
            match self.attempt(permit, &self.operated.append_audit, values_of(last + 1, begun)).await {
                Attempt::Applied => {
                    *end = last + 1;
                    return Ok(());
                }
                Attempt::Refused => {}
                Attempt::Failed(outcome, cause) => failures.add(outcome, cause),
            }
            if Instant::now() >= permit.deadline {
                return Err(failures.into_error());
            }
            sleep(pauses.next(&self.random)).await;
        }
    }

    /// The number of entries that the audit has had at some time: the present number, unless other processes have added
    /// entries since.
    async fn known_end(&self, permit: &Permit<'_>) -> Result<u64, StoreError> {
        let mut end = self.audit_end.lock().await;
        if *end == 0 {
            // A partition that has its last entry is full and can be skipped.
            while !self.entries_after(permit, &self.operated.read_audit, *end + BUCKET - 1, 1).await?.is_empty() {
                *end += BUCKET;
            }
            while let Some(row) = self.entries_after(permit, &self.operated.read_audit, *end, PAGE).await?.last() {
                *end = row.number.cast_unsigned();
            }
        }
        Ok(*end)
    }

    /// At most `limit` entries after the number `after`, from one partition; none if there are no more at all.
    async fn entries_after(
        &self,
        permit: &Permit<'_>,
        read: &PreparedStatement,
        after: u64,
        limit: i32,
    ) -> Result<Vec<EntryRow>, StoreError> {
        let values = (bucket_of(after.saturating_add(1)), after.cast_signed(), limit);
        self.rows(permit, read, values).await
    }
}

type EntryValues<'a> = (
    i64,
    i64,
    &'a [u8],
    CqlTimestamp,
    &'a str,
    &'static str,
    Option<&'a str>,
    Option<&'static str>,
    Option<bool>,
    Option<i32>,
);

fn values_of(number: u64, begun: &Begun) -> EntryValues<'_> {
    let (action, slug, reason, paused, budget) = match &begun.entry.action {
        AuditAction::Takedown { slug, reason } => (TAKEDOWN, Some(slug.as_str()), Some(reason.code()), None, None),
        AuditAction::Hide { slug, reason } => (HIDE, Some(slug.as_str()), Some(reason.code()), None, None),
        AuditAction::Show { slug } => (SHOW, Some(slug.as_str()), None, None, None),
        AuditAction::Export => (EXPORT, None, None, None, None),
        AuditAction::Inspect { slug } => (INSPECT, Some(slug.as_str()), None, None, None),
        AuditAction::Scan => (SCAN, None, None, None, None),
        AuditAction::Log => (LOG, None, None, None, None),
        AuditAction::Creates { paused, hourly_budget } => {
            (CREATES, None, None, Some(*paused), hourly_budget.map(u32::cast_signed))
        }
    };
    let (at, by) = (CqlTimestamp(begun.entry.at.get()), begun.entry.by.as_str());
    (bucket_of(number), number.cast_signed(), &begun.id, at, by, action, slug, reason, paused, budget)
}

#[async_trait]
impl AuditLog for CqlStore {
    async fn append(&self, entry: AuditEntry) -> Result<(), StoreError> {
        let permit = self.background_permit().await?;
        let after = self.known_end(&permit).await?;
        self.append_once(&permit, &Begun { id: self.random_nonce(), entry, after }).await
    }

    async fn list(&self, after: u64, limit: usize) -> Result<Vec<NumberedEntry>, StoreError> {
        let permit = self.background_permit().await?;
        self.settle_takedowns(&permit).await?;
        let limit = limit.min(MAX_ENTRIES);
        let (mut entries, mut last) = (Vec::new(), after);
        while entries.len() < limit {
            let left = i32::try_from(limit.saturating_sub(entries.len())).unwrap_or(PAGE);
            let rows = self.entries_after(&permit, &self.operated.read_audit, last, left).await?;
            let Some(row) = rows.last() else { break };
            last = row.number.cast_unsigned();
            for row in rows {
                entries.push(row.into_entry().map_err(|error| StoreError::Unreadable(Box::new(error)))?);
            }
        }
        Ok(entries)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::takedown::TakedownReason;
    use crate::domain::timestamp::UnixMillis;

    #[test]
    fn a_partition_has_ten_thousand_entries() {
        for (number, bucket) in [(1, 0), (10_000, 0), (10_001, 1), (20_000, 1), (20_001, 2)] {
            assert_eq!(bucket_of(number), bucket, "{number}");
        }
    }

    #[test]
    fn each_action_is_read_as_it_was_written() {
        let takedown =
            AuditAction::Takedown { slug: Slug::parse("a-page-22222222").unwrap(), reason: TakedownReason::Phishing };
        let creates = |hourly_budget| AuditAction::Creates { paused: true, hourly_budget };
        let slug = || Slug::parse("a-page-22222222").unwrap();
        let hide = AuditAction::Hide { slug: slug(), reason: TakedownReason::Spam };
        let inspect = AuditAction::Inspect { slug: slug() };
        let reads = [AuditAction::Export, inspect, AuditAction::Scan];
        let acts = [takedown, creates(None), creates(Some(7)), hide, AuditAction::Show { slug: slug() }];
        for action in acts.into_iter().chain(reads) {
            let entry = AuditEntry { at: UnixMillis::new(5), by: "desk".to_owned(), action };
            let begun = Begun { id: [1; 16], entry: entry.clone(), after: 0 };
            let (bucket, number, id, at, by, action, slug, reason, paused, hourly_budget) = values_of(10_001, &begun);
            assert_eq!((bucket, id), (1, [1; 16].as_slice()));
            let row = EntryRow {
                number,
                id: None,
                done_at: Some(at),
                done_by: Some(by.to_owned()),
                action: Some(action.to_owned()),
                slug: slug.map(str::to_owned),
                reason: reason.map(str::to_owned),
                paused,
                hourly_budget,
            };
            assert_eq!(row.into_entry().unwrap(), NumberedEntry { number: 10_001, entry });
        }
    }
}

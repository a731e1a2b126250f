//! [`PageScan`]: every record of the keyspace, in the order of the ring.
//!
//! A batch begins with one request for the slugs that follow a token. The record of each is then read as a request
//! reads it: the head from a quorum, then the text that the head points to. So a record is what its page was at one
//! moment, and a page that changes meanwhile is in the batch once, in one of its states.
//!
//! A batch reads few records at once, and the next begins only when the caller asks for it, so the load is bounded,
//! however large the keyspace is.

use std::collections::VecDeque;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::{StreamExt, stream};
use thiserror::Error;
use tokio::time::Instant;

use super::request_error::unreadable;
use super::store::CqlStore;
use crate::domain::slug::Slug;
use crate::ports::page_scan::{PageScan, ScanBatch, ScanCursor, ScanLimit, UnreadableRecord};
use crate::ports::page_store::{Cause, Lookup, Record, StoreError};

/// Records that a batch reads at the same time.
pub(super) const READS_AT_ONCE: usize = 8;

/// The most slugs that one request asks for.
pub(super) const MAX_KEYS: usize = 1000;

/// Number of slugs from whose density on the ring the total is estimated. With so many, the estimate is off by a few
/// per cent.
const SAMPLE: usize = 1000;

/// How long an estimate is used.
const ESTIMATE_AGE: Duration = Duration::from_mins(1);

/// Bytes of a record beside its texts.
const RECORD_BYTES: usize = 200;

/// No slug has this token: the servers keep it for the beginning of the ring.
pub(super) const BEGINNING: i64 = i64::MIN;

/// A cursor that this store did not make.
#[derive(Debug, Error)]
#[error("the cursor belongs to another store")]
struct ForeignCursorError;

/// A name in the table that is no slug. Nobody can read it.
#[derive(Debug, Error)]
#[error("the name is no slug")]
struct NotASlugError;

/// A slug and its place on the ring.
type Key = (i64, String);

impl CqlStore {
    async fn keys_after(&self, after: i64, count: usize) -> Result<VecDeque<Key>, StoreError> {
        let count = i32::try_from(count).unwrap_or(i32::MAX);
        let permit = self.background_permit().await?;
        let request = async || {
            let answer = self.session.execute_unpaged(&self.operated.read_slugs, (after, count)).await?;
            let rows = answer.into_rows_result().map_err(unreadable)?;
            rows.rows::<Key>().map_err(unreadable)?.collect::<Result<_, _>>().map_err(unreadable)
        };
        self.repeat(&permit, request).await
    }

    /// The record under `name`; `None` if there are only texts that no head points to.
    async fn scanned(&self, name: &str) -> Result<Option<Result<Record, UnreadableRecord>>, StoreError> {
        let unreadable = |cause: Cause| Ok(Some(Err(UnreadableRecord { name: name.to_owned(), cause })));
        let Ok(slug) = Slug::parse(name) else { return unreadable(NotASlugError.into()) };
        let permit = self.background_permit().await?;
        let found = loop {
            match self.record_under(&slug, &permit).await {
                Ok(Lookup::Hidden(head)) => match self.page_of(&permit, &head).await {
                    Ok(Some(page)) => break Ok(Lookup::Active(page)),
                    // An operator has shown it or taken it down since.
                    Ok(None) => {}
                    Err(error) => break Err(error),
                },
                found => break found,
            }
        };
        match found {
            Ok(Lookup::Active(page)) => Ok(Some(Ok(Record::Active(page)))),
            Ok(Lookup::Deleted(tombstone)) => Ok(Some(Ok(Record::Deleted(tombstone)))),
            Ok(Lookup::Hidden(_) | Lookup::Absent) => Ok(None),
            Err(StoreError::Unreadable(cause)) => unreadable(cause),
            Err(error) => Err(error),
        }
    }

    /// The records under `keys`, until `bytes` are reached, and the token of the last.
    async fn records_of(&self, keys: &VecDeque<Key>, bytes: usize) -> Result<(ScanRecords, i64), StoreError> {
        let (mut records, mut size, mut last) = (Vec::new(), 0, BEGINNING);
        let reads: Vec<_> = keys.iter().map(|(_, name)| self.scanned(name)).collect();
        let mut reads = stream::iter(reads).buffered(READS_AT_ONCE);
        for (token, _) in keys {
            let Some(record) = reads.next().await.transpose()? else { break };
            let token = *token;
            // The next batch begins after a token, so slugs with the same token are in the same batch.
            if size >= bytes && token != last {
                break;
            }
            size += record.as_ref().map_or(0, size_of);
            records.extend(record);
            last = token;
        }
        Ok((records, last))
    }
}

type ScanRecords = Vec<Result<Record, UnreadableRecord>>;

fn size_of(record: &Result<Record, UnreadableRecord>) -> usize {
    match record {
        Ok(Record::Active(page)) => RECORD_BYTES + page.text.content.as_str().len() + page.text.html.len(),
        Ok(Record::Deleted(_)) | Err(_) => RECORD_BYTES,
    }
}

/// Keeps the first `count` keys, and those after them that have the token of the last. Returns whether the ring has
/// further keys.
fn cut(keys: &mut VecDeque<Key>, count: usize) -> bool {
    let Some(&(last, _)) = count.checked_sub(1).and_then(|last| keys.get(last)) else { return false };
    let same = keys.iter().skip(count).take_while(|(token, _)| *token == last).count();
    let has_more = keys.len() > count;
    keys.truncate(count + same);
    has_more
}

/// About how many slugs there are if the first `count` end at the token `last`.
#[expect(clippy::cast_precision_loss, reason = "an estimate has no such precision")]
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the number is positive and far below 2^64"
)]
fn estimate(count: usize, last: i64) -> u64 {
    let share = (last.abs_diff(BEGINNING) as f64 / u64::MAX as f64).max(f64::EPSILON);
    (count as f64 / share) as u64
}

pub(super) fn cursor_at(last: i64) -> ScanCursor {
    ScanCursor::new(last.to_be_bytes())
}

pub(super) fn token_of(cursor: &ScanCursor) -> Result<i64, StoreError> {
    let bytes = cursor.as_bytes().try_into();
    bytes.map(i64::from_be_bytes).map_err(|_| StoreError::Unavailable(Box::new(ForeignCursorError)))
}

#[async_trait]
impl PageScan for CqlStore {
    async fn scan(&self, after: Option<&ScanCursor>, limit: ScanLimit) -> Result<ScanBatch, StoreError> {
        let mut after = after.map_or(Ok(BEGINNING), token_of)?;
        let count = limit.records.clamp(1, MAX_KEYS);
        loop {
            // One key more than the limit shows whether the scan ends here.
            let mut keys = self.keys_after(after, count + 1).await?;
            let has_more = cut(&mut keys, count);
            let Some(&(end, _)) = keys.back() else {
                return Ok(ScanBatch { records: Vec::new(), visibilities: Vec::new(), next: None });
            };
            let (records, last) = self.records_of(&keys, limit.bytes).await?;
            if !has_more && last == end {
                return Ok(ScanBatch { records, visibilities: Vec::new(), next: None });
            }
            if !records.is_empty() {
                return Ok(ScanBatch { records, visibilities: Vec::new(), next: Some(cursor_at(last)) });
            }
            after = last;
        }
    }

    async fn estimated_records(&self) -> Result<Option<u64>, StoreError> {
        let mut known = self.estimate.lock().await;
        if let Some((at, records)) = *known
            && at.elapsed() < ESTIMATE_AGE
        {
            return Ok(Some(records));
        }
        let keys = self.keys_after(BEGINNING, SAMPLE).await?;
        let records = match keys.back() {
            Some(&(last, _)) if keys.len() == SAMPLE => estimate(SAMPLE, last),
            _ => keys.len() as u64,
        };
        *known = Some((Instant::now(), records));
        Ok(Some(records))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(tokens: &[i64]) -> VecDeque<Key> {
        tokens.iter().map(|token| (*token, token.to_string())).collect()
    }

    #[test]
    fn a_batch_is_cut_between_two_tokens() {
        for (tokens, count, left, has_more) in [
            (&[1, 2, 3][..], 2, &[1, 2][..], true),
            (&[1, 2], 2, &[1, 2], false),
            (&[1], 2, &[1], false),
            (&[], 2, &[], false),
            (&[1, 2, 2], 2, &[1, 2, 2], true),
            (&[1, 1, 2], 1, &[1, 1], true),
        ] {
            let mut cutting = keys(tokens);
            assert_eq!((cut(&mut cutting, count), &cutting), (has_more, &keys(left)), "{tokens:?}");
        }
    }

    #[test]
    fn the_number_of_slugs_is_told_by_the_share_of_the_ring_that_the_first_fill() {
        assert_eq!(estimate(1000, i64::MAX), 1000);
        assert_eq!(estimate(1000, 0), 2000);
        let hundredth = i64::MIN + i64::MAX / 50;
        assert!((99_000..101_000).contains(&estimate(1000, hundredth)), "{}", estimate(1000, hundredth));
    }

    #[test]
    fn a_cursor_is_read_by_the_store_that_made_it() {
        let cursor = |bytes: &[u8]| token_of(&ScanCursor::new(bytes));
        assert_eq!(cursor(&(-5_i64).to_be_bytes()).unwrap(), -5);
        assert!(cursor(b"a-page-22222222").is_err());
    }
}

//! Every record of a share of the ring, in its order.
//!
//! A batch reads heads from a quorum, and then the texts between the same tokens, some at a time: both tables have the same order. A
//! head whose text is not among them was changed in between, so its record is read again, as a request reads it. So is every record
//! of a part whose texts cannot be read, which finds the one that is damaged. So a record is what its page was at one moment, and a
//! page that changes meanwhile is in the batch once, in one of its states.
//!
//! The next batch begins only when the caller asks for it, so the load is bounded, however large the keyspace is.

use std::collections::VecDeque;
use std::time::Duration;

use async_trait::async_trait;
use scylla::deserialize::row::DeserializeRow;
use scylla::response::{PagingState, PagingStateResponse};
use scylla::statement::prepared::PreparedStatement;
use thiserror::Error;
use tokio::time::Instant;

use super::nonces::TextId;
use super::request_error::unreadable;
use super::ring::{Placed, Share, Tokens};
use super::rows::{HeadRow, UnreadableRow};
use super::store::CqlStore;
use super::texts::TextRow;
use crate::domain::slug::Slug;
use crate::ports::page_scan::{PageScan, ScanBatch, ScanCursor, ScanLimit, UnreadableRecord};
use crate::ports::page_store::{Cause, Lookup, Record, StoreError};

/// Texts that the first request of a batch asks for: with the largest texts, 14 MB.
const FIRST_TEXTS: i32 = 8;

/// The most texts that a request asks for, after short ones.
const MOST_TEXTS: i32 = 64;

/// Bytes of an answer from which texts are not short.
const SHORT_TEXTS: usize = 512 * 1024;

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
const BEGINNING: i64 = i64::MIN;

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
        let mut gone = None;
        let found = loop {
            match self.record_under(&slug, &permit).await {
                Ok(Lookup::Hidden(head)) => match self.page_of(&permit, &head).await {
                    Ok(Some(page)) => break Ok(Lookup::Active(page)),
                    Ok(None) if gone == Some(head.state()) => {
                        break Err(StoreError::Unreadable(Box::new(UnreadableRow::TextMissing)));
                    }
                    // An operator may have shown it or taken it down since.
                    Ok(None) => gone = Some(head.state()),
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

    /// Whether the page `name` is there and its text is not: a replica may have replaced it while keys were read.
    pub(super) async fn has_no_text(&self, name: &str) -> Result<bool, StoreError> {
        Ok(matches!(self.scanned(name).await?, Some(Err(_))))
    }

    /// At most `count` rows between `tokens`, by a statement that binds both.
    pub(super) async fn rows_between<T: for<'frame, 'metadata> DeserializeRow<'frame, 'metadata>>(
        &self,
        statement: &PreparedStatement,
        (after, until): Tokens,
        count: usize,
    ) -> Result<VecDeque<Placed<T>>, StoreError> {
        let count = i32::try_from(count).unwrap_or(i32::MAX);
        let permit = self.background_permit().await?;
        let request = async || {
            let answer = self.session.execute_unpaged(statement, (after, until, count)).await?;
            let rows = answer.into_rows_result().map_err(unreadable)?;
            rows.rows::<Placed<T>>().map_err(unreadable)?.collect::<Result<_, _>>().map_err(unreadable)
        };
        self.repeat(&permit, request).await
    }

    /// The records of `heads`, until `bytes` are reached, and the token of the last.
    async fn records_of(
        &self,
        heads: VecDeque<Placed<HeadRow>>,
        tokens: Tokens,
        bytes: usize,
    ) -> Result<(ScanRecords, i64), StoreError> {
        let mut texts = Texts {
            store: self,
            tokens,
            rows: VecDeque::new(),
            next: Some(PagingState::start()),
            at_once: FIRST_TEXTS,
        };
        let (mut records, mut size, mut last) = (Vec::new(), 0, BEGINNING);
        for head in heads {
            // The next batch begins after a token, so slugs with the same token are in the same batch.
            if size >= bytes && head.place != last {
                break;
            }
            last = head.place;
            let record = self.record_of(head, &mut texts).await?;
            size += record.as_ref().map_or(0, size_of);
            records.extend(record);
        }
        Ok((records, last))
    }

    async fn record_of(
        &self,
        head: Placed<HeadRow>,
        texts: &mut Texts<'_>,
    ) -> Result<Option<Result<Record, UnreadableRecord>>, StoreError> {
        let Placed { place, slug: name, row } = head;
        let unreadable = |cause: Cause| Ok(Some(Err(UnreadableRecord { name: name.clone(), cause })));
        let Ok(slug) = Slug::parse(&name) else { return unreadable(NotASlugError.into()) };
        let base = match row.into_base(&slug) {
            Ok(Lookup::Active(base)) => base,
            Ok(Lookup::Deleted(tombstone)) => return Ok(Some(Ok(Record::Deleted(tombstone)))),
            Ok(Lookup::Hidden(_) | Lookup::Absent) => return Ok(None),
            Err(error) => return unreadable(error.into()),
        };
        match texts.of(place, &name, base.text).await {
            Some(text) => match text.into_page(base.head) {
                Ok(page) => Ok(Some(Ok(Record::Active(page)))),
                Err(error) => unreadable(error.into()),
            },
            None => self.scanned(&name).await,
        }
    }

    /// Some records between `tokens`, and the token after which the next begin, if there are any.
    pub(super) async fn pages_between(&self, tokens: Tokens, limit: ScanLimit) -> Result<ScanBatch, StoreError> {
        let count = limit.records.clamp(1, MAX_KEYS);
        let (mut after, until) = tokens;
        loop {
            let mut heads = self.rows_between(&self.operated.scan_heads, (after, until), count + 1).await?;
            let has_more = cut(&mut heads, count);
            let Some(end) = heads.back().map(|head| head.place) else { return Ok(ended(Vec::new())) };
            let (records, last) = self.records_of(heads, (after, end), limit.bytes).await?;
            if !has_more && last == end {
                return Ok(ended(records));
            }
            if !records.is_empty() {
                return Ok(ScanBatch { records, visibilities: Vec::new(), next: Some(cursor_at(&[(last, until)])) });
            }
            after = last;
        }
    }
}

/// The texts between two tokens that were not passed yet.
struct Texts<'a> {
    store: &'a CqlStore,
    tokens: Tokens,
    rows: VecDeque<Placed<TextRow>>,
    /// The place where the next request begins; `None` after the last.
    next: Option<PagingState>,
    /// How many the next request asks for.
    at_once: i32,
}

impl Texts<'_> {
    /// The text `text` of the page `slug`, which must not be before the page that was asked for last; `None` if it was not there
    /// or the texts cannot be read.
    async fn of(&mut self, place: i64, slug: &str, text: TextId) -> Option<TextRow> {
        loop {
            while let Some(found) = self.rows.front() {
                if (found.place, found.slug.as_str()) > (place, slug) {
                    return None;
                }
                let found = self.rows.pop_front()?;
                if found.slug == slug && found.row.is(text) {
                    return Some(found.row);
                }
            }
            let from = self.next.take()?;
            match self.request(from).await {
                Ok(rows) => self.rows = rows,
                Err(error) => tracing::debug!(%error, "the texts of a part are read one by one"),
            }
        }
    }

    async fn request(&mut self, from: PagingState) -> Result<VecDeque<Placed<TextRow>>, StoreError> {
        let Self { store, tokens, .. } = *self;
        let mut statement = store.operated.scan_texts.clone();
        statement.set_page_size(self.at_once);
        let permit = store.background_permit().await?;
        let request = async || {
            let (answer, next) = store.session.execute_single_page(&statement, tokens, from.clone()).await?;
            let rows = answer.into_rows_result().map_err(unreadable)?;
            let rows = rows.rows::<Placed<TextRow>>().map_err(unreadable)?;
            Ok((rows.collect::<Result<_, _>>().map_err(unreadable)?, next))
        };
        let (rows, next): (VecDeque<Placed<TextRow>>, _) = store.repeat(&permit, request).await?;
        if let PagingStateResponse::HasMorePages { state } = next {
            self.next = Some(state);
        }
        self.at_once = texts_after(self.at_once, rows.iter().map(|text| text.row.bytes()).sum());
        Ok(rows)
    }
}

/// How many texts to ask for after an answer of this many bytes to a request for `count`: twice as many while they are short, so that
/// a request of many is one of short texts, unless all before it were others by chance.
fn texts_after(count: i32, bytes: usize) -> i32 {
    if bytes < SHORT_TEXTS { (2 * count).min(MOST_TEXTS) } else { FIRST_TEXTS }
}

pub(super) fn ended(records: ScanRecords) -> ScanBatch {
    ScanBatch { records, visibilities: Vec::new(), next: None }
}

type ScanRecords = Vec<Result<Record, UnreadableRecord>>;

fn size_of(record: &Result<Record, UnreadableRecord>) -> usize {
    match record {
        Ok(Record::Active(page)) => RECORD_BYTES + page.text.content.as_str().len() + page.text.html.len(),
        Ok(Record::Deleted(_)) | Err(_) => RECORD_BYTES,
    }
}

/// Keeps the first `count` rows, and those after them that have the token of the last. Returns whether there may be further rows.
pub(super) fn cut<T>(rows: &mut VecDeque<Placed<T>>, count: usize) -> bool {
    let Some(last) = count.checked_sub(1).and_then(|last| rows.get(last)).map(|row| row.place) else { return false };
    let same = rows.iter().skip(count).take_while(|row| row.place == last).count();
    let has_more = rows.len() > count;
    rows.truncate(count + same);
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

/// A cursor that has what is left of each range.
pub(super) fn cursor_at(ranges: &[Tokens]) -> ScanCursor {
    let bytes = ranges.iter().flat_map(|(after, until)| [after.to_be_bytes(), until.to_be_bytes()]);
    ScanCursor::new(bytes.collect::<Vec<_>>().concat())
}

/// The ranges of [`cursor_at`], of which there is at least one.
pub(super) fn ranges_of(cursor: &ScanCursor) -> Result<Vec<Tokens>, StoreError> {
    let (tokens, rest) = cursor.as_bytes().as_chunks();
    let tokens: Vec<_> = tokens.iter().copied().map(i64::from_be_bytes).collect();
    let (ranges, odd) = tokens.as_chunks();
    let is_ours = rest.is_empty() && odd.is_empty() && !ranges.is_empty();
    let ranges = is_ours.then(|| ranges.iter().map(|&[after, until]| (after, until)).collect());
    ranges.ok_or_else(|| StoreError::Unavailable(Box::new(ForeignCursorError)))
}

#[async_trait]
impl PageScan for CqlStore {
    /// Reads one range at a time, because requests are answered meanwhile.
    async fn scan(&self, after: Option<&ScanCursor>, limit: ScanLimit) -> Result<ScanBatch, StoreError> {
        match *after.map_or_else(|| Ok(vec![Share::WHOLE.tokens()]), ranges_of)? {
            [tokens] => self.pages_between(tokens, limit).await,
            _ => Err(StoreError::Unavailable(Box::new(ForeignCursorError))),
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

    fn rows(tokens: &[i64]) -> VecDeque<Placed<()>> {
        tokens.iter().map(|&place| Placed { place, slug: place.to_string(), row: () }).collect()
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
            let mut cutting = rows(tokens);
            assert_eq!(cut(&mut cutting, count), has_more, "{tokens:?}");
            assert_eq!(cutting.iter().map(|row| row.place).collect::<Vec<_>>(), left, "{tokens:?}");
        }
    }

    #[test]
    fn a_request_asks_for_more_texts_while_those_before_were_short() {
        let mut counts = vec![FIRST_TEXTS];
        for bytes in [8_000, 16_000, 32_000, 64_000, SHORT_TEXTS, 8_000] {
            counts.push(texts_after(*counts.last().unwrap(), bytes));
        }
        assert_eq!(counts, [8, 16, 32, 64, 64, 8, 16]);
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
        let cursor = |bytes: &[u8]| ranges_of(&ScanCursor::new(bytes));
        for ranges in [&[(-5, 7)][..], &[(i64::MIN, -5), (0, i64::MAX)]] {
            assert_eq!(ranges_of(&cursor_at(ranges)).unwrap(), ranges);
        }
        for foreign in [&b"a-page-22222222"[..], &[], &[0; 8], &[0; 24]] {
            assert!(cursor(foreign).is_err(), "{foreign:?}");
        }
    }
}

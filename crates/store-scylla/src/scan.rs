//! Every record, in ranges of tokens. The caller asks for each batch, which bounds the load.

use std::iter;

use async_trait::async_trait;
use futures_util::{StreamExt, future::try_join_all};
use handbill_pages::ports::page_scan::{PageScan, ScanBatch, ScanCursor, ScanLimit, UnreadableRecord};
use handbill_pages::ports::page_store::StoreError;
use handbill_pages::values::{record::Record, slug::Slug};

use super::{connected::unavailable, row::WholeRow, store::ScyllaStore};

/// A range of tokens: above the first, up to the second.
type Tokens = (i64, i64);

/// The servers keep the first token for the beginning of the ring.
const RING: Tokens = (i64::MIN, i64::MAX);

/// Begins each cursor. It is never in UTF-8, so no cursor of the SQLite store is taken for one of these.
const CURSOR_MARK: u8 = 0xff;

type Part = (Vec<Result<Record, UnreadableRecord>>, Option<Tokens>);

impl ScyllaStore {
    async fn part(&self, (after, until): Tokens, limit: ScanLimit) -> Result<Part, StoreError> {
        let _permit = self.read_permit().await?;
        let connected = self.connected()?;
        let rows = Box::pin(connected.session.execute_iter(connected.statements.scan.clone(), (after, until))).await;
        let mut rows = rows.map_err(unavailable)?.rows_stream::<WholeRow>().map_err(unavailable)?;
        let mut records = Vec::new();
        let mut bytes = 0;
        let mut last = None;
        while let Some(row) = rows.next().await {
            let row = row.map_err(unavailable)?;
            // Rows with one token stay in one batch.
            let is_full = records.len() >= limit.records.max(1) || bytes >= limit.bytes;
            if let Some(last) = last.filter(|&last| is_full && last != row.token) {
                return Ok((records, Some((last, until))));
            }
            last = Some(row.token);
            let name = row.slug.clone();
            let record = match Slug::parse(&name) {
                Ok(slug) => connected.record_in(row, &slug).await,
                Err(error) => Err(StoreError::Unreadable(error.into())),
            };
            match record {
                Ok(record) => {
                    bytes += record.as_ref().map_or(0, Record::bytes);
                    records.extend(record.map(Ok));
                }
                Err(StoreError::Unreadable(cause)) => records.push(Err(UnreadableRecord { name, cause })),
                Err(error) => return Err(error),
            }
        }
        Ok((records, None))
    }
}

#[async_trait]
impl PageScan for ScyllaStore {
    async fn scan(&self, after: Option<&ScanCursor>, limit: ScanLimit) -> Result<ScanBatch, StoreError> {
        let ranges = after.map_or_else(|| Ok(ranges(self.limits.ranges)), ranges_of)?;
        let parts = try_join_all(ranges.into_iter().map(|range| self.part(range, limit))).await?;
        let (records, left): (Vec<_>, Vec<_>) = parts.into_iter().unzip();
        let left: Vec<_> = left.into_iter().flatten().collect();
        let next = (!left.is_empty()).then(|| cursor_at(&left));
        Ok(ScanBatch { records: records.into_iter().flatten().collect(), next })
    }
}

fn ranges(count: u8) -> Vec<Tokens> {
    let width = u64::MAX / u64::from(count.max(1));
    let starts = (0..count.max(1)).map(|number| RING.0.saturating_add_unsigned(width * u64::from(number)));
    let bounds: Vec<_> = starts.chain([RING.1]).collect();
    bounds.array_windows().map(|&[start, end]| (start, end)).collect()
}

fn cursor_at(ranges: &[Tokens]) -> ScanCursor {
    let tokens = ranges.iter().flat_map(|(after, until)| [after.to_be_bytes(), until.to_be_bytes()]);
    ScanCursor::new(iter::once(CURSOR_MARK).chain(tokens.flatten()).collect::<Vec<_>>())
}

fn ranges_of(cursor: &ScanCursor) -> Result<Vec<Tokens>, StoreError> {
    let (tokens, rest) = cursor.as_bytes().strip_prefix(&[CURSOR_MARK]).unwrap_or_default().as_chunks();
    let tokens: Vec<_> = tokens.iter().copied().map(i64::from_be_bytes).collect();
    let (ranges, odd) = tokens.as_chunks();
    let is_ours = rest.is_empty() && odd.is_empty() && (1..=usize::from(u8::MAX)).contains(&ranges.len());
    let ranges = is_ours.then(|| ranges.iter().map(|&[after, until]| (after, until)).collect());
    ranges.ok_or_else(|| StoreError::Unavailable("the cursor belongs to another store".into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ranges_are_the_whole_ring() {
        for count in [1, 8, u8::MAX] {
            let ranges = ranges(count);
            assert_eq!((ranges.len(), ranges[0].0, ranges[ranges.len() - 1].1), (count.into(), RING.0, RING.1));
            assert!(ranges.windows(2).all(|pair| pair[0].1 == pair[1].0 && pair[0].0 < pair[0].1));
        }
    }

    #[test]
    fn a_cursor_is_read_by_the_store_that_made_it() {
        for ranges in [&[(-5, 7)][..], &[(i64::MIN, -5), (0, i64::MAX)]] {
            assert_eq!(ranges_of(&cursor_at(ranges)).unwrap(), ranges);
        }
        for foreign in [&b"a-16-page-22222222-22222222-2222"[..], &[], &[0xff], &[0xff; 9], &[0xff; 25]] {
            assert!(ranges_of(&ScanCursor::new(foreign)).is_err(), "{foreign:?}");
        }
    }
}

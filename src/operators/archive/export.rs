//! A store's records as the bytes of an archive.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::{Stream, stream};
use serde::{Deserialize, Serialize};

use handbill_core::domain::archive::{Encoder, Entry};
use handbill_core::domain::timestamp::UnixMillis;
use handbill_core::ports::page_scan::{PageScan, ScanBatch, ScanCursor, ScanLimit};
use handbill_core::ports::page_store::{Record, StoreError};

/// The size of a batch: an export shares the store with requests, and encodes a batch while they wait.
const BATCH: ScanLimit = ScanLimit { records: 256, bytes: 1024 * 1024 };

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Selection {
    All,
    /// The entries of the ledger: deletions, and which pages operators have hidden or shown.
    Deletions,
}

/// Some lines of an archive.
pub struct Piece {
    pub lines: Bytes,
    /// The place after them; `None` before the first record and after the last.
    pub place: Option<Place>,
}

/// A place in an archive between two records, at which another process can go on.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Place {
    /// The cursor of the store, in hexadecimal.
    cursor: String,
    /// How many of the records until there could not be read.
    pub unreadable: u64,
}

/// An archive of `store`, in pieces of some megabytes at most. An error ends it before its trailer, so the file is not
/// complete. It goes on after what an `earlier` attempt wrote.
///
/// A record that cannot be read is left out, logged and counted in the trailer.
pub fn archive(
    store: Arc<dyn PageScan>,
    selection: Selection,
    created_at: UnixMillis,
    earlier: Option<(Encoder, Place)>,
) -> impl Stream<Item = Result<Piece, StoreError>> + Send {
    let first = earlier.map_or(Step::Begin, |(encoder, place)| {
        Step::Batch(encoder, Some(ScanCursor::from_hex(&place.cursor).unwrap_or_else(|| ScanCursor::new([]))))
    });
    stream::try_unfold((store, first), move |(store, step)| async move {
        let (encoder, after) = match step {
            Step::Begin => {
                let expected = match selection {
                    Selection::All => store.estimated_records().await?,
                    Selection::Deletions => None,
                };
                let (encoder, line) = Encoder::begin(created_at, generator(), expected);
                let piece = Piece { lines: Bytes::from(line), place: None };
                return Ok(Some((piece, (store, Step::Batch(encoder, None)))));
            }
            Step::Batch(encoder, after) => (encoder, after),
            Step::End => return Ok(None),
        };
        let (text, step) = next_piece(&*store, selection, encoder, after).await?;
        let place = match &step {
            Step::Batch(encoder, Some(after)) => {
                Some(Place { cursor: after.to_hex(), unreadable: encoder.unreadable_count() })
            }
            _ => None,
        };
        Ok(Some((Piece { lines: Bytes::from(text), place }, (store, step))))
    })
}

enum Step {
    Begin,
    Batch(Encoder, Option<ScanCursor>),
    End,
}

/// The lines of the next batch that has any.
async fn next_piece(
    store: &dyn PageScan,
    selection: Selection,
    mut encoder: Encoder,
    mut after: Option<ScanCursor>,
) -> Result<(String, Step), StoreError> {
    loop {
        let ScanBatch { records, visibilities, next } = store.scan(after.as_ref(), BATCH).await?;
        let mut text = String::new();
        // The pages of an archive say themselves whether they are hidden.
        for visibility in visibilities.into_iter().filter(|_| selection == Selection::Deletions) {
            text.push_str(&encoder.entry(&Entry::Visibility(visibility)));
        }
        for record in records {
            match record {
                Ok(Record::Active(page)) if selection == Selection::All => {
                    text.push_str(&encoder.entry(&Entry::of(&page)));
                }
                Ok(Record::Active(_)) => {}
                Ok(Record::Deleted(tombstone)) => text.push_str(&encoder.entry(&Entry::Tombstone(tombstone))),
                Err(unreadable) => {
                    let (slug, error) = (&unreadable.name, &unreadable.cause);
                    tracing::error!(slug, %error, "a record cannot be read and is not in the archive");
                    encoder.unreadable();
                }
            }
        }
        after = next;
        if after.is_none() {
            text.push_str(&encoder.end());
            return Ok((text, Step::End));
        }
        if !text.is_empty() {
            return Ok((text, Step::Batch(encoder, after)));
        }
    }
}

pub fn generator() -> String {
    format!("handbill {}", env!("CARGO_PKG_VERSION"))
}

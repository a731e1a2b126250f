//! The records of a running process, read through its operators' listener.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use thiserror::Error;
use tokio::sync::Mutex;

use super::client::Client;
use crate::operators::api::records::BatchEnd;
use handbill_core::domain::archive::{ArchiveError, Entry, read_entry_line};
use handbill_core::domain::markdown::Rendered;
use handbill_core::domain::page::Page;
use handbill_core::ports::page_scan::{PageScan, ScanBatch, ScanCursor, ScanLimit, UnreadableRecord};
use handbill_core::ports::page_store::{Record, StoreError};

/// The records of a running process. Its pages have no HTML, because an archive has none. The process decides how large
/// a batch is.
pub(super) struct RemoteRecords {
    client: Client,
    /// The first batch, which also says how many records there are.
    first: Mutex<Option<Bytes>>,
}

/// The process answers in another way than this version expects.
#[derive(Debug, Error)]
enum RemoteError {
    /// The process refused, or cannot be reached.
    #[error("{0}")]
    Refused(String),
    #[error(transparent)]
    Line(#[from] ArchiveError),
    /// The last line is not as expected.
    #[error("the answer is not as expected: is --admin-listen a Handbill of this version?")]
    Foreign,
    /// The process could not read a record.
    #[error("the log of the running process says why")]
    Unreadable,
}

impl RemoteRecords {
    pub(super) fn new(client: Client) -> Self {
        Self { client, first: Mutex::new(None) }
    }

    async fn get(&self, after: Option<&ScanCursor>) -> Result<Bytes, StoreError> {
        let query = after.map(|after| format!("?after={}", after.to_hex())).unwrap_or_default();
        let answer = self.client.get(&format!("/records{query}")).await;
        answer.map_err(|reason| StoreError::Unavailable(Box::new(RemoteError::Refused(reason))))
    }
}

fn parse(answer: &[u8]) -> Result<(ScanBatch, BatchEnd), RemoteError> {
    let mut lines: Vec<_> = answer.split_inclusive(|&byte| byte == b'\n').collect();
    let end = lines.pop().ok_or(RemoteError::Foreign)?;
    let end: BatchEnd = serde_json::from_slice(end).map_err(|_| RemoteError::Foreign)?;
    let (mut records, mut visibilities) = (Vec::with_capacity(lines.len()), Vec::new());
    for line in lines {
        match read_entry_line(line)? {
            Entry::Page(head, content) => {
                records.push(Ok(Record::Active(Arc::new(Page::new(head, content, Rendered::default())))));
            }
            Entry::Tombstone(tombstone) => records.push(Ok(Record::Deleted(tombstone))),
            Entry::Visibility(visibility) => visibilities.push(visibility),
        }
    }
    let unreadable = |name: &String| UnreadableRecord { name: name.clone(), cause: Box::new(RemoteError::Unreadable) };
    records.extend(end.unreadable.iter().map(|name| Err(unreadable(name))));
    let next =
        end.next.as_deref().map(|digits| ScanCursor::from_hex(digits).ok_or(RemoteError::Foreign)).transpose()?;
    Ok((ScanBatch { records, visibilities, next }, end))
}

#[async_trait]
impl PageScan for RemoteRecords {
    async fn scan(&self, after: Option<&ScanCursor>, _limit: ScanLimit) -> Result<ScanBatch, StoreError> {
        let kept = if after.is_none() { self.first.lock().await.take() } else { None };
        let answer = match kept {
            Some(answer) => answer,
            None => self.get(after).await?,
        };
        parse(&answer).map(|(batch, _)| batch).map_err(|error| StoreError::Unavailable(Box::new(error)))
    }

    async fn estimated_records(&self) -> Result<Option<u64>, StoreError> {
        let answer = self.get(None).await?;
        let (_, end) = parse(&answer).map_err(|error| StoreError::Unavailable(Box::new(error)))?;
        *self.first.lock().await = Some(answer);
        Ok(end.expected_records)
    }
}

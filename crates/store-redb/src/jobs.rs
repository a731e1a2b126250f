//! Requests to the writer thread, and its answers.

use std::iter;
use std::sync::Arc;
use std::sync::mpsc;

use thiserror::Error;
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use super::shared::cause;
use super::tables::{Operation, Outcome};
use crate::ports::page_store::StoreError;

pub(super) enum Job {
    Write(Write),
    /// Reopen the database, unless it was already replaced since the reader saw the epoch `seen`.
    Reopen {
        seen: u64,
        done: mpsc::SyncSender<()>,
    },
    /// Write what the ledger of deletions lacks, and say whether it lacks nothing now.
    CompleteLedger {
        done: oneshot::Sender<Result<(), LedgerError>>,
    },
    /// End the thread, after all earlier requests.
    Close,
}

/// An operation, and the channel to its caller.
pub(super) struct Write {
    pub(super) operation: Operation,
    pub(super) bytes: usize,
    pub(super) answer: oneshot::Sender<Result<Outcome, StoreError>>,
    /// The operation's share of the queue; dropping it frees the share.
    pub(super) permit: OwnedSemaphorePermit,
}

/// The ledger of deletions cannot be written.
#[derive(Debug, Error)]
#[error("the ledger of deletions cannot be written")]
pub(super) struct LedgerError;

pub(super) fn answer(batch: Vec<Write>, outcomes: impl IntoIterator<Item = Result<Outcome, StoreError>>) {
    for (Write { answer, permit, .. }, outcome) in batch.into_iter().zip(outcomes) {
        drop(permit);
        // Sending fails if the caller has given up.
        let _ = answer.send(outcome);
    }
}

/// An answer for each write that was not done because of `error`.
pub(super) fn unavailable<E>(error: &Arc<E>) -> impl Iterator<Item = Result<Outcome, StoreError>>
where
    E: std::error::Error + Send + Sync + 'static,
{
    iter::repeat_with(|| Err(StoreError::Unavailable(cause(error))))
}

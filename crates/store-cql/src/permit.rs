//! The right to run one operation, and the time by which the operation must end.

use thiserror::Error;
use tokio::sync::SemaphorePermit;
use tokio::time::Instant;

use super::gate::Pass;

/// The right to run one operation, and the time by which it must end.
pub(super) struct Permit<'a> {
    pub(super) deadline: Instant,
    right: Right<'a>,
}

/// The place that an operation takes among those that run at once.
enum Right<'a> {
    OfPage(Pass<'a>),
    OfOperator { _permit: SemaphorePermit<'a> },
}

/// The caller needs the answer before there could be one. Nothing was sent.
#[derive(Debug, Error)]
#[error("too little time was left to ask the database")]
pub(super) struct NoTimeError;

impl<'a> Permit<'a> {
    pub(super) fn of_page(deadline: Instant, pass: Pass<'a>) -> Self {
        Self { deadline, right: Right::OfPage(pass) }
    }

    pub(super) fn of_operator(deadline: Instant, permit: SemaphorePermit<'a>) -> Self {
        Self { deadline, right: Right::OfOperator { _permit: permit } }
    }

    /// Whether an operator's work asks, which reads pages that nobody may want again.
    pub(super) fn is_of_operator(&self) -> bool {
        matches!(self.right, Right::OfOperator { .. })
    }

    pub(super) fn answered(&self) {
        if let Right::OfPage(pass) = &self.right {
            pass.answered();
        }
    }
}

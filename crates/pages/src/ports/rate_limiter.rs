//! Limits how often each client may create, edit and ask for tokens.

use std::time::Duration;

use async_trait::async_trait;

use crate::values::quota::{Decision, Quota};
use crate::values::slug::{Reservation, Reserved};
use crate::values::{client::Client, client::Window};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LimitKind {
    Create,
    /// Updates and deletions together.
    Edit,
    Token,
    Preview,
}

impl LimitKind {
    pub fn name(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Edit => "edit",
            Self::Token => "token",
            Self::Preview => "preview",
        }
    }
}

/// An attempt, and the windows that it must fit into.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    pub kind: LimitKind,
    /// The narrowest; its quota is shown to the client.
    pub own: Window,
    /// The widest last.
    pub wider: Vec<Window>,
}

impl Attempt {
    pub fn new(kind: LimitKind, quota: Quota, client: Client) -> Self {
        Self { kind, own: Window { network: client.network(), quota }, wider: Vec::new() }
    }

    pub fn within(kind: LimitKind, windows: Vec<Window>) -> Option<Self> {
        let mut windows = windows.into_iter();
        Some(Self { kind, own: windows.next()?, wider: windows.collect() })
    }

    pub fn windows(&self) -> impl DoubleEndedIterator<Item = &Window> {
        std::iter::once(&self.own).chain(&self.wider)
    }
}

/// Counts attempts in exact sliding windows ([`Quota::decide`]). A check never fails: without its server, a backend decides
/// by its own windows.
#[async_trait]
pub trait RateLimiter: Send + Sync {
    /// Counts an admitted attempt in all of its windows, in one atomic step.
    async fn check(&self, attempt: Attempt) -> Decision;

    fn system(&self) -> Option<&'static str> {
        None
    }

    /// Reserves the slug of an admitted attempt for about as long as a create takes, unless it is reserved. In doubt the
    /// slug is unopposed. The first poll asks: the slug is also reserved if nobody waits for the answer.
    async fn reserve(&self, reservation: &Reservation) -> Reserved;
}

/// An editor asks for a preview with each pause in typing.
pub const PREVIEWS: Quota = Quota { limit: 600, window: Duration::from_hours(1) };

/// `None` where a limit is off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quotas {
    pub create: Option<Quota>,
    /// Updates and deletions together.
    pub edit: Option<Quota>,
    pub token: Option<Quota>,
}

impl Quotas {
    pub fn of(&self, kind: LimitKind) -> Option<Quota> {
        match kind {
            LimitKind::Create => self.create,
            LimitKind::Edit => self.edit,
            LimitKind::Token => self.token,
            LimitKind::Preview => Some(PREVIEWS),
        }
    }
}

//! Limits how often each client may create, edit and ask for tokens.

use std::time::Duration;

use async_trait::async_trait;

use crate::values::client::Client;
use crate::values::network_limits::Window;
use crate::values::quota::{Decision, Quota};
use crate::values::reservation::{Reservation, Reserved};

/// The kinds of limited operations. Each has its own windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LimitKind {
    /// Creating pages.
    Create,
    /// Updating and deleting pages, together.
    Edit,
    /// Asking for tokens.
    Token,
    /// Previewing pages, which publishes nothing.
    Preview,
}

impl LimitKind {
    /// The limit's name in metrics, keys and the `RateLimit` fields.
    pub fn name(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Edit => "edit",
            Self::Token => "token",
            Self::Preview => "preview",
        }
    }
}

/// One attempt, and the windows that it must fit into.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// The limit that counts the attempt.
    pub kind: LimitKind,
    /// The narrowest window. The client is told its quota.
    pub own: Window,
    /// Further windows, the widest last.
    pub wider: Vec<Window>,
    /// The slug that a create would take.
    pub slug: Option<Reservation>,
}

impl Attempt {
    /// An attempt of `client`, which only its own window counts.
    pub fn new(kind: LimitKind, quota: Quota, client: Client) -> Self {
        Self { kind, own: Window { network: client.network(), quota }, wider: Vec::new(), slug: None }
    }

    /// An attempt that must fit into `windows`, the narrowest first; `None` if there are none.
    pub fn within(kind: LimitKind, windows: Vec<Window>) -> Option<Self> {
        let mut windows = windows.into_iter();
        Some(Self { kind, own: windows.next()?, wider: windows.collect(), slug: None })
    }

    /// All windows, the narrowest first.
    pub fn windows(&self) -> impl DoubleEndedIterator<Item = &Window> {
        std::iter::once(&self.own).chain(&self.wider)
    }
}

/// Counts attempts in exact sliding windows, as [`Quota::decide`] defines them.
///
/// A check has no error: a backend that cannot reach its server decides by its own windows until it can.
#[async_trait]
pub trait RateLimiter: Send + Sync {
    /// Decides `attempt` and counts it if it is admitted, in one atomic step: in each of its windows or in none. The same
    /// step reserves the slug of an admitted attempt, if the backend keeps reservations beside these windows.
    async fn check(&self, attempt: Attempt) -> Decision;

    /// The database that counts, as OpenTelemetry names it (`db.system.name`); `None` if that is this process.
    fn system(&self) -> Option<&'static str> {
        None
    }

    /// Reserves the slug of an attempt that was admitted, for about as long as a create takes, unless it is reserved already.
    /// Takes no longer than [`RateLimiter::check`]; if nobody can say whose the slug is, it is unopposed.
    async fn reserve(&self, reservation: &Reservation) -> Reserved;
}

/// The quota of previews, which every process counts for itself. A preview publishes nothing, and an editor asks for one
/// with each pause in typing.
pub const PREVIEWS: Quota = Quota { limit: 600, window: Duration::from_hours(1) };

/// The quota of each limit; `None` if the limit is off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quotas {
    /// The quota for creating pages.
    pub create: Option<Quota>,
    /// The quota for updating and deleting pages, together.
    pub edit: Option<Quota>,
    /// The quota for asking for tokens.
    pub token: Option<Quota>,
}

impl Quotas {
    /// The quota of `kind`.
    pub fn of(&self, kind: LimitKind) -> Option<Quota> {
        match kind {
            LimitKind::Create => self.create,
            LimitKind::Edit => self.edit,
            LimitKind::Token => self.token,
            LimitKind::Preview => Some(PREVIEWS),
        }
    }
}

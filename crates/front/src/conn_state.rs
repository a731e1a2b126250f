//! The state of a connection, which the byte stream below it and the service above it share.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use prometheus_client::metrics::counter::Counter;
use tokio::time::Instant;

use super::budgets::{Budget, Full, Permit};
use super::connections::ConnectionPermit;
use super::cut::Cut;
use super::framing::Body;
use super::limits::ServerLimits;
use crate::clients::Client;

/// Bytes that a request holds besides its head and body: hyper's two buffers of 8 KiB and the state of its handler.
const REQUEST_BYTES: u64 = 24 * 1024;

/// Hyper copies a head into a buffer that it doubles until the head fits. Up to this size, in bytes, the copy is part of
/// [`REQUEST_BYTES`].
const SMALL_HEAD_BYTES: usize = 8 * 1024;

/// Most bytes that an answer holds in addition to its body, until the client has received it: the buffers of hyper and of
/// the kernel.
const ANSWER_BYTES: u64 = 80 * 1024;

/// Those of hyper, of the kernel for a head, and what the kernel adds to its copy of a short answer: at most 5 KB, also for a client
/// that wants the smallest packets.
const LEAST_ANSWER_BYTES: u64 = 22 * 1024;

/// Answers up to this size, in bytes, are never refused after the work was done, because a small answer may show an
/// edit key.
const SMALL_ANSWER_BYTES: u64 = 16 * 1024;

/// Bytes that an answer holds besides a body of `bytes`, of which the kernel has a copy until it has arrived.
fn buffer_bytes(bytes: u64) -> u64 {
    bytes.saturating_add(LEAST_ANSWER_BYTES).min(ANSWER_BYTES)
}

pub(super) struct Shared {
    pub(super) limits: ServerLimits,
    pub(super) receiving: Arc<Budget>,
    pub(super) sending: Arc<Budget>,
    /// Bytes that the kernel has taken for clients.
    pub(super) sent_bytes: Counter,
}

pub(super) struct ConnState {
    pub(super) shared: Arc<Shared>,
    pub(super) cut: Arc<Cut>,
    /// The other end of the connection: the client or a proxy.
    peer: Client,
    state: Mutex<State>,
}

struct State {
    stage: Stage,
    /// The part of the request's body that hyper does not have yet.
    body: Body,
    /// The service has not read all of the request's body.
    has_unread: bool,
    /// Hyper has all of the answer.
    is_handed_over: bool,
    client: Client,
    /// There was no room for the answer, and that was counted. The service asks before and after its work.
    is_refused: bool,
    receiving: Option<Permit>,
    sending: Option<Permit>,
    place: ConnectionPermit,
    draining: Option<Draining>,
}

/// Set once the listener stops.
#[derive(Clone, Copy)]
struct Draining {
    since: Instant,
    /// How long to stay idle instead of [`ServerLimits::idle`], since no further request is wanted.
    idle: Duration,
}

#[derive(Clone, Copy)]
enum Stage {
    /// Waiting for the first byte of a head. A fresh connection had no request yet.
    Idle { until: Instant, is_fresh: bool },
    /// The head has begun and must be complete by `until`.
    Head { until: Instant },
    /// Hyper has the head.
    Given,
    /// The service has the request. The service's own time limits apply besides the limit for the body.
    Request { since: Instant },
    /// The answer was made and must be sent by `until`.
    Answer { until: Instant },
}

impl ConnState {
    pub(super) fn new(shared: Arc<Shared>, peer: Client, cut: Arc<Cut>, place: ConnectionPermit) -> Self {
        let until = Instant::now() + shared.receiving.tightened(shared.limits.head);
        let state = State {
            stage: Stage::Idle { until, is_fresh: true },
            body: Body::NONE,
            has_unread: false,
            is_handed_over: false,
            client: peer,
            is_refused: false,
            receiving: None,
            sending: None,
            place,
            draining: None,
        };
        Self { shared, cut, peer, state: Mutex::new(state) }
    }

    /// Records that bytes of a head have arrived. Only the first of them count.
    pub(super) fn head_began(&self) {
        let mut state = self.state.lock();
        let Stage::Idle { .. } = state.stage else { return };
        let now = Instant::now();
        state.stage = Stage::Head { until: now + self.shared.receiving.tightened(self.shared.limits.head) };
        state.client = self.peer;
        state.place.work(now);
    }

    /// Reserves `bytes` in total for a head.
    pub(super) fn charge_head(&self, bytes: usize) -> Result<(), Full> {
        self.state.lock().charge(bytes as u64, self)
    }

    /// Records that a head of `bytes` is complete and goes to hyper.
    pub(super) fn head_is_whole(&self, bytes: usize) -> Result<(), Full> {
        let mut state = self.state.lock();
        let copied = if bytes > SMALL_HEAD_BYTES { 2 * bytes as u64 } else { 0 };
        // Nothing that is written reaches the client while hyper has a head, and without room it gets none.
        state.charge(REQUEST_BYTES + copied, self)?;
        state.stage = Stage::Given;
        state.has_unread = true;
        Ok(())
    }

    /// Records that hyper has read a head which `body` follows. The request is charged to `client`.
    pub(super) fn request_began(&self, body: Body, client: Client) {
        let (mut state, now) = (self.state.lock(), Instant::now());
        state.stage = Stage::Request { since: now };
        state.is_handed_over = false;
        state.is_refused = false;
        state.has_unread = !body.is_done();
        state.body = body;
        if state.client != client {
            state.client = client;
            if let Some(permit) = &state.receiving {
                permit.move_to(client);
            }
        }
        if !state.has_unread {
            state.wait_for_us(true, now);
        }
    }

    /// Reserves `bytes` of the body, which have arrived.
    pub(super) fn charge_body(&self, bytes: usize) -> Result<(), Full> {
        let mut state = self.state.lock();
        let held = match &mut state.receiving {
            Some(permit) => {
                permit.moved(bytes);
                permit.bytes()
            }
            None => 0,
        };
        if let Some(permit) = &mut state.sending {
            permit.moved(bytes);
        }
        state.charge(held + bytes as u64, self)
    }

    /// Records that the request's body was read to its end.
    pub(super) fn request_was_read(&self) {
        let mut state = self.state.lock();
        if std::mem::take(&mut state.has_unread) {
            state.wait_for_us(true, Instant::now());
        }
    }

    /// When the time for the body is over, if its last bytes arrived at `last`.
    pub(super) fn body_deadline(&self, last: Option<Instant>) -> Option<Instant> {
        let state = self.state.lock();
        let Stage::Request { since } = state.stage else { return None };
        let whole = since + self.shared.receiving.tightened(self.shared.limits.body);
        let stalled = state.draining.map(|draining| self.stalled(draining, last.unwrap_or(since)));
        Some(stalled.map_or(whole, |stalled| stalled.min(whole)))
    }

    /// Reserves what any answer needs whose body has at most `most` bytes. It is called before any work is done. A request
    /// that was refused stays refused.
    pub(super) fn may_answer(&self, most: u64) -> Result<(), Full> {
        let mut state = self.state.lock();
        if state.is_refused {
            return Err(Full);
        }
        if state.sending.is_none() {
            // While the client still sends its body, the connection waits for the client, who may have no intention to send it.
            let is_ours = !state.has_unread;
            let permit = self.shared.sending.take(state.client, buffer_bytes(most), is_ours, &self.cut);
            state.is_refused = permit.is_err();
            state.sending = Some(permit?);
        }
        Ok(())
    }

    /// Reserves `bytes` for the body of the answer until it is sent.
    pub(super) fn charge_answer(&self, bytes: u64) -> Result<(), Full> {
        let mut state = self.state.lock();
        let (client, needed) = (state.client, buffer_bytes(bytes) + bytes);
        let reserved = match &mut state.sending {
            Some(permit) if bytes <= SMALL_ANSWER_BYTES && needed > permit.bytes() => {
                permit.force(needed - permit.bytes());
                Ok(())
            }
            Some(permit) => permit.resize(needed),
            None => self.shared.sending.take(client, needed, false, &self.cut).map(|permit| {
                state.sending = Some(permit);
            }),
        };
        state.is_refused = reserved.is_err();
        reserved
    }

    /// Records that the answer was made, and frees the request. Returns whether the connection must end with this answer,
    /// because part of the request was not read.
    pub(super) fn answered(&self) -> bool {
        let (mut state, now) = (self.state.lock(), Instant::now());
        state.receiving = None;
        state.wait_for_us(false, now);
        state.stage = Stage::Answer { until: now + self.shared.sending.tightened(self.shared.limits.answer) };
        state.has_unread
    }

    /// Records that hyper has all of the answer.
    pub(super) fn handed_over(&self) {
        self.state.lock().is_handed_over = true;
    }

    /// Whether hyper has all of the answer.
    pub(super) fn is_handed_over(&self) -> bool {
        self.state.lock().is_handed_over
    }

    /// Records that the kernel accepted `bytes` of the answer.
    pub(super) fn sent(&self, bytes: usize) {
        if let Some(permit) = &mut self.state.lock().sending {
            permit.moved(bytes);
        }
    }

    /// Records that everything was sent. Returns true if that completes an answer; the connection is then idle.
    pub(super) fn all_sent(&self) -> bool {
        let mut state = self.state.lock();
        let Stage::Answer { .. } = state.stage else { return false };
        if !state.is_handed_over {
            return false;
        }
        state.sending = None;
        let idle = state
            .draining
            .map_or_else(|| self.shared.receiving.tightened(self.shared.limits.idle), |draining| draining.idle);
        let now = Instant::now();
        state.stage = Stage::Idle { until: now + idle, is_fresh: false };
        state.place.rest(now);
        true
    }

    /// Starts draining. A connection that had no request yet waits `first` for its first request. Any other connection
    /// waits `next` for another request. From now on a client that makes no progress has less time.
    pub(super) fn finish(&self, first: Duration, next: Duration) {
        let mut state = self.state.lock();
        let now = Instant::now();
        state.draining = Some(Draining { since: now, idle: next });
        if let Stage::Idle { until, is_fresh } = &mut state.stage {
            let latest = now + if *is_fresh { first } else { next };
            *until = latest.min(*until);
        }
    }

    /// When the client's time to send a head is over.
    pub(super) fn head_deadline(&self) -> Option<Instant> {
        match self.state.lock().stage {
            Stage::Idle { until, .. } | Stage::Head { until } => Some(until),
            Stage::Given | Stage::Request { .. } | Stage::Answer { .. } => None,
        }
    }

    /// When the client's time to read the answer is over, if it last made progress at `last`.
    pub(super) fn write_deadline(&self, last: Instant) -> Instant {
        let state = self.state.lock();
        let slow = last + self.shared.sending.tightened(self.shared.limits.write);
        let stalled = state.draining.map_or(slow, |draining| self.stalled(draining, last).min(slow));
        match state.stage {
            Stage::Answer { until } => stalled.min(until),
            _ => stalled,
        }
    }

    /// Gives `update` the part of the request's body that hyper does not have yet.
    pub(super) fn with_body<T>(&self, update: impl FnOnce(&mut Body) -> T) -> T {
        update(&mut self.state.lock().body)
    }

    /// Whether hyper has a head that the service has not seen.
    pub(super) fn is_given(&self) -> bool {
        matches!(self.state.lock().stage, Stage::Given)
    }

    /// Whether bytes that arrive belong to a body.
    pub(super) fn is_in_request(&self) -> bool {
        matches!(self.state.lock().stage, Stage::Request { .. } | Stage::Answer { .. })
    }

    /// Whether another request may begin: the last answer was sent, and no bytes of its request can still arrive. Bytes
    /// of a body that nobody read must never be taken for a request.
    pub(super) fn is_idle(&self) -> bool {
        let state = self.state.lock();
        matches!(state.stage, Stage::Idle { .. }) && !state.has_unread
    }

    /// Whether the client may still send bytes that nobody will read: the rest of a body or of an invalid head.
    pub(super) fn has_unread(&self) -> bool {
        let state = self.state.lock();
        state.has_unread || matches!(state.stage, Stage::Head { .. })
    }

    fn stalled(&self, draining: Draining, last: Instant) -> Instant {
        draining.since.max(last) + self.shared.limits.stalled_at_stop
    }
}

impl State {
    /// Records that from `now` on the connection waits for this process (`is_ours`) or for its client.
    fn wait_for_us(&mut self, is_ours: bool, now: Instant) {
        self.place.wait_for_us(is_ours, now);
        if is_ours && let Some(permit) = &self.receiving {
            permit.wait_for_us(true, now);
        }
        if let Some(permit) = &self.sending {
            permit.wait_for_us(is_ours, now);
        }
    }

    /// Reserves `bytes` in total for the request.
    fn charge(&mut self, bytes: u64, conn: &ConnState) -> Result<(), Full> {
        if let Some(permit) = &mut self.receiving {
            return permit.resize(bytes);
        }
        self.receiving = Some(conn.shared.receiving.take(self.client, bytes, false, &conn.cut)?);
        Ok(())
    }
}

/// The budget for the answer to one request. The server puts it into the request's extensions.
#[derive(Clone)]
pub struct AnswerBudget(Arc<ConnState>);

impl AnswerBudget {
    pub(super) fn new(conn: Arc<ConnState>) -> Self {
        Self(conn)
    }

    /// Reserves what any answer needs whose body has at most `most` bytes. Call it before any work is done.
    ///
    /// Fails if the budget is used up and no other connection gives way.
    pub fn ask(&self, most: u64) -> Result<(), Full> {
        self.0.may_answer(most)
    }

    /// Reserves `bytes` for the body of the answer. This never fails for a small body, which may show an edit key.
    pub fn take(&self, bytes: u64) -> Result<(), Full> {
        self.0.charge_answer(bytes)
    }
}

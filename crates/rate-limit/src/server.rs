//! One Redis server, which is not asked for a second after several failures in a row.

use std::time::Instant;

use deadpool::managed::PoolError;
use parking_lot::Mutex;
use redis::{ConnectionInfo, ErrorKind, RedisError, RedisResult, ServerErrorKind, Value, aio::MultiplexedConnection};
use thiserror::Error;

use super::connection::{ConnectError, Pool};
use super::settings::OpenError;

/// One lost answer is no lost server: a master that forks or a packet that is sent again delays a few.
const FAILURES: u32 = 3;

const PROBE_KEY_SECONDS: u32 = 3;

/// Why this replica decides alone.
#[derive(Debug, Error)]
pub(super) enum Failure {
    #[error("it does not answer within --redis-timeout")]
    TooLate,
    #[error("it is out of memory: raise maxmemory")]
    OutOfMemory,
    #[error("it answers {0}")]
    Refused(RedisError),
    #[error("cannot connect: {0}")]
    Connect(PoolError<ConnectError>),
    #[error(transparent)]
    Settings(#[from] OpenError),
}

impl From<RedisError> for Failure {
    fn from(error: RedisError) -> Self {
        if error.code() == Some("OOM") { Self::OutOfMemory } else { Self::Refused(error) }
    }
}

impl Failure {
    /// The server is well, and another one has the slot, or will soon.
    pub(super) fn is_moved(&self) -> bool {
        use ServerErrorKind::{Ask, Moved, TryAgain};
        matches!(self, Self::Refused(error) if matches!(error.kind(), ErrorKind::Server(Moved | Ask | TryAgain)))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// With the failures since the last answer.
    Asked(u32),
    GivenUp,
}

pub(super) struct Server {
    /// Without login.
    pub(super) address: ConnectionInfo,
    pool: Pool,
    state: Mutex<State>,
}

impl Server {
    pub(super) fn new(address: ConnectionInfo, pool: Pool) -> Self {
        Self { address, pool, state: Mutex::new(State::Asked(0)) }
    }

    pub(super) fn is_given_up(&self) -> bool {
        *self.state.lock() == State::GivenUp
    }

    pub(super) fn answered(&self) {
        let mut state = self.state.lock();
        if let State::Asked(failures) = &mut *state {
            *failures = 0;
        }
    }

    /// Whether this was one failure too many.
    pub(super) fn failed(&self) -> bool {
        let mut state = self.state.lock();
        match &mut *state {
            State::Asked(failures) if *failures + 1 < FAILURES => *failures += 1,
            State::Asked(_) => {
                *state = State::GivenUp;
                return true;
            }
            State::GivenUp => {}
        }
        false
    }

    /// Whether it was not given up before.
    pub(super) fn give_up(&self) -> bool {
        std::mem::replace(&mut *self.state.lock(), State::GivenUp) != State::GivenUp
    }

    pub(super) fn ask_again(&self) {
        *self.state.lock() = State::Asked(0);
    }

    /// A connection that takes longer to make than its call may wait is there for the next call.
    pub(super) async fn connection(&self) -> Result<MultiplexedConnection, Failure> {
        let pool = self.pool.clone();
        let connecting = tokio::spawn(async move { pool.get().await.map(|connection| connection.clone()) });
        connecting.await.expect("no connection panics").map_err(Failure::Connect)
    }

    /// `ask` may run twice, which must change no more than once.
    pub(super) async fn ask<T, F>(&self, ask: &impl Fn(MultiplexedConnection) -> F) -> Result<T, Failure>
    where
        F: Future<Output = RedisResult<T>>,
    {
        let began = Instant::now();
        let mut answer = ask(self.connection().await?).await;
        // Only a server's refusal has a code.
        if answer.as_ref().is_err_and(|error| error.code().is_none()) {
            self.pool.retain(|_, connection| connection.created > began);
            answer = ask(self.connection().await?).await;
        }
        Ok(answer?)
    }

    /// On a new connection, because the old ones may lead to a master that has become a replica. It writes, because a
    /// replica answers too.
    pub(super) async fn probe(&self, key: &str) -> Result<(), Failure> {
        self.disconnect();
        let mut set = redis::cmd("SET");
        set.arg(key).arg(1).arg("EX").arg(PROBE_KEY_SECONDS);
        Ok(set.query_async(&mut self.connection().await?).await?)
    }

    pub(super) fn disconnect(&self) {
        self.pool.retain(|_, _| false);
    }

    /// The masters of the cluster, as this node knows them, each with its first and last slot.
    pub(super) async fn masters(&self) -> Result<Vec<(u16, u16, String, u16)>, Failure> {
        let mut slots = redis::cmd("CLUSTER");
        slots.arg("SLOTS");
        let ranges: Vec<Vec<Value>> = slots.query_async(&mut self.connection().await?).await?;
        Ok(ranges.into_iter().filter_map(range).collect())
    }
}

/// A range of `CLUSTER SLOTS`: first slot, last slot, the master and its replicas.
fn range(range: Vec<Value>) -> Option<(u16, u16, String, u16)> {
    let mut range = range.into_iter();
    let (first, last, Value::Array(master)) = (range.next()?, range.next()?, range.next()?) else { return None };
    let mut master = master.into_iter();
    // Without a host, the master is where the answer came from.
    let host: Option<String> = redis::from_redis_value(master.next()?).ok()?;
    Some((number(first)?, number(last)?, host.unwrap_or_default(), number(master.next()?)?))
}

fn number(value: Value) -> Option<u16> {
    redis::from_redis_value(value).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(answer: &[u8]) -> Failure {
        redis::parse_redis_value(answer).unwrap().extract_error().unwrap_err().into()
    }

    #[test]
    fn a_server_without_memory_says_so() {
        let full = refusal(b"-OOM command not allowed when used memory > 'maxmemory'. script: 0a\r\n");
        assert_eq!(full.to_string(), "it is out of memory: raise maxmemory");
        let demoted = refusal(b"-READONLY You can't write against a read only replica.\r\n");
        assert!(demoted.to_string().starts_with("it answers"), "{demoted}");
    }
}

//! Calls Redis within a time limit, and not at all for a while after a call failed.

use std::fmt::Display;
use std::future::Future;
use std::mem;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use deadpool::managed::PoolError;
use prometheus_client::metrics::gauge::Gauge;
use redis::RedisResult;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::connection::{ConnectError, Connection, Manager, Pool};
use super::settings::{OpenError, RedisSettings};

/// How long Redis is not asked after a call failed.
const PAUSE: Duration = Duration::from_secs(1);

/// How long Redis keeps the key that shows whether it takes writes.
const PROBE_KEY_SECONDS: u32 = 3;

pub(super) struct Link {
    pub(super) pool: Pool,
    limit: Duration,
    /// Whether Redis is not asked.
    pub(super) is_down: watch::Sender<bool>,
    /// 1 while Redis is not asked, else 0.
    fallback: Gauge,
    probe_key: String,
}

impl Link {
    /// Connects in the background. The caller must be within a Tokio runtime.
    pub(super) fn open(settings: &RedisSettings, fallback: Gauge, probe_key: String) -> Result<Arc<Self>, OpenError> {
        let pool = Manager::new(settings)?.into_pool();
        let link =
            Arc::new(Self { pool, limit: settings.timeout, is_down: watch::Sender::new(false), fallback, probe_key });
        let first = Arc::clone(&link);
        // Without a request the metric must be right too.
        tokio::spawn(async move {
            if let Err(error) = first.pool.get().await {
                first.lost(error);
            }
        });
        Ok(link)
    }

    /// Returns the answer of Redis, within the time limit. Returns `None` if there was no answer: Redis may or may not have
    /// run the command. Running the command of `ask` twice must change no more than running it once.
    pub(super) async fn call<T, F>(self: &Arc<Self>, ask: impl Fn(Connection) -> F) -> Option<T>
    where
        F: Future<Output = RedisResult<T>>,
    {
        if *self.is_down.borrow() {
            return None;
        }
        match timeout(self.limit, self.ask_again_if_cut(ask)).await {
            Ok(Ok(answer)) => return Some(answer),
            Ok(Err(error)) => self.lost(error),
            Err(_) => self.lost("no answer in time"),
        }
        None
    }

    async fn ask_again_if_cut<T, F>(&self, ask: impl Fn(Connection) -> F) -> Result<T, PoolError<ConnectError>>
    where
        F: Future<Output = RedisResult<T>>,
    {
        let began = Instant::now();
        let mut answer = ask(self.pool.get().await?.clone()).await;
        // A server's refusal has a code. Anything else is the connection's fault.
        if answer.as_ref().is_err_and(|error| error.code().is_none()) {
            self.pool.retain(|_, connection| connection.created > began);
            answer = ask(self.pool.get().await?.clone()).await;
        }
        answer.map_err(|error| PoolError::Backend(error.into()))
    }

    /// Checks on a new connection whether Redis takes writes. A replica that is not yet a master answers, but takes no
    /// writes.
    async fn probe(&self) -> Result<(), PoolError<ConnectError>> {
        self.pool.retain(|_, _| false);
        let mut connection = self.pool.get().await?.clone();
        let mut write = redis::cmd("SET");
        write.arg(&self.probe_key).arg(1).arg("EX").arg(PROBE_KEY_SECONDS);
        connection.query(&write).await.map_err(|error| PoolError::Backend(error.into()))
    }

    fn lost(self: &Arc<Self>, error: impl Display) {
        if self.is_down.send_if_modified(|is_down| !mem::replace(is_down, true)) {
            tracing::warn!(%error, "Redis is unreachable: this replica limits by what it has counted itself");
            self.fallback.set(1);
            tokio::spawn(find(Arc::downgrade(self)));
        }
    }
}

/// Looks once in each pause whether Redis is back. Ends when it is.
async fn find(link: Weak<Link>) {
    loop {
        sleep(PAUSE).await;
        let Some(link) = link.upgrade() else { return };
        match link.probe().await {
            Ok(()) => {
                tracing::info!("Redis is back: limits are shared again");
                link.fallback.set(0);
                link.is_down.send_replace(false);
                return;
            }
            Err(error) => tracing::debug!(%error, "Redis is still unreachable"),
        }
    }
}

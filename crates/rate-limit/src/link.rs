//! Calls Redis within a time limit, and pauses after a failure.

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

/// Redis is not asked this long after a failure.
const PAUSE: Duration = Duration::from_secs(1);

const PROBE_KEY_SECONDS: u32 = 3;

pub(super) struct Link {
    pub(super) pool: Pool,
    limit: Duration,
    pub(super) is_down: watch::Sender<bool>,
    fallback: Gauge,
    probe_key: String,
}

impl Link {
    /// The caller must be within a Tokio runtime.
    pub(super) fn open(settings: &RedisSettings, fallback: Gauge, probe_key: String) -> Result<Arc<Self>, OpenError> {
        let pool = Manager::pool(settings)?;
        let link =
            Arc::new(Self { pool, limit: settings.timeout, is_down: watch::Sender::new(false), fallback, probe_key });
        let first = Arc::clone(&link);
        tokio::spawn(async move {
            if let Err(error) = first.pool.get().await {
                first.lost(error);
            }
        });
        Ok(link)
    }

    /// `None` without an answer in time: the command may have run. `ask` may run twice, which must change no more than
    /// once.
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
        // Only a server's refusal has a code.
        if answer.as_ref().is_err_and(|error| error.code().is_none()) {
            self.pool.retain(|_, connection| connection.created > began);
            answer = ask(self.pool.get().await?.clone()).await;
        }
        answer.map_err(|error| PoolError::Backend(error.into()))
    }

    /// A replica answers, but takes no writes.
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

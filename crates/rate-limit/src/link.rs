//! Calls of the Redis server that has a key, within a time limit: the only one, the master that sentinels name, or the
//! master of the key's slot in a Redis Cluster.
//!
//! Each server has its own connections and is given up by itself, so the loss of a shard reaches nobody else. The cluster
//! client of `redis` 1.8 cannot promise that: while it asks for the slots anew it connects to every node, also to the lost
//! one, and lets no other call pass (`poll_recover` before `poll_complete`, in its `cluster_handling/async_connection`).

use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::RwLock;
use prometheus_client::metrics::gauge::Gauge;
use redis::{ConnectionAddr, ConnectionInfo, RedisResult, aio::MultiplexedConnection};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::connection::{CONNECT_TIMEOUT, Manager};
use super::server::{Failure, Server};
use super::settings::{OpenError, RedisMode, RedisSettings, parse_addresses};

/// A server that was given up is not asked for this long.
const PAUSE: Duration = Duration::from_secs(1);

const SLOTS: u16 = 16_384;

/// What this replica did without Redis.
#[derive(Clone, Copy, Debug, Default)]
pub struct Alone {
    /// Servers that are given up now.
    pub servers: i64,
    /// Calls that had no answer.
    pub calls: u64,
}

pub(super) struct Link {
    settings: Arc<RedisSettings>,
    /// Leads to some server. It stands for all slots until the masters are known, and for slots that have no master.
    any: Arc<Server>,
    /// By their last slot, in ascending order.
    masters: RwLock<Vec<(u16, Arc<Server>)>>,
    pub(super) alone: watch::Sender<Alone>,
    fallback: Gauge,
}

impl Link {
    /// The caller must be within a Tokio runtime.
    pub(super) fn open(settings: &RedisSettings, fallback: Gauge) -> Result<Arc<Self>, OpenError> {
        let (settings, addresses) = check(settings)?;
        let any = Arc::new(Server::new(addresses[0].clone(), Manager::pool(&settings, addresses)?));
        let masters = RwLock::new(vec![(SLOTS - 1, Arc::clone(&any))]);
        let link = Arc::new(Self { settings, any, masters, alone: watch::Sender::default(), fallback });
        tokio::spawn(Arc::clone(&link).connect());
        Ok(link)
    }

    /// Finds out before the first call.
    async fn connect(self: Arc<Self>) {
        let connected = match self.settings.mode {
            Some(RedisMode::Cluster) => self.learn_masters(&self.any).await,
            _ => self.any.connection().await.map(drop),
        };
        if let Err(failure) = connected
            && self.any.give_up()
        {
            self.lost(&self.any, &failure, "");
        }
    }

    fn master(&self, slot: u16) -> Arc<Server> {
        let masters = self.masters.read();
        let place = masters.partition_point(|(last, _)| *last < slot);
        masters.get(place).map_or_else(|| Arc::clone(&self.any), |(_, server)| Arc::clone(server))
    }

    /// `None` without an answer in time: the command may have run. `ask` may run twice, which must change no more than
    /// once.
    pub(super) async fn call<T, F>(self: &Arc<Self>, key: &str, ask: impl Fn(MultiplexedConnection) -> F) -> Option<T>
    where
        F: Future<Output = RedisResult<T>>,
    {
        let mut server = self.master(slot(key));
        if !server.is_given_up() {
            match self.ask(&mut server, key, ask).await {
                Ok(answer) => {
                    server.answered();
                    return Some(answer);
                }
                // The slot is on its way to another server.
                Err(failure) if self.is_moved(&failure) => {}
                Err(failure) => {
                    tracing::debug!(server = %server.address.addr(), %failure, "Redis failed");
                    if server.failed() {
                        self.lost(&server, &failure, key);
                    }
                }
            }
        }
        self.alone.send_modify(|alone| alone.calls += 1);
        None
    }

    /// As [`Link::call`], for what decides nothing: its failures do not count.
    pub(super) async fn try_call<T, F>(&self, key: &str, ask: impl Fn(MultiplexedConnection) -> F) -> Option<T>
    where
        F: Future<Output = RedisResult<T>>,
    {
        let mut server = self.master(slot(key));
        if server.is_given_up() { None } else { self.ask(&mut server, key, ask).await.ok() }
    }

    /// Asks the server that has `key` now, and leaves that server in `server`.
    async fn ask<T, F>(
        &self,
        server: &mut Arc<Server>,
        key: &str,
        ask: impl Fn(MultiplexedConnection) -> F,
    ) -> Result<T, Failure>
    where
        F: Future<Output = RedisResult<T>>,
    {
        let asking = async {
            let answer = server.ask(&ask).await;
            if !answer.as_ref().is_err_and(|failure| self.is_moved(failure)) {
                return answer;
            }
            self.learn_masters(server).await?;
            *server = self.master(slot(key));
            server.ask(&ask).await
        };
        timeout(self.settings.timeout, asking).await.unwrap_or(Err(Failure::TooLate))
    }

    /// Learns from `node` which master has which slots. Servers that stay masters keep connections and failures.
    async fn learn_masters(&self, node: &Server) -> Result<(), Failure> {
        let mut ranges = node.masters().await?;
        ranges.sort_unstable_by_key(|(first, ..)| *first);
        let mut masters = self.masters.write();
        let mut learnt: Vec<(u16, Arc<Server>)> = Vec::with_capacity(ranges.len());
        for (first, last, host, port) in ranges {
            let before = learnt.last().map_or(0, |(last, _)| last + 1);
            if first > before {
                learnt.push((first - 1, Arc::clone(&self.any)));
            }
            let address = at(&node.address, host, port);
            let mut known = learnt.iter().chain(&*masters).map(|(_, server)| server);
            let known = known.find(|server| server.address.addr() == address.addr());
            let server = match known {
                Some(server) if !Arc::ptr_eq(server, &self.any) => Arc::clone(server),
                _ => match Manager::pool(&self.settings, vec![address.clone()]) {
                    Ok(pool) => Arc::new(Server::new(address, pool)),
                    // A file that cannot be read now: the next time.
                    Err(error) => return Err(Failure::Settings(error)),
                },
            };
            learnt.push((last, server));
        }
        *masters = learnt;
        Ok(())
    }

    fn lost(self: &Arc<Self>, server: &Arc<Server>, failure: &Failure, key: &str) {
        let address = server.address.addr();
        tracing::warn!(server = %address, %failure, "Redis is lost: this replica limits by what it has counted itself");
        self.count(1);
        let probe_key = format!("handbill:probe:{{{}}}", hash_tag(key));
        tokio::spawn(find(Arc::downgrade(self), Arc::clone(server), probe_key));
    }

    fn count(&self, given_up: i64) {
        self.alone.send_modify(|alone| alone.servers += given_up);
        self.fallback.inc_by(given_up);
    }

    /// From the first node that answers.
    async fn relearn_masters(&self) {
        let masters: Vec<Arc<Server>> = self.masters.read().iter().map(|(_, server)| Arc::clone(server)).collect();
        self.any.disconnect();
        for node in masters.iter().filter(|server| !server.is_given_up()).chain([&self.any]) {
            if timeout(CONNECT_TIMEOUT, self.learn_masters(node)).await.is_ok_and(|learnt| learnt.is_ok()) {
                return;
            }
        }
    }

    fn has(&self, server: &Arc<Server>) -> bool {
        self.masters.read().iter().any(|(_, master)| Arc::ptr_eq(master, server))
    }

    fn is_moved(&self, failure: &Failure) -> bool {
        self.settings.mode == Some(RedisMode::Cluster) && failure.is_moved()
    }
}

/// Asks each second whether `server` takes writes, until it does, or is no master any more.
async fn find(link: Weak<Link>, server: Arc<Server>, probe_key: String) {
    loop {
        sleep(PAUSE).await;
        let Some(link) = link.upgrade() else { return };
        if link.settings.mode == Some(RedisMode::Cluster) {
            link.relearn_masters().await;
        }
        let probed = if link.has(&server) { server.probe(&probe_key).await } else { Ok(()) };
        match probed {
            Err(failure) if !link.is_moved(&failure) => tracing::debug!(%failure, "Redis is still lost"),
            _ => {
                tracing::info!(server = %server.address.addr(), "Redis is back: limits are shared again");
                server.ask_again();
                link.count(-1);
                return;
            }
        }
    }
}

/// The settings with their mode, and the addresses. Connects to nothing.
pub(super) fn check(settings: &RedisSettings) -> Result<(Arc<RedisSettings>, Vec<ConnectionInfo>), OpenError> {
    let addresses = parse_addresses(settings)?;
    let several = addresses.len() > 1;
    let mode = settings.mode.unwrap_or(if several { RedisMode::Cluster } else { RedisMode::Single });
    if several && mode == RedisMode::Single {
        return Err(OpenError::SeveralForSingle);
    }
    if settings.sentinel_master.is_some() && mode != RedisMode::Sentinel {
        return Err(OpenError::NoSentinel);
    }
    Ok((Arc::new(RedisSettings { mode: Some(mode), ..settings.clone() }), addresses))
}

/// Another node with the login of `node`, on the same host if `host` is empty.
fn at(node: &ConnectionInfo, host: String, port: u16) -> ConnectionInfo {
    let mut address = node.addr().clone();
    if let ConnectionAddr::Tcp(name, number) | ConnectionAddr::TcpTls { host: name, port: number, .. } = &mut address {
        *number = port;
        if !host.is_empty() {
            *name = host;
        }
    }
    node.clone().set_addr(address)
}

/// The part of `key` that decides about its slot.
fn hash_tag(key: &str) -> &str {
    let tag = key.split_once('{').and_then(|(_, rest)| rest.split_once('}')).map(|(tag, _)| tag);
    tag.filter(|tag| !tag.is_empty()).unwrap_or(key)
}

/// CRC-16/XMODEM of the hash tag, as Redis's cluster specification says.
fn slot(key: &str) -> u16 {
    let mut crc = 0_u16;
    for byte in hash_tag(key).bytes() {
        crc ^= u16::from(byte) << 8;
        for _ in 0..8 {
            crc = if crc & 0x8000 == 0 { crc << 1 } else { crc << 1 ^ 0x1021 };
        }
    }
    crc % SLOTS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_the_slot_that_redis_gives_it() {
        // By `CLUSTER KEYSLOT`; the first is the check value of the checksum.
        for (key, expected) in [("123456789", 0x31c3), ("foo", 12_182), ("a{foo}b", 12_182), ("{}foo", 9_500)] {
            assert_eq!(slot(key), expected, "{key}");
        }
    }
}

//! Names of clients for the log: its reader can tell clients apart and can name none.
//!
//! A name is SipHash-2-4 of the address under a key that lives for a day, so a client has another name tomorrow. The key is in no file and in
//! no log. With Redis all replicas share it; otherwise each process has its own.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use handbill_limiter::Redis;
use parking_lot::RwLock;
use sha2::{Digest, Sha256};
use siphasher::sip::SipHasher24;
use tokio::time::{MissedTickBehavior, interval};

use handbill_core::domain::client::Client;
use handbill_core::ports::clock::SharedClock;
use handbill_core::ports::random::{Random, hex_id};

/// How often to look whether a new day has begun, or whether Redis answers again.
const LOOK_INTERVAL: Duration = Duration::from_mins(1);

const MILLIS_OF_A_DAY: i64 = 24 * 60 * 60 * 1000;

/// A client's name of today.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientName([u8; 6]);

impl fmt::Display for ClientName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Gives the value that all replicas share for a day, which is the offered one unless another replica was first. `None` if it cannot be
/// known at the moment.
pub type SharedOfDay = dyn Fn(i64, String) -> BoxFuture<'static, Option<String>> + Send + Sync;

/// How long the key of a day's names is kept: longer than the day, for replicas whose clocks differ.
const KEY_KEPT: Duration = Duration::from_hours(25);

/// The values of days that replicas share in `redis`.
pub fn shared_in(redis: Arc<Redis>) -> Box<SharedOfDay> {
    Box::new(move |day, offered| {
        let redis = Arc::clone(&redis);
        async move { redis.share(&format!("clients:{day}"), offered, KEY_KEPT).await }.boxed()
    })
}

/// The key of the names. It is random until [`ClientNames::follow`] knows that of the day.
pub struct ClientNames(RwLock<SipHasher24>);

impl ClientNames {
    pub fn new(random: &Random) -> Self {
        Self(RwLock::new(key_of(&secret(random))))
    }

    /// An IPv6 network has one name, as it has one limit.
    pub fn name(&self, client: Client) -> ClientName {
        let address = match client {
            Client::V4(address) => address.to_ipv6_mapped(),
            Client::V6Network(network) => network,
        };
        let keyed = self.0.read();
        let [name @ .., _, _] = keyed.hash(&address.octets()).to_be_bytes();
        ClientName(name)
    }

    /// Takes another key each day: the `shared` one, or one of this process if none is shared.
    pub async fn follow(self: Arc<Self>, clock: SharedClock, random: Random, shared: Option<Box<SharedOfDay>>) {
        let mut looks = interval(LOOK_INTERVAL);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut has = Day::default();
        loop {
            looks.tick().await;
            self.look(&mut has, clock.now().get().div_euclid(MILLIS_OF_A_DAY), &random, shared.as_deref()).await;
        }
    }

    async fn look(&self, has: &mut Day, day: i64, random: &Random, shared: Option<&SharedOfDay>) {
        if has.final_for == Some(day) {
            return;
        }
        let offered = secret(random);
        let known = match shared {
            Some(shared) => shared(day, offered.clone()).await,
            None => Some(offered.clone()),
        };
        // Without an answer of Redis a key of yesterday ends too, and this replica's own takes its place until then.
        let is_final = known.is_some();
        if is_final || has.begun != Some(day) {
            *self.0.write() = key_of(&known.unwrap_or(offered));
        }
        *has = Day { begun: Some(day), final_for: is_final.then_some(day) };
    }
}

/// Which day's key there is, in days since 1970.
#[derive(Default)]
struct Day {
    begun: Option<i64>,
    /// It is the one that all replicas have.
    final_for: Option<i64>,
}

/// 128 random bits as text.
fn secret(random: &Random) -> String {
    format!("{}{}", hex_id(random), hex_id(random))
}

/// The hash under the key that `secret` stands for. A name is made for each request, so its hash is one for short inputs.
fn key_of(secret: &str) -> SipHasher24 {
    let digest = Sha256::digest(secret);
    SipHasher24::new_with_key(digest.first_chunk().expect("it has 32 bytes"))
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    fn client(address: &str) -> Client {
        Client::from(address.parse::<IpAddr>().unwrap())
    }

    #[test]
    fn a_client_has_one_name_and_others_have_others() {
        let names = ClientNames::new(&Random::System);
        let name = |address| names.name(client(address)).to_string();
        assert_eq!(name("192.0.2.7"), name("192.0.2.7"));
        assert_eq!(name("2001:db8::1"), name("2001:db8::2"), "a network is one client");
        assert_ne!(name("192.0.2.7"), name("192.0.2.8"));
        assert_ne!(name("192.0.2.7"), ClientNames::new(&Random::System).name(client("192.0.2.7")).to_string());
        assert_eq!(name("192.0.2.7").len(), 12);
    }

    #[tokio::test]
    async fn a_name_lasts_for_a_day() {
        let (names, mut has) = (ClientNames::new(&Random::System), Day::default());
        let mut seen = Vec::new();
        for day in [1, 1, 2, 2] {
            names.look(&mut has, day, &Random::System, None).await;
            seen.push(names.name(client("192.0.2.7")));
        }
        assert!(seen[0] == seen[1] && seen[1] != seen[2] && seen[2] == seen[3], "{seen:?}");
    }

    #[tokio::test]
    async fn replicas_have_the_same_names_once_they_share_a_key() {
        let [one, other] = [(); 2].map(|()| ClientNames::new(&Random::System));
        let shared: &SharedOfDay = &|day, _| Box::pin(async move { Some(format!("of day {day}")) });
        let unknown: &SharedOfDay = &|_, _| Box::pin(async { None });
        let (mut has_one, mut has_other) = (Day::default(), Day::default());
        one.look(&mut has_one, 1, &Random::System, Some(shared)).await;
        other.look(&mut has_other, 1, &Random::System, Some(unknown)).await;
        assert_ne!(one.name(client("192.0.2.7")), other.name(client("192.0.2.7")));
        other.look(&mut has_other, 1, &Random::System, Some(shared)).await;
        assert_eq!(one.name(client("192.0.2.7")), other.name(client("192.0.2.7")));
    }
}

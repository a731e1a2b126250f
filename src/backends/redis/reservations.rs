//! Reservations that all replicas see. They are advisory: without an answer from Redis, the caller may try to insert
//! the slug.

use std::sync::Arc;

use async_trait::async_trait;
use redis::{Script, Value};

use super::connection::{RedisConnection, Tries};
use super::keys;
use crate::domain::slug::Slug;
use crate::ports::slug_reservations::{Reservation, SlugReservations, TIME_TO_LIVE};

/// Deletes a reservation if the caller holds it. The reservation may have expired meanwhile, and another process may
/// hold the slug now.
const RELEASE: &str = "
    if redis.call('GET', KEYS[1]) == ARGV[1] then
        return redis.call('DEL', KEYS[1])
    end
    return 0";

/// Reservations in Redis.
pub struct RedisReservations {
    redis: Arc<RedisConnection>,
    release: Script,
    /// The value of this process's reservations. One value is enough, because two creates in this process cannot hold
    /// the same slug.
    holder: String,
}

impl RedisReservations {
    pub(super) fn new(redis: Arc<RedisConnection>, holder: String) -> Self {
        Self { redis, release: Script::new(RELEASE), holder }
    }
}

#[async_trait]
impl SlugReservations for RedisReservations {
    async fn reserve(&self, slug: &Slug) -> Reservation {
        let mut set = redis::cmd("SET");
        set.arg(keys::reservation(slug)).arg(&self.holder).arg("NX").arg("PX");
        set.arg(u64::try_from(TIME_TO_LIVE.as_millis()).unwrap_or(u64::MAX));
        let ask = |mut connection| {
            let set = &set;
            async move { set.query_async::<Value>(&mut connection).await }
        };
        // One try only: a second try could find the reservation that the first try made, and mistake it for that of
        // another create.
        match self.redis.call(Tries::One, ask).await {
            Some(Value::Nil) => Reservation::Taken,
            Some(_) | None => Reservation::Held,
        }
    }

    async fn release(&self, slug: &Slug) {
        let key = keys::reservation(slug);
        let ask = |mut connection| {
            let mut call = self.release.key(&key);
            call.arg(&self.holder);
            async move { call.invoke_async::<()>(&mut connection).await }
        };
        // Without an answer the reservation expires by itself.
        self.redis.call(Tries::Two, ask).await;
    }
}

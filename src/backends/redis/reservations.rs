//! Reservations that all replicas see. Advisory: for want of an answer a slug is held.

use std::sync::Arc;

use async_trait::async_trait;
use redis::{Script, Value};

use super::link::{Link, Tries};
use super::reservation_key;
use crate::domain::slug::Slug;
use crate::ports::slug_reservations::{Reservation, SlugReservations, TIME_TO_LIVE};

/// Deletes a reservation if the caller holds it: it may have ended meanwhile, and another may hold it now.
const RELEASE: &str = "
    if redis.call('GET', KEYS[1]) == ARGV[1] then
        return redis.call('DEL', KEYS[1])
    end
    return 0";

/// Reservations in Redis.
pub struct RedisReservations {
    link: Arc<Link>,
    release: Script,
    /// What this process writes into the reservations that it holds. It has one name for all, since of two of its own
    /// creates only one can hold a slug.
    holder: String,
}

impl RedisReservations {
    pub(super) fn new(link: Arc<Link>, holder: String) -> Self {
        Self { link, release: Script::new(RELEASE), holder }
    }
}

#[async_trait]
impl SlugReservations for RedisReservations {
    async fn reserve(&self, slug: &Slug) -> Reservation {
        let mut set = redis::cmd("SET");
        set.arg(reservation_key(slug)).arg(&self.holder).arg("NX").arg("PX");
        set.arg(u64::try_from(TIME_TO_LIVE.as_millis()).unwrap_or(u64::MAX));
        let ask = |mut connection| {
            let set = &set;
            async move { set.query_async::<Value>(&mut connection).await }
        };
        // Once: a second try would find what the first may have left, and take it for another's.
        match self.link.call(Tries::One, ask).await {
            Some(Value::Nil) => Reservation::Taken,
            Some(_) | None => Reservation::Held,
        }
    }

    async fn release(&self, slug: &Slug) {
        let key = reservation_key(slug);
        let ask = |mut connection| {
            let mut call = self.release.key(&key);
            call.arg(&self.holder);
            async move { call.invoke_async::<()>(&mut connection).await }
        };
        // Without an answer the reservation ends by itself.
        self.link.call(Tries::Two, ask).await;
    }
}

//! The script alone, compared with the pure function that it must agree with.

use std::time::Duration;

use handbill_pages::values::quota::{Counted, Quota};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use redis::aio::MultiplexedConnection;
use redis::{AsyncCommands, Script};

use super::servers::{Shared, client, connect};

const SCRIPT: &str = include_str!("../../../crates/rate-limit/src/sliding_window.lua");

struct Window {
    connection: MultiplexedConnection,
    key: String,
    attempts: u32,
}

#[derive(Clone, Copy, Debug)]
struct Answer {
    admitted: bool,
    remaining: u32,
    more_after: Duration,
    now: Duration,
}

impl Window {
    async fn new() -> Self {
        let connection = connect(&Shared::Single.settings().urls[0].0).await;
        Self { connection, key: format!("handbill:test:{{{}}}", client().network()), attempts: 0 }
    }

    async fn decide(&mut self, quota: Quota) -> Answer {
        self.attempts += 1;
        let attempt = self.attempts.to_string();
        self.decide_as(quota, &attempt).await
    }

    async fn decide_as(&mut self, quota: Quota, attempt: &str) -> Answer {
        let length = u64::try_from(quota.window.as_micros()).unwrap();
        let script = Script::new(SCRIPT);
        let mut call = script.key(&self.key);
        call.arg(attempt).arg(quota.limit).arg(length);
        let (admitted, now, remaining, more_after): (u8, u64, u32, u64) =
            call.invoke_async(&mut self.connection).await.unwrap();
        let (more_after, now) = (Duration::from_micros(more_after), Duration::from_micros(now));
        Answer { admitted: admitted == 1, remaining, more_after, now }
    }

    /// The attempts and their times in microseconds, oldest first.
    async fn counted(&mut self) -> Vec<(String, i64)> {
        self.connection.zrange_withscores(&self.key, 0, -1).await.unwrap()
    }

    /// Lets `micros` pass, or go back if negative, by moving the counted attempts the other way.
    async fn pass(&mut self, micros: i64) {
        for (attempt, at) in self.counted().await {
            let _: i64 = self.connection.zadd(&self.key, attempt, at - micros).await.unwrap();
        }
    }
}

#[test]
fn redis_decides_as_the_pure_function_does_at_the_same_times() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let steps = prop::collection::vec((0..20_000_i64, 1..5_u32), 1..60);
    let mut runner = TestRunner::new(Config { cases: 64, ..Config::default() });
    let outcome = runner.run(&(1..50_u64, steps), |(window, steps)| {
        runtime.block_on(async {
            let mut redis = Window::new().await;
            let mut counted = Counted::default();
            let mut passed = 0;
            for (step, limit) in steps {
                redis.pass(step).await;
                passed += step;
                let quota = Quota { limit, window: Duration::from_millis(window) };
                let answer = redis.decide(quota).await;
                let expected = quota.decide(&mut counted, answer.now + Duration::from_micros(passed.unsigned_abs()));
                prop_assert_eq!(answer.admitted, expected.admitted);
                prop_assert_eq!(answer.remaining, expected.remaining);
                prop_assert_eq!(answer.more_after, expected.more_after);
            }
            Ok(())
        })
    });
    outcome.unwrap();
}

#[tokio::test]
async fn an_attempt_that_is_asked_again_is_counted_once() {
    let mut redis = Window::new().await;
    let quota = Quota { limit: 2, window: Duration::from_hours(1) };
    for _ in 0..3 {
        let answer = redis.decide_as(quota, "one").await;
        assert_eq!((answer.admitted, answer.remaining), (true, 1));
    }
    assert!(redis.decide_as(quota, "two").await.admitted);
    assert!(!redis.decide_as(quota, "three").await.admitted);
    assert!(redis.decide_as(quota, "one").await.admitted, "it was admitted, though now the window is full");
    assert_eq!(redis.counted().await.len(), 2);
}

#[tokio::test]
async fn when_the_clock_goes_back_nobody_is_admitted_twice() {
    let mut redis = Window::new().await;
    let quota = Quota { limit: 2, window: Duration::from_mins(10) };
    assert!(redis.decide(quota).await.admitted);
    assert!(redis.decide(quota).await.admitted);
    redis.pass(-3_600_000_000).await;

    let refused = redis.decide(quota).await;
    assert!(!refused.admitted);
    assert_eq!(refused.more_after, quota.window);
    redis.pass(i64::try_from(quota.window.as_micros()).unwrap()).await;
    assert!(redis.decide(quota).await.admitted);
}

#[tokio::test]
async fn a_large_window_is_mended_in_steps_and_decides_the_same_meanwhile() {
    let mut redis = Window::new().await;
    let quota = Quota { limit: 2500, window: Duration::from_mins(10) };
    for _ in 0..quota.limit {
        assert!(redis.decide(quota).await.admitted);
    }
    redis.pass(-3_600_000_000).await;
    for ahead in [1500, 500, 0] {
        let refused = redis.decide(quota).await;
        assert!(!refused.admitted && refused.more_after <= quota.window, "{refused:?}");
        let future = format!("({}", refused.now.as_micros());
        assert_eq!(redis.connection.zcount::<_, _, _, u32>(&redis.key, future, "+inf").await.unwrap(), ahead);
    }
}

#[tokio::test]
async fn a_window_holds_its_limit_and_ends_with_its_last_attempt() {
    let mut redis = Window::new().await;
    let quota = Quota { limit: 3, window: Duration::from_hours(1) };
    for _ in 0..20 {
        redis.decide(quota).await;
        redis.pass(600_000_000).await;
    }
    assert!(redis.counted().await.len() <= 3);
    let left: i64 = redis.connection.pttl(&redis.key).await.unwrap();
    assert!((1..=3_600_001).contains(&left), "{left}");
}

#[tokio::test]
async fn a_refused_attempt_does_not_make_the_window_last_longer() {
    let mut redis = Window::new().await;
    let quota = Quota { limit: 1, window: Duration::from_hours(1) };
    redis.decide(quota).await;
    let () = redis.connection.pexpire(&redis.key, 1_000_000).await.unwrap();
    assert!(!redis.decide(quota).await.admitted);
    let left: i64 = redis.connection.pttl(&redis.key).await.unwrap();
    assert!(left <= 1_000_000, "{left}");
}

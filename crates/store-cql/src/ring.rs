//! The parts of the ring of tokens, for work that reads the whole table one part after another.

use std::fmt::Display;
use std::time::Duration;

use tokio::time::sleep;

use super::migrate::schema::Server;

/// The ring is read in this many parts.
const PARTS: u8 = 128;

/// Pause before a part is read again.
const REPEAT_PAUSE: Duration = Duration::from_secs(1);

/// The parts of the ring, one after another. A part that could not be read is read again, from its beginning.
pub(super) struct Walk {
    part: u8,
    repeats: u32,
    most_repeats: u32,
}

impl Walk {
    /// A walk that reads no part again more than `most_repeats` times.
    pub(super) fn repeating(most_repeats: u32) -> Self {
        Self { part: 0, repeats: 0, most_repeats }
    }

    /// The tokens of the present part: above the first number, up to the second; `None` if all parts are done.
    pub(super) fn tokens(&self) -> Option<(i64, i64)> {
        (self.part < PARTS).then(|| range(self.part))
    }

    /// Goes on to the next part. Returns the percentage that is done.
    pub(super) fn done(&mut self) -> u8 {
        (self.part, self.repeats) = (self.part + 1, 0);
        u8::try_from(u32::from(self.part) * 100 / u32::from(PARTS)).unwrap_or(100)
    }

    /// Waits before the part is read again after `error`, which is returned if the part was read often enough.
    pub(super) async fn failed<E: Display>(&mut self, error: E) -> Result<(), E> {
        if self.repeats == self.most_repeats {
            return Err(error);
        }
        tracing::warn!(%error, "a part of a table is read again");
        self.repeats += 1;
        sleep(REPEAT_PAUSE).await;
        Ok(())
    }
}

fn range(part: u8) -> (i64, i64) {
    let bound = |part: u8| i64::MIN.saturating_add_unsigned((u64::MAX / u64::from(PARTS)).saturating_mul(part.into()));
    let until = if part + 1 == PARTS { i64::MAX } else { bound(part + 1) };
    (bound(part), until)
}

/// The statement `cql` for work that reads every row once. ScyllaDB would keep these rows in memory in place of those that
/// clients ask for; Cassandra has no such cache, and refuses the words.
pub(super) fn of_scan(cql: String, server: Server) -> String {
    match server {
        Server::Scylla => cql + " BYPASS CACHE",
        Server::Cassandra => cql,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scan_leaves_the_cache_of_scylladb_alone() {
        let cql = || "SELECT slug FROM pages LIMIT 1".to_owned();
        assert_eq!(of_scan(cql(), Server::Scylla), "SELECT slug FROM pages LIMIT 1 BYPASS CACHE");
        assert_eq!(of_scan(cql(), Server::Cassandra), cql());
    }

    #[test]
    fn the_parts_are_the_whole_ring() {
        assert_eq!(range(0).0, i64::MIN);
        assert_eq!(range(PARTS - 1).1, i64::MAX);
        for part in 1..PARTS {
            assert_eq!(range(part).0, range(part - 1).1);
            assert!(range(part).0 < range(part).1);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_walk_reads_a_part_again_a_few_times_and_then_goes_on_or_ends() {
        let mut walk = Walk::repeating(2);
        let first = walk.tokens();
        for _ in 0..2 {
            walk.failed("no answer").await.unwrap();
            assert_eq!(walk.tokens(), first);
        }
        assert_eq!(walk.done(), 0);
        assert_ne!(walk.tokens(), first);
        for _ in 0..2 {
            walk.failed("no answer").await.unwrap();
        }
        assert_eq!(walk.failed("no answer").await, Err("no answer"), "each part has its own repeats");
        let mut parts = 1;
        while walk.tokens().is_some() {
            parts += 1;
            assert_eq!(walk.done() == 100, parts == u32::from(PARTS));
        }
    }
}

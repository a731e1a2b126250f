//! The ring of tokens and its parts, for work that reads a whole table.

use std::fmt::Display;
use std::str::FromStr;
use std::time::Duration;

use scylla::deserialize::row::{ColumnIterator, DeserializeRow};
use scylla::deserialize::value::DeserializeValue;
use scylla::deserialize::{DeserializationError, TypeCheckError};
use scylla::frame::response::result::ColumnSpec;
use thiserror::Error;
use tokio::time::sleep;

use super::migrate::schema::Server;
use super::rows::UnreadableRow;

/// The tokens above the first and up to the second.
pub(super) type Tokens = (i64, i64);

/// No slug has the first token: the servers keep it for the beginning of the ring.
const RING: Tokens = (i64::MIN, i64::MAX);

/// The most parts that the ring is shared out in.
const MAX_SHARES: u8 = 128;

/// A share of the ring is read in this many parts.
const PARTS: u8 = 128;

/// Pause before a part is read again.
pub(super) const REPEAT_PAUSE: Duration = Duration::from_secs(1);

/// One of several equal shares of the ring, so that as many processes work beside each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    number: u8,
    of: u8,
}

/// A text that names no share.
#[derive(Debug, Error)]
#[error("give 3/8 for the third of eight parts; there are at most {MAX_SHARES}")]
pub struct ShareError;

impl Share {
    pub const WHOLE: Self = Self { number: 1, of: 1 };

    pub(super) fn tokens(self) -> Tokens {
        piece(RING, self.number - 1, self.of)
    }

    /// How many there are of what the whole ring has `all`.
    pub(super) fn of_all(self, all: u64) -> u64 {
        all.div_ceil(self.of.into())
    }
}

impl FromStr for Share {
    type Err = ShareError;

    fn from_str(text: &str) -> Result<Self, ShareError> {
        let (number, of) = text.split_once('/').ok_or(ShareError)?;
        let parsed = |digits: &str| digits.parse().map_err(|_| ShareError);
        let (number, of) = (parsed(number)?, parsed(of)?);
        if (1..=of).contains(&number) && of <= MAX_SHARES { Ok(Self { number, of }) } else { Err(ShareError) }
    }
}

/// Equal pieces of `tokens`, of which the first has the number 0.
fn piece(tokens: Tokens, number: u8, of: u8) -> Tokens {
    let width = tokens.1.abs_diff(tokens.0) / u64::from(of);
    let bound = |number: u8| tokens.0.saturating_add_unsigned(width.saturating_mul(number.into()));
    (bound(number), if number + 1 == of { tokens.1 } else { bound(number + 1) })
}

/// The parts of a share of the ring, one after another. A part that could not be read is read again, from its beginning.
pub(super) struct Walk {
    tokens: Tokens,
    part: u8,
    repeats: u32,
    most_repeats: u32,
}

impl Walk {
    /// A walk through `share` that reads no part again more than `most_repeats` times.
    pub(super) fn through(share: Share, most_repeats: u32) -> Self {
        Self { tokens: share.tokens(), part: 0, repeats: 0, most_repeats }
    }

    /// The tokens of the present part; `None` if all parts are done.
    pub(super) fn tokens(&self) -> Option<Tokens> {
        (self.part < PARTS).then(|| piece(self.tokens, self.part, PARTS))
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

/// A row with its token and slug, which are the first two columns.
pub(super) struct Placed<T> {
    pub(super) place: i64,
    pub(super) slug: String,
    pub(super) row: T,
}

/// The columns in front of those of `T`.
type Place = (i64, String);

impl<'frame, 'metadata, T: DeserializeRow<'frame, 'metadata>> DeserializeRow<'frame, 'metadata> for Placed<T> {
    fn type_check(specs: &[ColumnSpec<'_>]) -> Result<(), TypeCheckError> {
        let (place, row) = specs.split_at(specs.len().min(2));
        <Place as DeserializeRow>::type_check(place)?;
        T::type_check(row)
    }

    fn deserialize(mut columns: ColumnIterator<'frame, 'metadata>) -> Result<Self, DeserializationError> {
        let (place, slug) = (next_value(&mut columns)?, next_value(&mut columns)?);
        Ok(Self { place, slug, row: T::deserialize(columns)? })
    }
}

fn next_value<'frame, 'metadata, V: DeserializeValue<'frame, 'metadata>>(
    columns: &mut ColumnIterator<'frame, 'metadata>,
) -> Result<V, DeserializationError> {
    let missing = || DeserializationError::new(UnreadableRow::Column("slug"));
    let column = columns.next().ok_or_else(missing)??;
    V::deserialize(column.spec.typ(), column.slice)
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
    fn the_parts_of_all_shares_are_the_whole_ring() {
        for of in [1, 3, MAX_SHARES] {
            let shares = (1..=of).map(|number| Share { number, of }.tokens());
            let parts: Vec<_> =
                shares.flat_map(|share| (0..PARTS).map(move |part| piece(share, part, PARTS))).collect();
            assert_eq!((parts.first().unwrap().0, parts.last().unwrap().1), RING);
            assert!(parts.windows(2).all(|pair| pair[0].1 == pair[1].0 && pair[0].0 < pair[0].1), "{of}");
        }
    }

    #[test]
    fn a_share_is_written_as_its_number_and_how_many_there_are() {
        assert_eq!("3/8".parse::<Share>().unwrap(), Share { number: 3, of: 8 });
        assert_eq!("1/1".parse::<Share>().unwrap(), Share::WHOLE);
        for wrong in ["", "3", "0/8", "9/8", "1/0", "1/129", "1/256", "-1/8", "3/8/1", "a/b", "/"] {
            assert!(wrong.parse::<Share>().is_err(), "{wrong}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_walk_reads_a_part_again_a_few_times_and_then_goes_on_or_ends() {
        let mut walk = Walk::through(Share::WHOLE, 2);
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

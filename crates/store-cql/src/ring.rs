//! The ring of tokens and its parts, for work that reads a whole table.

use std::fmt::Display;
use std::str::FromStr;
use std::time::Duration;

use futures_util::{StreamExt, stream};
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

/// Ranges of the ring that one command reads at the same time, so that it waits for several nodes at once.
pub(super) const RANGES_AT_ONCE: u8 = 8;

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

    /// The ranges that are read at the same time by whoever reads this share from its beginning to its end.
    pub(super) fn ranges(self) -> Vec<Tokens> {
        (0..RANGES_AT_ONCE).map(|number| piece(self.tokens(), number, RANGES_AT_ONCE)).collect()
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

/// Has `read` read every part of `share`, several at a time, and gives `done` what each came to, and the percentage that is done then.
/// A part that could not be read is read again, from its beginning, but no more than `most_repeats` times. An error of `done` ends it.
pub(super) async fn read_parts<T, E: Display>(
    share: Share,
    most_repeats: u32,
    read: impl AsyncFn(Tokens) -> Result<T, E>,
    mut done: impl FnMut(u8, Tokens, Result<T, E>) -> Result<(), E>,
) -> Result<(), E> {
    let read_part = async |part| {
        let tokens = piece(share.tokens(), part, PARTS);
        for _ in 0..most_repeats {
            match read(tokens).await {
                Err(error) => tracing::warn!(%error, "a part of a table is read again"),
                read => return (tokens, read),
            }
            sleep(REPEAT_PAUSE).await;
        }
        (tokens, read(tokens).await)
    };
    let mut reading = stream::iter(0..PARTS).map(read_part).buffer_unordered(RANGES_AT_ONCE.into());
    for count in 1..=u32::from(PARTS) {
        let Some((tokens, read)) = reading.next().await else { break };
        done(u8::try_from(count * 100 / u32::from(PARTS)).unwrap_or(100), tokens, read)?;
    }
    Ok(())
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
    use std::cell::{Cell, RefCell};
    use std::collections::{HashMap, HashSet};

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
    async fn several_parts_are_read_at_once_and_one_that_fails_is_read_again_a_few_times_and_holds_up_no_other() {
        let (at_once, most, reads) = (Cell::new(0), Cell::new(0), RefCell::new(HashMap::new()));
        let unreadable = piece(RING, 5, PARTS);
        let read = async |tokens| {
            at_once.set(at_once.get() + 1);
            most.set(most.get().max(at_once.get()));
            *reads.borrow_mut().entry(tokens).or_insert(0) += 1;
            sleep(REPEAT_PAUSE).await;
            at_once.set(at_once.get() - 1);
            if tokens == unreadable { Err("no answer") } else { Ok(tokens) }
        };
        let (mut percents, mut found, mut failed) = (Vec::new(), HashSet::new(), Vec::new());
        let all = read_parts(Share::WHOLE, 2, read, |percent, tokens, part| {
            percents.push(percent);
            match part {
                Ok(read) => assert!(read == tokens && found.insert(read)),
                Err(error) => failed.push((tokens, error)),
            }
            Ok(())
        });
        all.await.unwrap();
        assert_eq!((percents.last(), percents.is_sorted(), most.get()), (Some(&100), true, RANGES_AT_ONCE.into()));
        assert_eq!((found.len(), failed), (usize::from(PARTS) - 1, vec![(unreadable, "no answer")]));
        assert!(reads.borrow().iter().all(|(&tokens, &reads)| reads == if tokens == unreadable { 3 } else { 1 }));
        let ended = read_parts(Share::WHOLE, 0, async |_| Err::<(), _>("no answer"), |_, _, part| part);
        assert_eq!(ended.await, Err("no answer"));
    }
}

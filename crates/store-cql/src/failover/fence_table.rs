//! The rows of the fence, as a move reads and changes them.
//!
//! Each change of the fence is one of all its rows, in their order. Whoever changes the first one, on condition that it is as
//! it was read, has won the change, and the others follow it unless a later change has reached them. The change counts, and the
//! next may begin, once all of them show it.

use std::sync::Arc;

use futures_util::future::{join_all, try_join_all};
use scylla::client::session::Session;
use scylla::cluster::Node;
use scylla::statement::{Consistency, SerialConsistency, Statement};
use tokio::time::sleep;

use super::plan::{FailoverError, FailoverPlan, REPEAT_PAUSE, REPEATS};
use crate::fence::{FenceRow, PARTITIONS};
use crate::ports::page_store::Cause;
use crate::rows::applied;
use crate::session;
use crate::settings::CqlSettings;

/// The rows of the fence as they were found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Standing {
    /// The first row, which must be the same when it is changed.
    first: FenceRow,
    /// The row with the highest epoch, which replicas believe. It names nobody if two differ that have it.
    pub(super) newest: FenceRow,
}

impl Standing {
    /// The standing by the rows in their order, and by the rows that a datacentre shows. Its own datacentre shows a forced move, and
    /// `SERIAL` may miss it.
    fn of(rows: &[FenceRow], shown: &[FenceRow]) -> Option<Self> {
        let mut newest = rows.iter().chain(shown).max_by_key(|row| row.epoch)?.clone();
        if rows.iter().chain(shown).any(|row| row.epoch == newest.epoch && *row != newest) {
            (newest.datacenter, newest.moving_to) = (None, None);
        }
        Some(Self { first: rows.first()?.clone(), newest })
    }
}

/// The rows of the fence, read and written as a move needs them.
pub(super) struct FenceTable<'a> {
    session: &'a Session,
    keyspace: &'a str,
    serial: SerialConsistency,
    commit: Consistency,
    /// All with copies.
    datacenters: &'a [String],
    /// Each must show a change: all with copies, or none if the move is forced.
    shown_in: &'a [String],
}

impl<'a> FenceTable<'a> {
    pub(super) fn on(
        session: &'a Session,
        settings: &'a CqlSettings,
        plan: &FailoverPlan,
        datacenters: &'a [String],
    ) -> Self {
        let (serial, commit, shown_in) = if plan.is_forced {
            (SerialConsistency::LocalSerial, Consistency::LocalQuorum, &[][..])
        } else {
            (SerialConsistency::Serial, Consistency::EachQuorum, datacenters)
        };
        Self { session, keyspace: &settings.keyspace, serial, commit, datacenters, shown_in }
    }

    /// An error if a quorum of the side that writes shows a row of the fence: one is enough for a replica there to go on writing. Each
    /// of its nodes is asked, since one that hangs says nothing of the others. If it is not known which side writes, each other one is
    /// asked than `to`.
    pub(super) async fn check_lost(&self, before: &Standing, to: &str) -> Result<(), FailoverError> {
        let writing = before.newest.datacenter.as_deref().filter(|&writing| writing != to);
        let others = self.datacenters.iter().filter(|other| writing.map_or(*other != to, |writing| *other == writing));
        for other in others {
            let nodes = self.nodes_of(other);
            let asked = nodes.iter().flat_map(|node| PARTITIONS.map(|key| self.read_shown_by(key, node)));
            if join_all(asked).await.iter().any(Result::is_ok) {
                return Err(FailoverError::Answers { datacenter: other.clone() });
            }
        }
        Ok(())
    }

    /// The rows, also as each datacentre shows them. A change of one that was interrupted is completed.
    pub(super) async fn read(&self) -> Result<Standing, FailoverError> {
        let rows = try_join_all(PARTITIONS.map(|key| self.read_row(key))).await?;
        let mut repeats = 0;
        loop {
            let failed = match self.read_each().await {
                Ok(shown) => return Standing::of(&rows, &shown).ok_or(FailoverError::Missing),
                Err(cause) => cause,
            };
            repeats += 1;
            pause(repeats, failed).await?;
        }
    }

    async fn read_each(&self) -> Result<Vec<FenceRow>, Cause> {
        let mut shown = Vec::new();
        for datacenter in self.shown_in {
            shown.extend(
                try_join_all(PARTITIONS.map(|key| self.read_shown(key, datacenter))).await?.into_iter().flatten(),
            );
        }
        Ok(shown)
    }

    async fn read_row(&self, key: &str) -> Result<FenceRow, FailoverError> {
        let mut statement = self.selection();
        statement.set_consistency(match self.serial {
            SerialConsistency::Serial => Consistency::Serial,
            SerialConsistency::LocalSerial => Consistency::LocalSerial,
        });
        let mut repeats = 0;
        loop {
            let failed: Cause = match self.session.query_unpaged(statement.clone(), (key,)).await {
                Ok(answer) => match answer.into_rows_result() {
                    Ok(rows) => {
                        let row =
                            rows.maybe_first_row::<FenceRow>().map_err(|error| FailoverError::Fence(error.into()))?;
                        return row.ok_or(FailoverError::Missing);
                    }
                    Err(error) => error.into(),
                },
                Err(error) => error.into(),
            };
            repeats += 1;
            pause(repeats, failed).await?;
        }
    }

    /// An error unless a quorum of each datacentre shows `row` under `key`. The answer to a conditional write does not say so: Cassandra
    /// counts the copies of all datacentres together, so all copies of one and one of the other are enough for it.
    async fn check_each(&self, key: &str, row: &FenceRow) -> Result<(), Cause> {
        for datacenter in self.shown_in {
            if self.read_shown(key, datacenter).await?.is_none_or(|shown| shown.epoch < row.epoch) {
                return Err(format!("{datacenter} does not show the change").into());
            }
        }
        Ok(())
    }

    /// The nodes of `datacenter` that can be reached.
    fn nodes_of(&self, datacenter: &str) -> Vec<Arc<Node>> {
        let state = self.session.get_cluster_state();
        let is_there = |node: &&Arc<Node>| node.is_connected() && node.datacenter.as_deref() == Some(datacenter);
        state.get_nodes_info().iter().filter(is_there).cloned().collect()
    }

    /// The row of `key` as a quorum of `datacenter` shows it.
    async fn read_shown(&self, key: &str, datacenter: &str) -> Result<Option<FenceRow>, Cause> {
        let nodes = self.nodes_of(datacenter);
        let node = nodes.first().ok_or_else(|| format!("no node of {datacenter} can be reached"))?;
        self.read_shown_by(key, node).await
    }

    /// The row of `key` as `node` and a quorum of its datacentre show it.
    async fn read_shown_by(&self, key: &str, node: &Arc<Node>) -> Result<Option<FenceRow>, Cause> {
        let mut statement = self.selection();
        statement.set_consistency(Consistency::LocalQuorum);
        session::send_only_to(&mut statement, node);
        Ok(self.session.query_unpaged(statement, (key,)).await?.into_rows_result()?.maybe_first_row()?)
    }

    fn selection(&self) -> Statement {
        Statement::new(format!("SELECT datacenter, epoch, moving_to FROM {}.fence WHERE component = ?", self.keyspace))
    }

    /// Makes the row of `key` equal to `row` if `condition` on `epoch` holds, and checks that each datacentre shows it. Returns whether
    /// the condition held.
    async fn change_row(&self, key: &str, row: &FenceRow, condition: &str, epoch: i64) -> Result<bool, Cause> {
        let set = "SET datacenter = ?, epoch = ?, moving_to = ?";
        let mut statement =
            Statement::new(format!("UPDATE {}.fence {set} WHERE component = ? IF {condition}", self.keyspace));
        statement.set_consistency(self.commit);
        statement.set_serial_consistency(Some(self.serial));
        let values = (&row.datacenter, row.epoch, &row.moving_to, key, epoch);
        let is_changed = applied(self.session.query_unpaged(statement, values).await?)?;
        if is_changed {
            self.check_each(key, row).await?;
        }
        Ok(is_changed)
    }

    /// Changes all rows, of which `before` stands, and returns what then stands.
    pub(super) async fn replace(
        &self,
        before: &Standing,
        datacenter: Option<&str>,
        moving_to: Option<&str>,
    ) -> Result<Standing, FailoverError> {
        let first = self.replace_first(before, datacenter, moving_to).await?;
        for key in &PARTITIONS[1..] {
            self.follow(key, &first).await?;
        }
        Ok(Standing { newest: first.clone(), first })
    }

    /// Makes the row of `key` equal to `first`, unless it shows a later change. Doing it again changes nothing.
    async fn follow(&self, key: &str, first: &FenceRow) -> Result<(), FailoverError> {
        let mut repeats = 0;
        loop {
            let failed = match self.change_row(key, first, "epoch <= ?", first.epoch).await {
                Ok(true) => return Ok(()),
                Ok(false) => return Err(FailoverError::Overtaken),
                Err(cause) => cause,
            };
            repeats += 1;
            pause(repeats, failed).await?;
        }
    }

    /// Replaces the first row of `before`, and returns the row that then stands.
    ///
    /// Without an answer, or if a datacentre does not show the row, it is unknown which copies have it. So the change is
    /// repeated, each time in a further epoch, until a quorum of each datacentre shows it.
    async fn replace_first(
        &self,
        before: &Standing,
        datacenter: Option<&str>,
        moving_to: Option<&str>,
    ) -> Result<FenceRow, FailoverError> {
        let key = PARTITIONS[0];
        let mut standing = before.clone();
        let mut repeats = 0;
        loop {
            let next = FenceRow {
                datacenter: datacenter.map(str::to_owned),
                epoch: standing.newest.epoch + 1,
                moving_to: moving_to.map(str::to_owned),
            };
            let failed = match self.change_row(key, &next, "epoch = ?", standing.first.epoch).await {
                Ok(true) => return Ok(next),
                // An earlier attempt, whose outcome is unknown, may be the reason.
                Ok(false) if repeats > 0 => "the change was refused".into(),
                Ok(false) => return Err(FailoverError::Overtaken),
                Err(cause) => cause,
            };
            repeats += 1;
            pause(repeats, failed).await?;
            let read = self.read().await?;
            if read.first != standing.first && read.first != next {
                return Err(FailoverError::Overtaken);
            }
            standing = read;
        }
    }
}

/// Waits before the attempt after `repeats` failed ones, the last of them with `failed`, which is returned if they were enough.
async fn pause(repeats: u32, failed: Cause) -> Result<(), FailoverError> {
    if repeats > REPEATS {
        return Err(FailoverError::Fence(failed));
    }
    sleep(REPEAT_PAUSE).await;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(datacenter: &str, epoch: i64) -> FenceRow {
        FenceRow { datacenter: Some(datacenter.to_owned()), epoch, moving_to: None }
    }

    #[test]
    fn after_a_forced_move_that_serial_misses_the_side_that_shows_it_writes() {
        let standing = Standing::of(&[row("west", 1), row("west", 1)], &[row("west", 1), row("east", 3)]).unwrap();
        assert_eq!(standing, Standing { first: row("west", 1), newest: row("east", 3) });
    }

    #[test]
    fn nobody_is_taken_to_write_if_two_rows_differ_that_have_the_highest_epoch() {
        let standing = Standing::of(&[row("west", 3), row("west", 2)], &[row("east", 3)]).unwrap();
        assert_eq!(standing.newest, FenceRow { datacenter: None, epoch: 3, moving_to: None });
    }
}

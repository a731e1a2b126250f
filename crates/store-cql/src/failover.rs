//! `handbill failover`: moves the fence to another datacentre.
//!
//! 1. The fence says that a move has begun, and a quorum of each datacentre shows that (`SERIAL`, then a read in each). The old
//!    side goes on writing, and acknowledges each write only once both have it ([`super::confirm`]).
//! 2. Every lease of before ends, and every write that was sent within one is done.
//! 3. All pages are read from all copies (`ALL`), so that a copy that has missed a write gets it.
//! 4. The fence is closed for everybody. Again every lease ends, and every write that was sent within one is done.
//! 5. What operators have done since is copied, which is little, and the fence is opened for the new side.
//!
//! Each change of the fence is one of all its rows, in their order. Whoever changes the first one, on condition that it is as
//! it was read, has won the change, and the others follow it unless a later change has reached them. The change counts, and the
//! next may begin, once all of them show it.
//!
//! Writes stop for the steps 4 and 5 alone, whatever the number of pages. Until then a move can be given up, or begun again.
//!
//! Before that all nodes are asked for their `paxos_variant`: with v1 a move is refused ([`super::paxos_variants`]).
//!
//! A forced move is for a datacentre that is lost: the row is written only in the new one (`LOCAL_SERIAL`), and nothing is
//! copied, because there is nothing to copy from.

use std::time::Duration;

use futures_util::TryStreamExt;
use futures_util::future::try_join_all;
use scylla::client::session::Session;
use scylla::errors::NewSessionError;
use scylla::statement::prepared::PreparedStatement;
use scylla::statement::{Consistency, SerialConsistency, Statement};
use scylla::value::Row as AnyRow;
use thiserror::Error;
use tokio::time::{Instant, sleep, timeout};

use super::fence::{FenceRow, LATE_WRITES, LEASE, PARTITIONS, placement};
use super::migrate::schema::server_of;
use super::paxos_variants;
use super::ring::{self, Share};
use super::rows::applied;
use super::session;
use super::settings_error::SettingsError;
use crate::ports::page_store::Cause;
use crate::settings::CqlSettings;

/// How often a change of the fence, or the copying of a part of the ring, is tried again after an error.
const REPEATS: u32 = 5;

/// Pause before it is tried again.
const REPEAT_PAUSE: Duration = Duration::from_secs(1);

/// Longest time for one request of the copying: a page of results has up to 34 MB, and nobody but the operator waits.
const COPY_TIMEOUT: Duration = Duration::from_secs(30);

/// The way in which the fence is moved.
#[derive(Clone, Debug)]
pub struct FailoverPlan {
    /// The datacentre that writes from then on.
    pub to: String,
    /// Whether the other datacentre is lost.
    pub is_forced: bool,
    /// Whether all pages are read from all copies before the new side is opened.
    pub copies_pages: bool,
    /// Whether the lost datacentre may have the old Paxos.
    pub allows_unknown_paxos: bool,
}

/// Why the fence was not moved. While it is closed nobody writes, and running the command again goes on from there.
#[derive(Debug, Error)]
pub enum FailoverError {
    #[error(transparent)]
    Settings(#[from] SettingsError),
    #[error("no node is in the datacentre {name:?} of --to; there are: {found}")]
    NoSuchDatacenter { name: String, found: String },
    #[error(
        "the keyspace {keyspace} has no copies in {name}: add them first, as docs/operate-cluster.md says at \"Several datacentres\""
    )]
    NoCopies { keyspace: String, name: String },
    #[error(
        "the nodes do not agree on the schema, so a replica may not know yet that there are two datacentres: run it again once they do"
    )]
    SchemaDiffers,
    #[error("the cluster cannot be reached: {0}")]
    Session(Box<NewSessionError>),
    #[error("there is no fence in the keyspace: run `handbill migrate`")]
    Missing,
    /// The row of the fence cannot be read or written.
    #[error(
        "the fence cannot be changed ({0}): both datacentres must be up; if one is lost for good, see --force in \
         `handbill failover --help`"
    )]
    Fence(Cause),
    #[error(
        "nodes of {datacenter} have paxos_variant: {variant}, with which an unfinished write of the old side can overwrite \
         one of the new side: set v2 on all of them first"
    )]
    OldPaxos { datacenter: String, variant: String },
    #[error(
        "not all nodes of {datacenter} could be asked for their paxos_variant, and the last one on record is {recorded}: \
         start them; or, if they are lost, set v2 on them before they ever start again, and give --force-paxos-unknown"
    )]
    UnknownPaxos { datacenter: String, recorded: String },
    #[error("another process changed the fence meanwhile: run it again")]
    Overtaken,
    #[error("the pages were not copied ({0}). Nobody writes now: run it again, or with the old datacentre to go back")]
    Copy(Cause),
    #[error(
        "the pages were not copied ({cause}). {writing} goes on writing, and each write waits for both datacentres: run it \
         again, or with --to {writing} to give the move up"
    )]
    CopyBesideWrites { cause: Cause, writing: String },
}

/// Moves the fence of the keyspace of `settings`. Lines for the operator go to `say`. Returns the last of them.
pub async fn failover(
    settings: &CqlSettings,
    plan: &FailoverPlan,
    say: impl Fn(&str) + Send,
) -> Result<String, FailoverError> {
    let started = Instant::now();
    let target = CqlSettings { datacenter: Some(plan.to.clone()), ..settings.clone() };
    let (session, _) = session::connect(&target, |error| {
        if started.elapsed() >= settings.schema_wait {
            return Err(FailoverError::Session(Box::new(error)));
        }
        Ok(())
    })
    .await
    .map_err(|error| match error {
        FailoverError::Settings(SettingsError::NoSuchDatacenter { name, found }) => {
            FailoverError::NoSuchDatacenter { name, found }
        }
        error => error,
    })?;
    let datacenters = check_copies(&session, &settings.keyspace, plan).await?;
    let fence = FenceTable::on(&session, settings, plan, datacenters);
    let before = fence.read().await?;
    if before.first.datacenter.as_deref() == Some(plan.to.as_str()) {
        // If the last move was forced, the other datacentre may have missed the row.
        fence.replace(&before, Some(&plan.to), None).await?;
        let given_up = before.first.moving_to.map(|other| format!(", and the move to {other} is given up"));
        return Ok(format!("The datacentre {} writes already{}.", plan.to, given_up.unwrap_or_default()));
    }
    check_paxos(&session, &settings.keyspace, plan).await?;
    let from = before.first.datacenter.clone().unwrap_or_else(|| "none, since an earlier move did not end".to_owned());
    let (copies_pages, wait) = (plan.copies_pages && !plan.is_forced, LEASE + LATE_WRITES);
    let mut lacking = &TABLES[..];
    let mut standing = before;
    if let (true, Some(writing)) = (copies_pages, standing.first.datacenter.clone()) {
        standing = fence.replace(&standing, Some(&writing), Some(&plan.to)).await?;
        say(&format!(
            "{writing} goes on writing, and each write waits for {} too. In {} s the pages are copied.",
            plan.to,
            wait.as_secs()
        ));
        sleep(wait).await;
        let copied = copy(&session, &settings.keyspace, lacking, &say).await;
        let copied = copied.map_err(|cause| FailoverError::CopyBesideWrites { cause, writing })?;
        say(&format!("All copies have the same {copied} rows."));
        lacking = &TABLES[CONFIRMED..];
    }
    let closed = fence.replace(&standing, None, Some(&plan.to)).await?;
    say(&format!(
        "The fence is closed; until now it was at: {from}. Waiting {} s for the last writes.",
        wait.as_secs()
    ));
    sleep(wait).await;
    if copies_pages {
        let copied = copy(&session, &settings.keyspace, lacking, &say).await.map_err(FailoverError::Copy)?;
        say(&format!("All copies have the same {copied} rows, which were left."));
    }
    fence.replace(&closed, Some(&plan.to), None).await?;
    Ok(format!("The datacentre {} writes from now on.", plan.to))
}

/// The datacentres in which the keyspace has copies. Refuses the move if the new side is none of them, or if the nodes that are
/// up do not agree on that: a replica that asks a node which has missed the change of the keyspace writes without a fence.
/// Nobody can ask the nodes of a lost datacentre.
async fn check_copies(session: &Session, keyspace: &str, plan: &FailoverPlan) -> Result<Vec<String>, FailoverError> {
    let asking = async {
        let statement = placement::prepare(session, COPY_TIMEOUT).await?;
        placement::datacenters(session, &statement, keyspace).await
    };
    let datacenters = asking.await.map_err(FailoverError::Fence)?;
    if !datacenters.contains(&plan.to) {
        return Err(FailoverError::NoCopies { keyspace: keyspace.to_owned(), name: plan.to.clone() });
    }
    if plan.is_forced || session.await_schema_agreement().await.is_ok() {
        return Ok(datacenters);
    }
    Err(FailoverError::SchemaDiffers)
}

/// Refuses the move unless every node keeps the timestamps of interrupted rounds. A node that is not asked, or does not
/// answer, is what its datacentre was last.
async fn check_paxos(session: &Session, keyspace: &str, plan: &FailoverPlan) -> Result<(), FailoverError> {
    let asked = paxos_variants::ask(session, plan.is_forced.then_some(plan.to.as_str())).await;
    let mut recorded = paxos_variants::recorded(session, keyspace).await.map_err(FailoverError::Fence)?;
    for (datacenter, variant) in &asked {
        let datacenter = datacenter.clone();
        match (variant, recorded.remove(&datacenter)) {
            (Some(variant), _) if !paxos_variants::keeps_times(variant) => {
                return Err(FailoverError::OldPaxos { datacenter, variant: variant.clone() });
            }
            (Some(_), _) => {}
            (None, Some(recorded)) if paxos_variants::keeps_times(&recorded) => {}
            (None, _) if plan.allows_unknown_paxos => {}
            (None, recorded) => {
                let recorded = recorded.unwrap_or_else(|| "none".to_owned());
                return Err(FailoverError::UnknownPaxos { datacenter, recorded });
            }
        }
    }
    paxos_variants::record(session, keyspace, &asked).await.map_err(|error| FailoverError::Fence(error.into()))
}

/// The first row of the fence, and the highest epoch of all rows, which is its own unless somebody has restored the table.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Standing {
    first: FenceRow,
    highest: i64,
}

/// The rows of the fence, read and written as a move needs them.
struct FenceTable<'a> {
    session: &'a Session,
    keyspace: &'a str,
    serial: SerialConsistency,
    commit: Consistency,
    /// Each must show a change: all with copies, or none if the move is forced.
    shown_in: Vec<String>,
}

impl<'a> FenceTable<'a> {
    fn on(session: &'a Session, settings: &'a CqlSettings, plan: &FailoverPlan, datacenters: Vec<String>) -> Self {
        let (serial, commit, shown_in) = if plan.is_forced {
            (SerialConsistency::LocalSerial, Consistency::LocalQuorum, Vec::new())
        } else {
            (SerialConsistency::Serial, Consistency::EachQuorum, datacenters)
        };
        Self { session, keyspace: &settings.keyspace, serial, commit, shown_in }
    }

    /// The rows. A change of one that was interrupted is completed.
    async fn read(&self) -> Result<Standing, FailoverError> {
        let rows = try_join_all(PARTITIONS.map(|key| self.read_row(key))).await?;
        let highest = rows.iter().map(|row| row.epoch).max();
        let first = rows.into_iter().next().ok_or(FailoverError::Missing)?;
        Ok(Standing { highest: highest.unwrap_or(first.epoch), first })
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
            if repeats > REPEATS {
                return Err(FailoverError::Fence(failed));
            }
            sleep(REPEAT_PAUSE).await;
        }
    }

    /// An error unless a quorum of each datacentre shows `row` under `key`. The answer to a conditional write does not say so: Cassandra
    /// counts the copies of all datacentres together, so all copies of one and one of the other are enough for it.
    async fn check_each(&self, key: &str, row: &FenceRow) -> Result<(), Cause> {
        let state = self.session.get_cluster_state();
        for datacenter in &self.shown_in {
            let mut nodes = state.get_nodes_info().iter().filter(|node| node.is_connected());
            let Some(node) = nodes.find(|node| node.datacenter.as_ref() == Some(datacenter)) else {
                return Err(format!("no node of {datacenter} can be reached").into());
            };
            let mut statement = self.selection();
            statement.set_consistency(Consistency::LocalQuorum);
            session::send_only_to(&mut statement, node);
            let answer = self.session.query_unpaged(statement, (key,)).await?.into_rows_result()?;
            if answer.maybe_first_row::<FenceRow>()?.is_none_or(|shown| shown.epoch < row.epoch) {
                return Err(format!("{datacenter} does not show the change").into());
            }
        }
        Ok(())
    }

    fn selection(&self) -> Statement {
        Statement::new(format!("SELECT datacenter, epoch, moving_to FROM {}.fence WHERE component = ?", self.keyspace))
    }

    /// The statement that changes a row on `condition`.
    fn change(&self, condition: &str) -> Statement {
        let set = "SET datacenter = ?, epoch = ?, moving_to = ?";
        let mut statement =
            Statement::new(format!("UPDATE {}.fence {set} WHERE component = ? IF {condition}", self.keyspace));
        statement.set_consistency(self.commit);
        statement.set_serial_consistency(Some(self.serial));
        statement
    }

    /// Changes all rows, of which `before` stands, and returns what then stands.
    async fn replace(
        &self,
        before: &Standing,
        datacenter: Option<&str>,
        moving_to: Option<&str>,
    ) -> Result<Standing, FailoverError> {
        let first = self.replace_first(before, datacenter, moving_to).await?;
        for key in &PARTITIONS[1..] {
            self.follow(key, &first).await?;
        }
        Ok(Standing { highest: first.epoch, first })
    }

    /// Makes the row of `key` equal to `first`, unless it shows a later change. Doing it again changes nothing.
    async fn follow(&self, key: &str, first: &FenceRow) -> Result<(), FailoverError> {
        let statement = self.change("epoch <= ?");
        let values = (&first.datacenter, first.epoch, &first.moving_to, key, first.epoch);
        let mut repeats = 0;
        loop {
            let failed: Cause = match self.session.query_unpaged(statement.clone(), values).await {
                Ok(answer) => match applied(answer) {
                    Ok(true) => match self.check_each(key, first).await {
                        Ok(()) => return Ok(()),
                        Err(cause) => cause,
                    },
                    Ok(false) => return Err(FailoverError::Overtaken),
                    Err(cause) => cause,
                },
                Err(error) => error.into(),
            };
            repeats += 1;
            if repeats > REPEATS {
                return Err(FailoverError::Fence(failed));
            }
            sleep(REPEAT_PAUSE).await;
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
        let (statement, key) = (self.change("epoch = ?"), PARTITIONS[0]);
        let mut standing = before.clone();
        let mut repeats = 0;
        loop {
            let next = FenceRow {
                datacenter: datacenter.map(str::to_owned),
                epoch: standing.highest + 1,
                moving_to: moving_to.map(str::to_owned),
            };
            let values = (datacenter, next.epoch, moving_to, key, standing.first.epoch);
            let failed: Cause = match self.session.query_unpaged(statement.clone(), values).await {
                Ok(answer) => match applied(answer) {
                    Ok(true) => match self.check_each(key, &next).await {
                        Ok(()) => return Ok(next),
                        Err(cause) => cause,
                    },
                    // An earlier attempt, whose outcome is unknown, may be the reason.
                    Ok(false) if repeats > 0 => "the change was refused".into(),
                    Ok(false) => return Err(FailoverError::Overtaken),
                    Err(cause) => cause,
                },
                Err(error) => error.into(),
            };
            repeats += 1;
            if repeats > REPEATS {
                return Err(FailoverError::Fence(failed));
            }
            sleep(REPEAT_PAUSE).await;
            let read = self.read().await?;
            if read.first != standing.first && read.first != next {
                return Err(FailoverError::Overtaken);
            }
            standing = read;
        }
    }
}

/// The first tables of [`TABLES`] have no row that was acknowledged in one datacentre alone while the move copied.
const CONFIRMED: usize = 3;

/// The tables that are copied, each with its partition key, and how many rows of a part are read at once. A text has at most 1.7 MB,
/// and several parts are read beside each other.
const TABLES: [(&str, &str, i32); 7] = [
    ("pages", "slug", 500),
    ("texts", "slug", 4),
    ("deletions", "slug", 500),
    ("audit", "bucket", 500),
    ("takedowns_begun", "component", 500),
    ("creates", "component", 500),
    ("slug_secret", "component", 500),
];

/// Reads every row of `tables` from all copies. The servers bring copies that differ to the newest value before they
/// answer. Returns the number of rows.
async fn copy(
    session: &Session,
    keyspace: &str,
    tables: &[(&str, &str, i32)],
    say: &(impl Fn(&str) + Send),
) -> Result<u64, Cause> {
    let mut copied = 0;
    for &(table, key, rows_at_once) in tables {
        let cql = format!("SELECT * FROM {keyspace}.{table} WHERE token({key}) > ? AND token({key}) <= ?");
        let cql = ring::of_scan(cql, server_of(session));
        let mut statement = session.prepare(Statement::new(cql).with_page_size(rows_at_once)).await?;
        statement.set_consistency(Consistency::All);
        statement.set_is_idempotent(true);
        statement.set_request_timeout(Some(COPY_TIMEOUT));
        let mut quarters = 0;
        ring::read_parts(
            Share::WHOLE,
            REPEATS,
            async |tokens| copy_part(session, &statement, tokens).await,
            |percent, _, rows| {
                copied += rows?;
                if percent / 25 > quarters {
                    quarters = percent / 25;
                    say(&format!("Copied {percent} % of {table}."));
                }
                Ok(())
            },
        )
        .await?;
    }
    Ok(copied)
}

async fn copy_part(session: &Session, statement: &PreparedStatement, range: (i64, i64)) -> Result<u64, Cause> {
    let rows = session.execute_iter(statement.clone(), range).await?;
    let mut rows = rows.rows_stream::<AnyRow>()?;
    let mut read = 0;
    while timeout(COPY_TIMEOUT, rows.try_next()).await??.is_some() {
        read += 1;
    }
    Ok(read)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The name of the table that begins `definition`, and its partition key.
    fn table(definition: &str) -> (&str, &str) {
        let name = definition.split_whitespace().next().expect("a table has a name");
        let of_one_column = definition.lines().find_map(|line| line.split_once(" text PRIMARY KEY"));
        let of_more = definition.split_once("PRIMARY KEY (").map(|(_, columns)| columns);
        let key = of_one_column.map(|(before, _)| before).or(of_more).expect("a table has a key");
        (name, key.trim().split(',').next().expect("a key has a column"))
    }

    #[test]
    fn a_planned_move_copies_every_table_that_a_migration_makes() {
        let baseline = include_str!("../../../migrations/0001_expand_baseline.cql");
        let made: Vec<_> = baseline.split("CREATE TABLE IF NOT EXISTS ").skip(1).map(table).collect();
        let copied: Vec<_> = TABLES.iter().map(|&(name, key, _)| (name, key)).collect();
        assert_eq!(copied, made);
    }
}

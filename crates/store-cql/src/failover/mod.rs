//! `handbill failover`: moves the fence to another datacentre.
//!
//! 1. The fence says that a move has begun, and a quorum of each datacentre shows that (`SERIAL`, then a read in each). The old
//!    side goes on writing, and acknowledges each write only once both have it ([`super::confirm`]).
//! 2. Every lease of before ends, and every write that was sent within one is done.
//! 3. All pages are read from all copies (`ALL`), so that a copy that has missed a write gets it.
//! 4. The fence is closed for everybody. Again every lease ends, and every write that was sent within one is done.
//! 5. The acts of operators since then are copied, which are few, and the fence is opened for the new side.
//!
//! Writes stop for the steps 4 and 5 alone, whatever the number of pages. Until then a move can be given up, or begun again.
//!
//! Before that all nodes are asked for their `paxos_variant`: with v1 a move is refused ([`super::paxos_variants`]).
//!
//! A forced move is for a datacentre that is lost: the row is written only in the new one (`LOCAL_SERIAL`), and nothing is
//! copied, because there is nothing to copy from. It is refused while the side that writes answers. `SERIAL` may miss that row, so a
//! planned move reads what each datacentre shows too.

mod copy;
mod fence_table;
mod plan;

use scylla::client::session::Session;
use tokio::time::{Instant, sleep};

use self::copy::{CONFIRMED, TABLES, copy};
use self::fence_table::FenceTable;
use self::plan::COPY_TIMEOUT;
pub use self::plan::{FailoverError, FailoverPlan};
use super::fence::{LATE_WRITES, LEASE, placement};
use super::paxos_variants;
use super::session;
use super::settings_error::SettingsError;
use crate::settings::CqlSettings;

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
    let fence = FenceTable::on(&session, settings, plan, &datacenters);
    let before = fence.read().await?;
    if plan.is_forced && !plan.allows_answers {
        fence.check_lost(&before, &plan.to).await?;
    }
    if before.newest.datacenter.as_deref() == Some(plan.to.as_str()) {
        // If the last move was forced, the other datacentre may have missed the row.
        fence.replace(&before, Some(&plan.to), None).await?;
        let given_up = before.newest.moving_to.map(|other| format!(", and the move to {other} is given up"));
        return Ok(format!("The datacentre {} writes already{}.", plan.to, given_up.unwrap_or_default()));
    }
    check_paxos(&session, &settings.keyspace, plan).await?;
    let from = before.newest.datacenter.clone().unwrap_or_else(|| "none, since an earlier move did not end".to_owned());
    let (copies_pages, wait) = (plan.copies_pages && !plan.is_forced, LEASE + LATE_WRITES);
    let mut lacking = &TABLES[..];
    let mut standing = before;
    if let (true, Some(writing)) = (copies_pages, standing.newest.datacenter.clone()) {
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

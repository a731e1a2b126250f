//! Settings of the servers that the store's promises depend on, checked at the start by what the servers themselves say.
//! `docs/operate-cluster.md` has the table of all settings, with the reasons, and says which are not asked.
//!
//! Nothing here stops the start: the operator may know better. Each finding is a warning in the log.

use std::net::IpAddr;
use std::time::Duration;

use scylla::client::session::Session;
use scylla::statement::{Consistency, Statement};
use tokio::time::timeout;

use super::session::send_only_to;
use crate::ports::page_store::Cause;

/// Longest time for all checks of a start. A server that is busy need not be asked.
const CHECKS_TIMEOUT: Duration = Duration::from_secs(5);

/// The first version of ScyllaDB that has transactions on tablets, by its documentation.
const TRANSACTIONS_ON_TABLETS: (u32, u32) = (2025, 4);

/// The faults in the settings of the servers, one sentence each. A server that cannot be asked has no findings.
pub async fn findings(session: &Session, keyspace: &str) -> Vec<String> {
    let asking = async {
        let state = session.get_cluster_state();
        let is_scylla = state.get_nodes_info().iter().any(|node| node.sharder().is_some());
        if is_scylla {
            of_scylla(session, keyspace).await
        } else {
            of_nodes(session, CASSANDRA_SETTINGS, SYNCED_BY_CASSANDRA).await
        }
    };
    match timeout(CHECKS_TIMEOUT, asking).await {
        Ok(Ok(findings)) => findings,
        Ok(Err(error)) => {
            tracing::debug!(%error, "the settings of the servers could not be read");
            Vec::new()
        }
        Err(_) => Vec::new(),
    }
}

const CASSANDRA_SETTINGS: &str =
    "SELECT name, value FROM system_views.settings WHERE name IN ('commitlog_sync', 'paxos_variant')";
const SCYLLA_SETTINGS: &str = "SELECT name, value FROM system.config WHERE name = 'commitlog_sync'";

/// The modes of `commitlog_sync` in which a node acknowledges a write only once it is on disk. ScyllaDB takes every word but
/// `batch` for `periodic`, by its source.
const SYNCED_BY_CASSANDRA: &[&str] = &["batch", "group"];
const SYNCED_BY_SCYLLA: &[&str] = &["batch"];

async fn of_nodes(session: &Session, cql: &str, synced: &[&str]) -> Result<Vec<String>, Cause> {
    let mut findings = Vec::new();
    // Each node has settings of its own.
    for node in session.get_cluster_state().get_nodes_info().iter().filter(|node| node.is_connected()) {
        let mut statement = Statement::new(cql);
        statement.set_consistency(Consistency::One);
        send_only_to(&mut statement, node);
        let rows = session.query_unpaged(statement, ()).await?.into_rows_result()?;
        for row in rows.rows::<(String, Option<String>)>()? {
            let (name, value) = row?;
            findings.extend(value.and_then(|value| of_setting(node.address.ip(), &name, &value, synced)));
        }
    }
    Ok(findings)
}

fn of_setting(node: IpAddr, name: &str, value: &str, synced: &[&str]) -> Option<String> {
    // ScyllaDB shows settings as JSON: a word is in quotes, by its source.
    let value = value.trim_matches('"');
    match name {
        "commitlog_sync" if !synced.contains(&value) => Some(format!(
            "the node {node} has commitlog_sync: {value}, so it can lose acknowledged writes with its power: set batch"
        )),
        "paxos_variant" if value != "v2" => Some(format!(
            "the node {node} has paxos_variant: {value}, with which the order of writes is not certain: set v2"
        )),
        _ => None,
    }
}

async fn of_scylla(session: &Session, keyspace: &str) -> Result<Vec<String>, Cause> {
    let local = session.query_unpaged("SELECT version FROM system.versions WHERE key = 'local'", ()).await?;
    let version = local.into_rows_result()?.maybe_first_row::<(Option<String>,)>()?.and_then(|(version,)| version);
    let cql = "SELECT initial_tablets FROM system_schema.scylla_keyspaces WHERE keyspace_name = ?";
    let tablets = session.query_unpaged(cql, (keyspace,)).await?.into_rows_result()?;
    let has_tablets = tablets.maybe_first_row::<(Option<i32>,)>()?.is_some_and(|(initial,)| initial.is_some());
    let mut findings: Vec<_> = of_tablets(version.as_deref().unwrap_or_default(), has_tablets).into_iter().collect();
    match of_nodes(session, SCYLLA_SETTINGS, SYNCED_BY_SCYLLA).await {
        Ok(found) => findings.extend(found),
        Err(error) => tracing::debug!(%error, "the settings of the nodes could not be read"),
    }
    Ok(findings)
}

/// The fault in a keyspace on a ScyllaDB of this version.
fn of_tablets(version: &str, has_tablets: bool) -> Option<String> {
    let mut numbers = version.split(['.', '-', '~']).map_while(|part| part.parse::<u32>().ok());
    let is_too_old = (numbers.next()?, numbers.next()?) < TRANSACTIONS_ON_TABLETS;
    (has_tablets && is_too_old).then(|| {
        format!(
            "ScyllaDB {version} has no lightweight transactions on tablets (by its documentation, from 2025.4 on): make the \
             keyspace with --scylla-tablets false"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_can_lose_acknowledged_writes_or_has_the_old_paxos_is_named() {
        let node = IpAddr::from([192, 0, 2, 1]);
        for (name, value, synced) in [
            ("commitlog_sync", "periodic", SYNCED_BY_CASSANDRA),
            ("commitlog_sync", "\"periodic\"", SYNCED_BY_SCYLLA),
            ("commitlog_sync", "\"group\"", SYNCED_BY_SCYLLA),
            ("paxos_variant", "v1", SYNCED_BY_CASSANDRA),
            ("paxos_variant", "v2_without_linearizable_reads_or_rejected_writes", SYNCED_BY_CASSANDRA),
        ] {
            let found = of_setting(node, name, value, synced).unwrap();
            assert!(
                found.contains("192.0.2.1") && found.contains(name) && found.contains(value.trim_matches('"')),
                "{found}"
            );
        }
        for (name, value, synced) in [
            ("commitlog_sync", "batch", SYNCED_BY_CASSANDRA),
            ("commitlog_sync", "group", SYNCED_BY_CASSANDRA),
            ("commitlog_sync", "\"batch\"", SYNCED_BY_SCYLLA),
            ("paxos_variant", "v2", SYNCED_BY_CASSANDRA),
        ] {
            assert_eq!(of_setting(node, name, value, synced), None);
        }
    }

    #[test]
    fn tablets_are_named_on_a_scylladb_that_has_no_transactions_on_them() {
        for too_old in ["6.2.0", "2025.3.9", "2025.1.0-rc1"] {
            assert!(of_tablets(too_old, true).is_some_and(|found| found.contains("--scylla-tablets")), "{too_old}");
            assert_eq!(of_tablets(too_old, false), None);
        }
        for fits in ["2025.4.0", "2026.1.0", "unknown", ""] {
            assert_eq!(of_tablets(fits, true), None, "{fits}");
        }
    }
}

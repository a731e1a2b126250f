//! Checks what the servers say of their settings, on which the store's promises depend. Findings are warnings: the
//! operator may know better.

use std::net::IpAddr;
use std::time::Duration;

use handbill_pages::ports::page_store::Cause;
use scylla::client::session::Session;
use scylla::statement::{Consistency, Statement};
use tokio::time::timeout;

use super::schema::select;
use super::session::send_only_to;

/// A busy server need not be asked.
const CHECKS_TIMEOUT: Duration = Duration::from_secs(5);

/// By the documentation of `ScyllaDB`.
const TRANSACTIONS_ON_TABLETS: (u32, u32) = (2025, 4);

const CASSANDRA_SETTINGS: &str =
    "SELECT name, value FROM system_views.settings WHERE name IN ('commitlog_sync', 'paxos_variant')";
const SCYLLA_SETTINGS: &str = "SELECT name, value FROM system.config WHERE name = 'commitlog_sync'";

/// Modes of `commitlog_sync` in which an acknowledged write is on disk. ScyllaDB takes every other word for `periodic`,
/// by its source.
const SYNCED_BY_CASSANDRA: &[&str] = &["batch", "group"];
const SYNCED_BY_SCYLLA: &[&str] = &["batch"];

pub async fn findings(session: &Session) -> Vec<String> {
    let asking = async {
        // Only ScyllaDB has this table.
        let version = Statement::new("SELECT version FROM system.versions WHERE key = 'local'");
        match select::<(Option<String>,)>(session, version, ()).await {
            Ok(rows) => {
                let version = rows.into_iter().find_map(|(version,)| version).unwrap_or_default();
                let mut found = of_nodes(session, SCYLLA_SETTINGS, SYNCED_BY_SCYLLA).await?;
                found.extend(of_version(&version));
                Ok::<_, Cause>(found)
            }
            Err(_) => of_nodes(session, CASSANDRA_SETTINGS, SYNCED_BY_CASSANDRA).await,
        }
    };
    let found = timeout(CHECKS_TIMEOUT, asking).await.unwrap_or(Ok(Vec::new()));
    found
        .inspect_err(|error| tracing::debug!(error, "the settings of the servers could not be read"))
        .unwrap_or_default()
}

async fn of_nodes(session: &Session, cql: &str, synced: &[&str]) -> Result<Vec<String>, Cause> {
    let mut findings = Vec::new();
    for node in session.get_cluster_state().get_nodes_info().iter().filter(|node| node.is_connected()) {
        let mut statement = Statement::new(cql);
        statement.set_consistency(Consistency::One);
        send_only_to(&mut statement, node);
        for (name, value) in select::<(String, Option<String>)>(session, statement, ()).await? {
            findings.extend(value.and_then(|value| of_setting(node.address.ip(), &name, &value, synced)));
        }
    }
    Ok(findings)
}

fn of_setting(node: IpAddr, name: &str, value: &str, synced: &[&str]) -> Option<String> {
    // ScyllaDB quotes words as JSON, by its source.
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

fn of_version(version: &str) -> Option<String> {
    let mut numbers = version.split(['.', '-', '~']).map_while(|part| part.parse::<u32>().ok());
    ((numbers.next()?, numbers.next()?) < TRANSACTIONS_ON_TABLETS).then(|| {
        format!("ScyllaDB {version} has no conditional writes on tablets: keep the keyspace without them, or use 2025.4 or newer")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_with_settings_that_break_a_promise_is_named() {
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
    fn a_scylladb_without_conditional_writes_on_tablets_is_named() {
        for too_old in ["6.2.0", "2025.3.9", "2025.1.0-rc1"] {
            assert!(of_version(too_old).is_some_and(|found| found.contains(too_old)), "{too_old}");
        }
        for fits in ["2025.4.0", "2026.1.0", "unknown", ""] {
            assert_eq!(of_version(fits), None, "{fits}");
        }
    }
}

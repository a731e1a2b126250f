//! Checks of the cluster, on which the store's promises depend: where a keyspace has its copies, and how its servers are
//! set up.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use handbill_pages::ports::page_store::Cause;
use scylla::client::session::Session;
use scylla::statement::{Consistency, Statement};
use tokio::time::timeout;

use super::schema::select;
use super::session::send_only_to;
use super::settings::{ScyllaConsistency, ScyllaSettings, SettingsError};

/// How long the checks may take: a busy server need not be asked.
const CHECKS_TIMEOUT: Duration = Duration::from_secs(5);

/// The first `ScyllaDB` with conditional writes on tablets, by its documentation.
const TRANSACTIONS_ON_TABLETS: (u32, u32) = (2025, 4);

const CASSANDRA_SETTINGS: &str =
    "SELECT name, value FROM system_views.settings WHERE name IN ('commitlog_sync', 'paxos_variant')";
const SCYLLA_SETTINGS: &str = "SELECT name, value FROM system.config WHERE name = 'commitlog_sync'";

/// Modes of `commitlog_sync` in which an acknowledged write is on disk. ScyllaDB takes every other word for `periodic`,
/// by its source.
const SYNCED_BY_CASSANDRA: &[&str] = &["batch", "group"];
const SYNCED_BY_SCYLLA: &[&str] = &["batch"];

/// Warnings about settings of the servers. They are no errors: the operator may know better.
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

/// The datacentres that have copies of `keyspace`; `None` if there is no such keyspace.
pub(super) async fn datacenters(session: &Session, keyspace: &str) -> Result<Option<BTreeSet<String>>, Cause> {
    let cql = format!("SELECT replication FROM system_schema.keyspaces WHERE keyspace_name = '{keyspace}'");
    let mut statement = Statement::new(cql);
    statement.set_consistency(Consistency::One);
    let rows = select::<(BTreeMap<String, String>,)>(session, statement, ()).await?;
    Ok(rows.into_iter().next().map(|(replication,)| {
        named(replication).unwrap_or_else(|| {
            let state = session.get_cluster_state();
            state.get_nodes_info().iter().filter_map(|node| node.datacenter.clone()).collect()
        })
    }))
}

/// The datacentres that a replication names; `None` if it names none.
fn named(mut replication: BTreeMap<String, String>) -> Option<BTreeSet<String>> {
    let is_by_datacenter = replication.remove("class").is_some_and(|class| class.ends_with("NetworkTopologyStrategy"));
    let with_copies = replication.into_iter().filter(|(_, copies)| copies != "0");
    is_by_datacenter.then(|| with_copies.map(|(name, _)| name).collect())
}

/// Refuses copies outside this process's datacentre: with [`ScyllaConsistency::Local`], a second datacentre would overwrite what the first has acknowledged.
pub(super) fn check_copies(
    settings: &ScyllaSettings,
    datacenter: Option<&str>,
    found: Option<&BTreeSet<String>>,
) -> Result<(), SettingsError> {
    let (Some(found), ScyllaConsistency::Local) = (found, settings.consistency) else { return Ok(()) };
    let datacenter = datacenter.unwrap_or_default();
    if found.len() == 1 && found.contains(datacenter) {
        return Ok(());
    }
    let keyspace = settings.keyspace.clone();
    let names = found.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
    Err(if found.len() > 1 {
        SettingsError::SeveralDatacenters { keyspace, found: names }
    } else {
        SettingsError::NoCopies { keyspace, datacenter: datacenter.to_owned(), found: names }
    })
}

pub(super) fn check_consistency(settings: &ScyllaSettings, found: &str) -> Result<(), SettingsError> {
    if found == settings.consistency.to_string() {
        return Ok(());
    }
    Err(SettingsError::OtherConsistency { keyspace: settings.keyspace.clone(), found: found.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::of_a_test;

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

    fn checked(replication: &[(&str, &str)], consistency: ScyllaConsistency) -> Result<(), String> {
        let owned = replication.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        let nodes_are_in = BTreeSet::from(["west".to_owned()]);
        let found = named(owned.collect()).unwrap_or(nodes_are_in);
        let settings = ScyllaSettings { consistency, ..of_a_test() };
        check_copies(&settings, Some("west"), Some(&found)).map_err(|error| error.to_string())
    }

    #[test]
    fn with_local_all_copies_are_in_the_datacentre_of_the_process() {
        let local = |replication: &[_]| checked(replication, ScyllaConsistency::Local);
        let class = ("class", "org.apache.cassandra.locator.NetworkTopologyStrategy");
        assert_eq!(local(&[class, ("west", "3")]), Ok(()));
        assert_eq!(local(&[("class", "NetworkTopologyStrategy"), ("west", "3")]), Ok(()));
        assert_eq!(local(&[class, ("west", "3"), ("east", "0")]), Ok(()));
        let simple = ("class", "org.apache.cassandra.locator.SimpleStrategy");
        assert_eq!(local(&[simple, ("replication_factor", "3")]), Ok(()));

        let several = local(&[class, ("west", "3"), ("east", "3")]).unwrap_err();
        assert!(several.contains("east, west") && several.contains("ALTER KEYSPACE handbill"), "{several}");
        let elsewhere = local(&[class, ("east", "3")]).unwrap_err();
        assert!(elsewhere.contains("east") && elsewhere.contains("--scylla-datacenter"), "{elsewhere}");
        assert_eq!(checked(&[class, ("west", "3"), ("east", "3")], ScyllaConsistency::Global), Ok(()));
    }

    #[test]
    fn a_keyspace_is_written_with_one_consistency() {
        let settings = of_a_test();
        assert!(check_consistency(&settings, "local").is_ok());
        let other = check_consistency(&settings, "global").unwrap_err().to_string();
        assert!(other.contains("--scylla-consistency global"), "{other}");
    }
}

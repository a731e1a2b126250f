//! Checks of the cluster, on which the store's promises depend: where a keyspace has its copies, and how its servers are
//! set up.

use std::collections::{BTreeMap, BTreeSet};
use std::{net::IpAddr, time::Duration};

use handbill_pages::ports::page_store::Cause;
use scylla::client::session::Session;
use scylla::statement::{Consistency, Statement};
use tokio::time::timeout;

use super::schema::{SchemaError, select};
use super::session::{NO_ANSWER, send_only_to};
use super::settings::{ScyllaConsistency, ScyllaSettings, SettingsError};

/// How long the checks may take: a busy server need not be asked.
const CHECKS_TIMEOUT: Duration = Duration::from_secs(5);

/// The first `ScyllaDB` with conditional writes on tablets, by its documentation.
const TRANSACTIONS_ON_TABLETS: (u32, u32) = (2025, 4);

/// Cassandra and `ScyllaDB` write hints for three hours by default.
const SHORTEST_GRACE: i32 = 3 * 60 * 60;

const CASSANDRA_SETTINGS: &str = "SELECT name, value FROM system_views.settings WHERE name IN ('commitlog_sync', 'paxos_variant', 'paxos_state_purging')";
const SCYLLA_SETTINGS: &str = "SELECT name, value FROM system.config WHERE name = 'commitlog_sync'";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Product {
    Cassandra,
    Scylla,
}

impl Product {
    /// Only `ScyllaDB` has shards.
    fn of(session: &Session) -> Self {
        let state = session.get_cluster_state();
        if state.get_nodes_info().iter().any(|node| node.sharder().is_some()) { Self::Scylla } else { Self::Cassandra }
    }

    /// A query, and the right that it needs.
    fn settings(self) -> (&'static str, &'static str) {
        match self {
            Self::Cassandra => (CASSANDRA_SETTINGS, "GRANT SELECT ON system_views.settings TO the login"),
            Self::Scylla => (SCYLLA_SETTINGS, "GRANT SELECT ON system.config and ON system.versions TO the login"),
        }
    }
}

/// Warnings about servers and keyspace. They are no errors: the operator may know better.
pub async fn findings(session: &Session, keyspace: &str) -> Vec<String> {
    let product = Product::of(session);
    let mut found = Vec::new();
    let checking = async {
        of_keyspace(session, product, keyspace, &mut found).await?;
        of_settings(session, product, &mut found).await
    };
    let reason = match timeout(CHECKS_TIMEOUT, checking).await {
        Ok(Ok(())) => return found,
        Ok(Err(error)) => error.to_string(),
        Err(_) => NO_ANSWER.to_owned(),
    };
    let (_, grants) = product.settings();
    found.push(format!("the settings of the servers cannot be read, so nothing checks them: {grants} ({reason})"));
    found
}

async fn of_settings(session: &Session, product: Product, found: &mut Vec<String>) -> Result<(), Cause> {
    for node in session.get_cluster_state().get_nodes_info().iter().filter(|node| node.is_connected()) {
        let mut statement = Statement::new(product.settings().0);
        statement.set_consistency(Consistency::One);
        send_only_to(&mut statement, node);
        for (name, value) in select::<(String, Option<String>)>(session, statement, ()).await? {
            found.extend(value.and_then(|value| of_setting(node.address.ip(), &name, &value, product)));
        }
    }
    Ok(())
}

fn of_setting(node: IpAddr, name: &str, value: &str, product: Product) -> Option<String> {
    // ScyllaDB quotes words as JSON, by its source.
    let value = value.trim_matches('"');
    match (name, product) {
        // In both modes, an acknowledged write is on disk.
        ("commitlog_sync", Product::Cassandra) if !matches!(value, "batch" | "group") => Some(format!(
            "the node {node} has commitlog_sync: {value}, so it can lose acknowledged writes with its power: set batch"
        )),
        // Conditional writes are synced in every mode. ScyllaDB takes every other word for `periodic`, by its source.
        ("commitlog_sync", Product::Scylla) if value != "batch" => Some(format!(
            "the node {node} has commitlog_sync: {value}, so it can lose lines of the journal with its power: set batch"
        )),
        ("paxos_variant", _) if value != "v2" => Some(format!(
            "the node {node} has paxos_variant: {value}, with which the order of writes is not certain: set v2"
        )),
        ("paxos_state_purging", _) if value == "legacy" => Some(format!(
            "the node {node} has paxos_state_purging: legacy, with which a late write can undo a later one: set repaired, and repair regularly"
        )),
        _ => None,
    }
}

async fn of_keyspace(
    session: &Session,
    product: Product,
    keyspace: &str,
    found: &mut Vec<String>,
) -> Result<(), Cause> {
    let table = format!(
        "SELECT gc_grace_seconds FROM system_schema.tables WHERE keyspace_name = '{keyspace}' AND table_name = 'pages'"
    );
    for (grace,) in select::<(Option<i32>,)>(session, table, ()).await? {
        found.extend(of_grace(keyspace, grace.unwrap_or_default()));
    }
    let replication = replication(session, keyspace).await?.unwrap_or_default();
    let state = session.get_cluster_state();
    for (place, copies) in replication.iter().filter(|(name, _)| *name != "class") {
        let nodes = state.get_nodes_info().iter().filter(|node| node.datacenter.as_ref() == Some(place));
        let racks: BTreeSet<_> = nodes.filter_map(|node| node.rack.as_deref()).collect();
        found.extend(of_copies(keyspace, place, copies, racks.len()));
    }
    if product == Product::Scylla {
        let version = "SELECT version FROM system.versions WHERE key = 'local'";
        let version = select::<(Option<String>,)>(session, version, ()).await?;
        let version = version.into_iter().find_map(|(version,)| version).unwrap_or_default();
        let tablets =
            format!("SELECT initial_tablets FROM system_schema.scylla_keyspaces WHERE keyspace_name = '{keyspace}'");
        // Versions that cannot have tablets lack the column.
        let tablets = select::<(Option<i32>,)>(session, tablets, ()).await.unwrap_or_default();
        found.extend(of_tablets(&version, tablets.iter().any(|(tablets,)| tablets.is_some())));
    }
    Ok(())
}

fn of_grace(keyspace: &str, grace: i32) -> Option<String> {
    (grace < SHORTEST_GRACE).then(|| {
        format!("a copy of {keyspace}.pages that was away for {grace} s can miss changes: ALTER TABLE {keyspace}.pages WITH gc_grace_seconds = 864000")
    })
}

fn of_copies(keyspace: &str, place: &str, copies: &str, racks: usize) -> Option<String> {
    match copies.parse::<u32>() {
        Ok(1 | 2) => Some(format!(
            "the keyspace {keyspace} has {copies} copies in {place}, so no node may fail: ALTER KEYSPACE to 3 copies, then repair"
        )),
        Ok(3..) if racks == 2 => Some(format!(
            "the nodes of {place} are in two racks, one of which holds the majority of the copies: use three racks, or one"
        )),
        _ => None,
    }
}

fn of_tablets(version: &str, has_tablets: bool) -> Option<String> {
    let mut numbers = version.split(['.', '-', '~']).map_while(|part| part.parse::<u32>().ok());
    let is_too_old = (numbers.next()?, numbers.next()?) < TRANSACTIONS_ON_TABLETS;
    match (is_too_old, has_tablets) {
        (true, true) => Some(format!(
            "ScyllaDB {version} has no conditional writes on tablets: make the keyspace without them, or use 2025.4 or newer"
        )),
        (false, false) => Some(format!(
            "the keyspace has no tablets, so a change of the nodes can lose a write on ScyllaDB {version}: make it with tablets"
        )),
        _ => None,
    }
}

/// Whether the table repairs its copies late: a read could show an older state than one before it.
pub(super) async fn repairs_late(session: &Session, keyspace: &str) -> Result<bool, SchemaError> {
    if Product::of(session) == Product::Scylla {
        return Ok(false);
    }
    let cql = format!(
        "SELECT read_repair FROM system_schema.tables WHERE keyspace_name = '{keyspace}' AND table_name = 'pages'"
    );
    let rows = select::<(Option<String>,)>(session, cql, ()).await?;
    Ok(rows.iter().any(|(repair,)| repair.as_deref().is_some_and(|repair| repair != "BLOCKING")))
}

/// Of `keyspace`; `None` if there is no such keyspace.
async fn replication(session: &Session, keyspace: &str) -> Result<Option<BTreeMap<String, String>>, Cause> {
    let cql = format!("SELECT replication FROM system_schema.keyspaces WHERE keyspace_name = '{keyspace}'");
    Ok(select::<(_,)>(session, cql, ()).await?.into_iter().next().map(|(replication,)| replication))
}

/// The datacentres that have copies of `keyspace`; `None` if there is no such keyspace.
pub(super) async fn datacenters(session: &Session, keyspace: &str) -> Result<Option<BTreeSet<String>>, SchemaError> {
    let Some(replication) = replication(session, keyspace).await? else { return Ok(None) };
    let state = session.get_cluster_state();
    let all = state.get_nodes_info().iter().filter_map(|node| node.datacenter.clone());
    Ok(Some(named(replication).unwrap_or_else(|| all.collect())))
}

/// The datacentres that a replication names; `None` if it names none.
fn named(mut replication: BTreeMap<String, String>) -> Option<BTreeSet<String>> {
    let is_by_datacenter = replication.remove("class").is_some_and(|class| class.ends_with("NetworkTopologyStrategy"));
    let with_copies = replication.into_iter().filter(|(_, copies)| copies != "0");
    is_by_datacenter.then(|| with_copies.map(|(name, _)| name).collect())
}

/// Refuses a process without copies in its own datacentre and, with [`ScyllaConsistency::Local`], before `migrate` has recorded
/// where the pages live, copies elsewhere.
pub(super) fn check_copies(
    settings: &ScyllaSettings,
    datacenter: Option<&str>,
    found: Option<&BTreeSet<String>>,
    is_recorded: bool,
) -> Result<(), SettingsError> {
    let (Some(found), ScyllaConsistency::Local) = (found, settings.consistency) else { return Ok(()) };
    let datacenter = datacenter.unwrap_or_default();
    let keyspace = settings.keyspace.clone();
    let names = found.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
    if !found.contains(datacenter) {
        return Err(SettingsError::NoCopies { keyspace, datacenter: datacenter.to_owned(), found: names });
    }
    if found.len() > 1 && !is_recorded {
        return Err(SettingsError::SeveralDatacenters { keyspace, found: names });
    }
    Ok(())
}

/// Refuses a process beside other copies than those where the pages live: with [`ScyllaConsistency::Local`] it would overwrite what
/// the others have acknowledged.
pub(super) fn check_datacenter(
    settings: &ScyllaSettings,
    datacenter: Option<&str>,
    recorded: &str,
) -> Result<(), SettingsError> {
    let datacenter = datacenter.unwrap_or_default();
    if settings.consistency == ScyllaConsistency::Global || datacenter == recorded {
        return Ok(());
    }
    let keyspace = settings.keyspace.clone();
    Err(SettingsError::OtherDatacenter { keyspace, datacenter: datacenter.to_owned(), found: recorded.to_owned() })
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

    /// Settings that reach no cluster.
    fn of_a_test() -> ScyllaSettings {
        ScyllaSettings {
            nodes: Vec::new(),
            keyspace: "handbill".to_owned(),
            datacenter: None,
            consistency: ScyllaConsistency::Local,
            replication_factor: 3,
            username: None,
            password_file: None,
            ca_file: None,
            client_cert_files: Vec::new(),
            schema_wait: Duration::ZERO,
        }
    }

    #[test]
    fn a_node_with_settings_that_break_a_promise_is_named() {
        use Product::{Cassandra, Scylla};
        let node = IpAddr::from([192, 0, 2, 1]);
        for (name, value, product, says) in [
            ("commitlog_sync", "periodic", Cassandra, "acknowledged writes"),
            ("commitlog_sync", "\"periodic\"", Scylla, "lines of the journal"),
            ("commitlog_sync", "\"group\"", Scylla, "lines of the journal"),
            ("paxos_variant", "v1", Cassandra, "set v2"),
            ("paxos_variant", "v2_without_linearizable_reads_or_rejected_writes", Cassandra, "set v2"),
            ("paxos_state_purging", "legacy", Cassandra, "set repaired"),
        ] {
            let found = of_setting(node, name, value, product).unwrap();
            for part in ["192.0.2.1", name, value.trim_matches('"'), says] {
                assert!(found.contains(part), "{found}");
            }
        }
        for (name, value, product) in [
            ("commitlog_sync", "batch", Cassandra),
            ("commitlog_sync", "group", Cassandra),
            ("commitlog_sync", "\"batch\"", Scylla),
            ("paxos_variant", "v2", Cassandra),
            ("paxos_state_purging", "repaired", Cassandra),
            ("paxos_state_purging", "gc_grace", Cassandra),
        ] {
            assert_eq!(of_setting(node, name, value, product), None);
        }
    }

    #[test]
    fn a_keyspace_that_one_lost_node_can_stop_is_named() {
        assert!(of_copies("k", "west", "1", 1).unwrap().contains("ALTER KEYSPACE"));
        assert!(of_copies("k", "west", "2", 2).unwrap().contains("no node may fail"));
        assert!(of_copies("k", "west", "3", 2).unwrap().contains("two racks"));
        for (copies, racks) in [("3", 1), ("3", 3), ("5", 5), ("0", 2)] {
            assert_eq!(of_copies("k", "west", copies, racks), None);
        }
        assert!(of_grace("k", 0).unwrap().contains("ALTER TABLE k.pages"));
        assert_eq!(of_grace("k", 864_000), None);
    }

    #[test]
    fn only_a_scylladb_that_could_have_tablets_is_told_about_them() {
        for too_old in ["6.2.0", "2025.3.9", "2025.1.0-rc1"] {
            assert!(of_tablets(too_old, true).is_some_and(|found| found.contains(too_old)), "{too_old}");
            assert_eq!(of_tablets(too_old, false), None);
        }
        for new in ["2025.4.0", "2026.1.0"] {
            assert_eq!(of_tablets(new, true), None);
            assert!(of_tablets(new, false).is_some());
        }
        assert_eq!(of_tablets("unknown", true), None);
    }

    fn checked(replication: &[(&str, &str)], consistency: ScyllaConsistency, is_recorded: bool) -> Result<(), String> {
        let owned = replication.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        let nodes_are_in = BTreeSet::from(["west".to_owned()]);
        let found = named(owned.collect()).unwrap_or(nodes_are_in);
        let settings = ScyllaSettings { consistency, ..of_a_test() };
        check_copies(&settings, Some("west"), Some(&found), is_recorded).map_err(|error| error.to_string())
    }

    #[test]
    fn with_local_the_process_is_beside_copies_and_others_come_once_their_place_is_recorded() {
        let local = |replication: &[_]| checked(replication, ScyllaConsistency::Local, false);
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
        assert_eq!(checked(&[class, ("west", "3"), ("east", "3")], ScyllaConsistency::Global, false), Ok(()));
        assert_eq!(checked(&[class, ("west", "3"), ("east", "3")], ScyllaConsistency::Local, true), Ok(()));
        checked(&[class, ("east", "3")], ScyllaConsistency::Local, true).unwrap_err();
    }

    #[test]
    fn with_local_the_process_is_where_the_pages_live() {
        let settings = of_a_test();
        assert!(check_datacenter(&settings, Some("west"), "west").is_ok());
        let other = check_datacenter(&settings, Some("east"), "west").unwrap_err().to_string();
        assert!(other.contains("--scylla-datacenter west"), "{other}");
        let global = ScyllaSettings { consistency: ScyllaConsistency::Global, ..settings };
        assert!(check_datacenter(&global, Some("east"), "").is_ok());
    }

    #[test]
    fn a_keyspace_is_written_with_one_consistency() {
        let settings = of_a_test();
        assert!(check_consistency(&settings, "local").is_ok());
        let other = check_consistency(&settings, "global").unwrap_err().to_string();
        assert!(other.contains("--scylla-consistency global"), "{other}");
    }
}

//! Where a keyspace has its copies, and how its pages are written.

use std::collections::{BTreeMap, BTreeSet};

use handbill_pages::ports::page_store::Cause;
use scylla::client::session::Session;
use scylla::statement::{Consistency, Statement};

use super::schema::select;
use super::settings::{ScyllaConsistency, ScyllaSettings, SettingsError};

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

fn named(mut replication: BTreeMap<String, String>) -> Option<BTreeSet<String>> {
    let is_by_datacenter = replication.remove("class").is_some_and(|class| class.ends_with("NetworkTopologyStrategy"));
    let with_copies = replication.into_iter().filter(|(_, copies)| copies != "0");
    is_by_datacenter.then(|| with_copies.map(|(name, _)| name).collect())
}

/// With [`ScyllaConsistency::Local`], a second datacentre would overwrite what the first has acknowledged.
pub(super) fn check(
    settings: &ScyllaSettings,
    datacenter: Option<&str>,
    found: Option<&BTreeSet<String>>,
) -> Result<(), SettingsError> {
    let (Some(found), ScyllaConsistency::Local) = (found, settings.consistency) else { return Ok(()) };
    let datacenter = datacenter.unwrap_or_default();
    if found.len() == 1 && found.contains(datacenter) {
        return Ok(());
    }
    let (keyspace, names) =
        (settings.keyspace.clone(), found.iter().map(String::as_str).collect::<Vec<_>>().join(", "));
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

    fn checked(replication: &[(&str, &str)], consistency: ScyllaConsistency) -> Result<(), String> {
        let owned = replication.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        let nodes_are_in = BTreeSet::from(["west".to_owned()]);
        let found = named(owned.collect()).unwrap_or(nodes_are_in);
        let settings = ScyllaSettings { consistency, ..of_a_test() };
        check(&settings, Some("west"), Some(&found)).map_err(|error| error.to_string())
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

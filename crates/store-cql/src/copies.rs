//! Refuses a keyspace with copies in several datacentres.
//!
//! Every write of a page is decided by the replicas of one datacentre (`LOCAL_SERIAL`). Quorums of two datacentres share no copy,
//! so each would overwrite what the other has acknowledged.

use std::collections::{BTreeMap, BTreeSet};

use scylla::client::session::Session;
use scylla::statement::{Consistency, Statement};

use super::settings_error::SettingsError;
use crate::ports::page_store::Cause;

/// The datacentres in which `keyspace` has copies; `None` if there is no such keyspace.
pub(super) async fn datacenters(session: &Session, keyspace: &str) -> Result<Option<BTreeSet<String>>, Cause> {
    let cql = format!("SELECT replication FROM system_schema.keyspaces WHERE keyspace_name = '{keyspace}'");
    let mut statement = Statement::new(cql);
    // Each node has the whole schema.
    statement.set_consistency(Consistency::One);
    let answer = session.query_unpaged(statement, ()).await?.into_rows_result()?;
    let row = answer.maybe_first_row::<(BTreeMap<String, String>,)>()?;
    Ok(row.map(|(replication,)| {
        named(replication).unwrap_or_else(|| {
            let state = session.get_cluster_state();
            state.get_nodes_info().iter().filter_map(|node| node.datacenter.clone()).collect()
        })
    }))
}

/// The datacentres in a keyspace's `replication`; `None` if its rule names none, so that any node may have a copy.
fn named(mut replication: BTreeMap<String, String>) -> Option<BTreeSet<String>> {
    let is_by_datacenter = replication.remove("class").is_some_and(|class| class.ends_with("NetworkTopologyStrategy"));
    let with_copies = replication.into_iter().filter(|(_, copies)| copies != "0");
    is_by_datacenter.then(|| with_copies.map(|(name, _)| name).collect())
}

/// Checks that `keyspace`, which has copies in `found`, has them in `datacenter` alone.
pub(super) fn check(keyspace: &str, datacenter: &str, found: Option<&BTreeSet<String>>) -> Result<(), SettingsError> {
    let Some(found) = found else { return Ok(()) };
    if found.len() == 1 && found.contains(datacenter) {
        return Ok(());
    }
    let (keyspace, names) = (keyspace.to_owned(), found.iter().map(String::as_str).collect::<Vec<_>>().join(", "));
    Err(if found.len() > 1 {
        SettingsError::SeveralDatacenters { keyspace, found: names }
    } else {
        SettingsError::NoCopies { keyspace, datacenter: datacenter.to_owned(), found: names }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(replication: &[(&str, &str)], datacenter: &str) -> Result<(), String> {
        let owned = replication.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        let nodes_are_in = BTreeSet::from(["west".to_owned()]);
        let found = named(owned.collect()).unwrap_or(nodes_are_in);
        check("pages", datacenter, Some(&found)).map_err(|error| error.to_string())
    }

    #[test]
    fn a_keyspace_is_used_if_all_of_its_copies_are_in_the_datacentre_of_the_process() {
        let class = ("class", "org.apache.cassandra.locator.NetworkTopologyStrategy");
        assert_eq!(checked(&[class, ("west", "3")], "west"), Ok(()));
        assert_eq!(checked(&[("class", "NetworkTopologyStrategy"), ("west", "3")], "west"), Ok(()));
        assert_eq!(checked(&[class, ("west", "3"), ("east", "0")], "west"), Ok(()));
        let simple = ("class", "org.apache.cassandra.locator.SimpleStrategy");
        assert_eq!(checked(&[simple, ("replication_factor", "3")], "west"), Ok(()));

        let several = checked(&[class, ("west", "3"), ("east", "3")], "west").unwrap_err();
        assert!(several.contains("east, west") && several.contains("ALTER KEYSPACE pages"), "{several}");
        let elsewhere = checked(&[class, ("east", "3")], "west").unwrap_err();
        assert!(elsewhere.contains("east") && elsewhere.contains("--scylla-datacenter"), "{elsewhere}");
    }
}

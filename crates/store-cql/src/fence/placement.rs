//! The datacentres in which a keyspace has copies. The driver keeps them too, but may ask only once a minute.

use std::collections::BTreeMap;
use std::time::Duration;

use scylla::client::session::Session;
use scylla::errors::PrepareError;
use scylla::statement::prepared::PreparedStatement;
use scylla::statement::{Consistency, Statement};

use crate::ports::page_store::Cause;

/// The statement that asks for them. Any one node answers it, since each has the whole schema.
pub(crate) async fn prepare(session: &Session, wait: Duration) -> Result<PreparedStatement, PrepareError> {
    let cql = "SELECT replication FROM system_schema.keyspaces WHERE keyspace_name = ?";
    let mut statement = session.prepare(Statement::new(cql)).await?;
    statement.set_consistency(Consistency::One);
    statement.set_request_timeout(Some(wait));
    statement.set_is_idempotent(true);
    Ok(statement)
}

/// The names of the datacentres; none if the servers place copies by another rule.
pub(crate) async fn datacenters(
    session: &Session,
    statement: &PreparedStatement,
    keyspace: &str,
) -> Result<Vec<String>, Cause> {
    let answer = session.execute_unpaged(statement, (keyspace,)).await?.into_rows_result()?;
    let (replication,) = answer.single_row::<(BTreeMap<String, String>,)>()?;
    Ok(names(replication))
}

fn names(mut replication: BTreeMap<String, String>) -> Vec<String> {
    let is_by_datacenter = replication.remove("class").is_some_and(|class| class.ends_with("NetworkTopologyStrategy"));
    replication.into_iter().filter(|(_, copies)| is_by_datacenter && copies != "0").map(|(name, _)| name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_datacentre_counts_if_it_has_copies_and_nothing_is_known_of_other_rules() {
        let topology = ("class", "org.apache.cassandra.locator.NetworkTopologyStrategy");
        for (replication, expected) in [
            (vec![topology, ("west", "3")], vec!["west"]),
            (vec![("class", "NetworkTopologyStrategy"), ("west", "3")], vec!["west"]),
            (vec![topology, ("west", "3"), ("east", "3")], vec!["east", "west"]),
            (vec![topology, ("west", "3"), ("east", "0")], vec!["west"]),
            (vec![("class", "org.apache.cassandra.locator.SimpleStrategy"), ("replication_factor", "3")], vec![]),
        ] {
            let replication = replication.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
            assert_eq!(names(replication), expected);
        }
    }
}

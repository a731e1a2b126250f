//! The `paxos_variant` of each datacentre's nodes, on which the order of writes across a move of the fence depends.
//!
//! A node of Cassandra with v1 that finishes an interrupted round gives its values new timestamps, so a round that the old side
//! left open can overwrite what the new side has acknowledged. v2 and ScyllaDB keep the timestamps.
//!
//! A lost side cannot be asked. So what a datacentre said last is recorded beside the fence.

use std::collections::BTreeMap;
use std::sync::Arc;

use scylla::client::session::Session;
use scylla::cluster::Node;
use scylla::errors::ExecutionError;
use scylla::statement::{Consistency, Statement};

use super::migrate::schema::COMPONENT;
use super::session::send_only_to;
use crate::ports::page_store::Cause;

/// The least safe variant of each datacentre's nodes; `None` if not all of them are known to keep timestamps.
pub(super) type Variants = BTreeMap<String, Option<String>>;

/// Whether nodes of this variant keep the timestamps of an interrupted round.
pub(super) fn keeps_times(variant: &str) -> bool {
    variant.starts_with("v2")
}

/// The answers of the nodes of `datacenter`, or of all; empty with ScyllaDB, which has no variants.
pub(super) async fn ask(session: &Session, datacenter: Option<&str>) -> Variants {
    let (state, mut found) = (session.get_cluster_state(), Variants::new());
    if state.get_nodes_info().iter().any(|node| node.sharder().is_some()) {
        return found;
    }
    for node in state.get_nodes_info() {
        let name = node.datacenter.clone().unwrap_or_default();
        let is_asked = node.is_connected() && datacenter.is_none_or(|asked| asked == name);
        let variant = if is_asked { variant_of(session, node).await.ok() } else { None };
        match found.get_mut(&name) {
            Some(worst) if danger(worst.as_deref()) >= danger(variant.as_deref()) => {}
            _ => _ = found.insert(name, variant),
        }
    }
    found
}

fn danger(variant: Option<&str>) -> u8 {
    variant.map_or(1, |variant| if keeps_times(variant) { 0 } else { 2 })
}

async fn variant_of(session: &Session, node: &Arc<Node>) -> Result<String, Cause> {
    let mut statement = Statement::new("SELECT value FROM system_views.settings WHERE name = 'paxos_variant'");
    statement.set_consistency(Consistency::One);
    send_only_to(&mut statement, node);
    Ok(session.query_unpaged(statement, ()).await?.into_rows_result()?.single_row::<(String,)>()?.0)
}

/// Keeps what is known of `variants` for a move after the loss of a datacentre. The row of the fence must exist.
pub(super) async fn record(session: &Session, keyspace: &str, variants: &Variants) -> Result<(), ExecutionError> {
    let known: BTreeMap<_, _> = variants.iter().filter_map(|(name, variant)| Some((name, variant.as_ref()?))).collect();
    if known.is_empty() {
        return Ok(());
    }
    // No conditional write has this column, so a plain one is not in their way.
    let cql =
        format!("UPDATE {keyspace}.fence SET paxos_variants = paxos_variants + ? WHERE component = '{COMPONENT}'");
    session.query_unpaged(cql, (known,)).await.map(|_| ())
}

/// The variants that were recorded last.
pub(super) async fn recorded(session: &Session, keyspace: &str) -> Result<BTreeMap<String, String>, Cause> {
    let cql = format!("SELECT paxos_variants FROM {keyspace}.fence WHERE component = '{COMPONENT}'");
    let rows = session.query_unpaged(cql, ()).await?.into_rows_result()?;
    let row = rows.maybe_first_row::<(Option<BTreeMap<String, String>>,)>()?;
    Ok(row.and_then(|(variants,)| variants).unwrap_or_default())
}

//! `handbill failover`.

use tokio::runtime::Builder;

use super::error::FailoverError;
use crate::backends::cql as backend;
use crate::config::{ClusterSettings, FailoverSettings, StoreKind};
use crate::telemetry::logs::{self, LogQueue};

/// Moves the writing of pages to another datacentre. Lines for the operator go to `say`. Returns the last of them.
pub fn failover(
    settings: &FailoverSettings,
    log: &LogQueue,
    say: impl Fn(&str) + Send,
) -> Result<String, FailoverError> {
    let ClusterSettings { store, cql, logs } = &settings.cluster;
    logs::install(logs, log, None);
    if store.store == StoreKind::Embedded {
        return Err(FailoverError::Embedded);
    }
    let options = &settings.options;
    let plan =
        backend::FailoverPlan { to: options.to.clone(), is_forced: options.force, copies_pages: !options.skip_copy };
    let runtime = Builder::new_multi_thread().enable_all().build()?;
    Ok(runtime.block_on(backend::failover(cql, &plan, say))?)
}

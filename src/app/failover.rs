//! `handbill failover`.

use tokio::runtime::Builder;

use super::backends::failed_over;
use super::error::FailoverError;
use crate::backends::cql as backend;
use crate::config::FailoverSettings;
use crate::telemetry::logs::{self, LogQueue};

/// Moves the writing of pages to another datacentre. Lines for the operator go to `say`. Returns the last of them.
pub fn failover(
    settings: &FailoverSettings,
    log: &LogQueue,
    say: impl Fn(&str) + Send,
) -> Result<String, FailoverError> {
    logs::install(&settings.cluster.logs, log, None);
    let cluster = failed_over(&settings.cluster)?;
    let options = &settings.options;
    let plan =
        backend::FailoverPlan { to: options.to.clone(), is_forced: options.force, copies_pages: !options.skip_copy };
    let runtime = Builder::new_multi_thread().enable_all().build()?;
    Ok(runtime.block_on(backend::failover(&cluster, &plan, say))?)
}

//! Connects the store with shared caches.

use std::sync::Arc;

use super::backends::Backends;
use super::error::StartError;
use crate::backends::purging::{Caches, PurgeError, Purges, Purging};
use crate::config::EdgeSettings;
use crate::telemetry::metrics::Metrics;
use handbill_core::domain::origin::Origin;

/// Checks the settings and the file that they name.
pub(super) fn check(settings: &EdgeSettings) -> Result<(), StartError> {
    let origin = Origin::parse("http://localhost").expect("it is an origin");
    caches(settings, &origin)?;
    Ok(())
}

/// `backends` whose changes are purged from the caches of `settings`, if there are any.
pub(super) fn purging(
    backends: Backends,
    settings: &EdgeSettings,
    base_url: &Origin,
    metrics: &Arc<Metrics>,
) -> Result<Backends, StartError> {
    let bound = settings.caching().map(|caching| {
        let bound = caching.bound();
        let bound_text = humantime::format_duration(bound).to_string();
        tracing::info!(
            bound = bound_text,
            "shared caches may show a page for this long after it was changed or deleted"
        );
        bound
    });
    let Some(caches) = caches(settings, base_url)? else { return Ok(backends) };
    let purges = Purges::start(caches, bound.unwrap_or_default(), metrics);
    Ok(Backends { store: Arc::new(Purging::new(backends.store, purges)), ..backends })
}

fn caches(settings: &EdgeSettings, base_url: &Origin) -> Result<Option<Caches>, PurgeError> {
    let EdgeSettings { purge_url, purge_method, purge_token_file, .. } = settings;
    let has_caches = !purge_url.is_empty();
    has_caches
        .then(|| Caches::new(purge_url.clone(), *purge_method, purge_token_file.clone(), base_url.clone()))
        .transpose()
}

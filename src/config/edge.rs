//! Settings of shared caches in front of the service.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use handbill_core::domain::edge_caching::EdgeCaching;
use handbill_core::domain::purge_url::PurgeUrl;

/// Longest age. A page that was deleted must not be shown for longer than a month.
const MAX_TIME: Duration = Duration::from_hours(24 * 31);

/// Settings of shared caches in front of the service.
#[derive(Args, Debug)]
pub struct EdgeSettings {
    /// How long shared caches may show a page without asking whether it has changed; while they ask 10 s longer, and while Handbill fails 1 min, but neither longer than this time itself. 0s admits none, so that nothing is ever stale
    #[arg(long, env = "HANDBILL_EDGE_MAX_AGE", value_name = "DURATION", default_value = "0s", value_parser = whole_seconds)]
    pub edge_max_age: Duration,
    /// Addresses that purge a page from shared caches, called when it is changed or deleted; `{slug}` or `{url}` stands for the page; comma-separated [default: none]
    #[arg(long, env = "HANDBILL_PURGE_URL", value_name = "TEMPLATE,…", value_delimiter = ',', value_parser = PurgeUrl::parse)]
    pub purge_url: Vec<PurgeUrl>,
    /// Method of a purge: purge, as Varnish and nginx take it, or post, with the slug as a tag in a JSON body
    #[arg(
        long,
        env = "HANDBILL_PURGE_METHOD",
        value_name = "METHOD",
        default_value = "purge",
        hide_possible_values = true
    )]
    pub purge_method: PurgeMethod,
    /// File with the token that a purge sends as `Authorization: Bearer …`, or with a whole header line; it is read again at each purge [default: none]
    #[arg(long, env = "HANDBILL_PURGE_TOKEN_FILE", value_name = "FILE")]
    pub purge_token_file: Option<PathBuf>,
}

/// The method of a purge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PurgeMethod {
    /// `PURGE`, without a body.
    Purge,
    /// `POST`, with `{"tags": [slug]}`.
    Post,
}

impl EdgeSettings {
    /// The permission for shared caches; `None` if there is none.
    pub fn caching(&self) -> Option<EdgeCaching> {
        (!self.edge_max_age.is_zero()).then_some(EdgeCaching { max_age: self.edge_max_age })
    }
}

/// A time in whole seconds, since header fields have no smaller unit.
fn whole_seconds(text: &str) -> Result<Duration, &'static str> {
    let fits = |time: &Duration| time.subsec_nanos() == 0 && *time <= MAX_TIME;
    humantime::parse_duration(text).ok().filter(fits).ok_or("give whole seconds, at most 31 days, for example 1m")
}

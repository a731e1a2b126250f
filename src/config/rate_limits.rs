//! Settings of the rate limits.

use std::str::FromStr;
use std::time::Duration;

use clap::Args;
use http::HeaderName;

use handbill_core::domain::limit_tier::{self, LimitTier};
use handbill_core::domain::network_limits::NetworkLimits;
use handbill_core::domain::quota::Quota;
use handbill_core::ports::rate_limiter::Quotas;

/// Highest limit. A window remembers each of its attempts in 16 bytes.
const MAX_LIMIT: i64 = limit_tier::MAX_LIMIT as i64;

/// Longest window.
const MAX_WINDOW: Duration = Duration::from_hours(31 * 24);

/// Settings of the rate limits.
#[derive(Args, Debug)]
pub struct RateLimitSettings {
    /// Pages that a client may create within the window; 0 switches the limit off
    #[arg(long, env = "HANDBILL_CREATE_LIMIT", value_name = "REQUESTS", default_value_t = 10, value_parser = clap::value_parser!(u32).range(0..=MAX_LIMIT))]
    pub create_limit: u32,
    /// Updates and deletes that a client may try within the window; 0 switches the limit off
    #[arg(long, env = "HANDBILL_EDIT_LIMIT", value_name = "REQUESTS", default_value_t = 60, value_parser = clap::value_parser!(u32).range(0..=MAX_LIMIT))]
    pub edit_limit: u32,
    /// Tokens that a client may ask for within the window; 0 switches the limit off
    #[arg(long, env = "HANDBILL_TOKEN_LIMIT", value_name = "REQUESTS", default_value_t = 60, value_parser = clap::value_parser!(u32).range(0..=MAX_LIMIT))]
    pub token_limit: u32,
    /// Windows of whole networks, as multiples of a client's limits: NETWORK/PREFIX=FACTOR, comma-separated, with ipv4 or ipv6 as NETWORK; none switches them off
    #[arg(long, env = "HANDBILL_NETWORK_LIMITS", value_name = "LIMITS", default_value = "ipv6/56=8,ipv6/48=64,ipv6/32=1024", value_parser = NetworkLimits::from_str)]
    pub network_limits: NetworkLimits,
    /// Networks whose clients have other limits, as CIDR=CREATES/EDITS, comma-separated or repeated; the smallest network that contains a client counts. CIDR=CREATES/EDITS:CREATES/EDITS also limits each of the subjects that the network's requests name [default: none]
    #[arg(long, env = "HANDBILL_LIMIT_TIER", value_name = "CIDR=N/N,…", value_delimiter = ',', value_parser = LimitTier::parse)]
    pub limit_tier: Vec<LimitTier>,
    /// The header in which the networks of --limit-tier name a subject: one of those who share an address. Their calls of tools may name it as openai/subject in _meta [default: none]
    #[arg(long, env = "HANDBILL_LIMIT_SUBJECT_HEADER", value_name = "NAME")]
    pub limit_subject_header: Option<HeaderName>,
    /// Previews that a client may ask for within the window; a preview publishes nothing; 0 switches the limit off
    #[arg(long, env = "HANDBILL_PREVIEW_LIMIT", value_name = "REQUESTS", default_value_t = 600, value_parser = clap::value_parser!(u32).range(0..=MAX_LIMIT))]
    pub preview_limit: u32,
    /// The window of every limit, in whole seconds
    #[arg(long, env = "HANDBILL_RATE_WINDOW", value_name = "DURATION", default_value = "1h", value_parser = window)]
    pub rate_window: Duration,
}

impl RateLimitSettings {
    /// The quotas that these settings describe.
    pub fn quotas(&self) -> Quotas {
        let quota = |limit| (limit > 0).then_some(Quota { limit, window: self.rate_window });
        Quotas {
            create: quota(self.create_limit),
            edit: quota(self.edit_limit),
            token: quota(self.token_limit),
            preview: quota(self.preview_limit),
        }
    }
}

/// A window that the `RateLimit-Policy` field can express: that field counts whole seconds.
fn window(text: &str) -> Result<Duration, String> {
    let window = humantime::parse_duration(text).map_err(|error| error.to_string())?;
    let is_whole = window.subsec_nanos() == 0;
    if is_whole && (Duration::from_secs(1)..=MAX_WINDOW).contains(&window) {
        Ok(window)
    } else {
        Err("give whole seconds, from 1s to 31days".to_owned())
    }
}

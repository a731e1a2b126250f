//! The state that all handlers share.

use crate::api::request::client_addr::TrustedProxies;
use crate::domain::origin::Origin;
use crate::http::coding::Compressor;
use crate::http::site::assets::short_hash;
use crate::service::PageService;

/// The state that all handlers share.
pub struct Http {
    /// The service that does the work.
    pub(super) service: PageService,
    /// The origin of every public address.
    pub(super) base_url: Origin,
    /// The proxies whose forwarding headers are trusted.
    pub(super) proxies: TrustedProxies,
    /// A hash of `base_url` for entity tags. A page contains its own address, so its tag must change with the address.
    pub(super) origin_tag: String,
    /// Compresses pages.
    pub(super) compressor: Compressor,
}

impl Http {
    /// The state of a service whose addresses begin with `base_url`.
    pub fn new(service: PageService, base_url: Origin, proxies: TrustedProxies) -> Self {
        let origin_tag = short_hash([base_url.as_str().as_bytes()]);
        Self { service, base_url, proxies, origin_tag, compressor: Compressor::new() }
    }
}

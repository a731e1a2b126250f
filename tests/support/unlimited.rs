//! A service in this process that limits nobody. The fuzz target `authorization` uses this file too.

use std::sync::Arc;

use axum::Router;
use handbill::app::{Deps, PublicSettings, public};
use handbill_pages::ports::page_store::PageStore;
use handbill_pages::values::origin::Origin;

/// The public service over `store`, at `https://pages.example`.
pub(crate) fn front(store: Arc<dyn PageStore>, deps: &Deps) -> Router {
    let base_url = Origin::parse("https://pages.example").unwrap();
    public(store, PublicSettings::open(base_url), deps)
}

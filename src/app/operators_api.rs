//! Puts the operators' API together.

use std::sync::Arc;

use axum::Router;
use tokio::runtime::Handle;

use super::deps::Deps;
use crate::operators::guard::{Guard, TokenFile};
use crate::operators::{self, OperatorsApi};
use crate::ports::audit_log::AuditLog;
use crate::ports::creates_switch::CreatesSwitch;
use crate::ports::page_scan::PageScan;
use crate::ports::page_store::PageStore;
use crate::service::{Operators, PublishingPolicy};
use crate::telemetry::logs::LogFilter;

/// The parts that the operators' routes work on.
pub struct Operated {
    /// The service's own store, with all that is in front of it.
    pub store: Arc<dyn PageStore>,
    /// The list of what operators did.
    pub audit: Arc<dyn AuditLog>,
    /// The records one after another.
    pub scan: Arc<dyn PageScan>,
    pub switch: Arc<dyn CreatesSwitch>,
    /// The policy that the service asks.
    pub policy: PublishingPolicy,
    pub log: LogFilter,
}

/// The operators' routes behind the token of `token_file`. Their work is done in the runtime of the caller.
pub fn operators_router(
    Operated { store, audit, scan, switch, policy, log }: Operated,
    token_file: TokenFile,
    deps: &Deps,
) -> Router {
    let Deps { clock, random, metrics, .. } = deps;
    let operators = Operators::new(store, audit, Arc::clone(&scan), Arc::clone(clock), random.clone());
    let api = OperatorsApi { operators, records: scan, switch, policy, log, metrics: Arc::clone(metrics) };
    operators::router(api, Guard::new(token_file, Arc::clone(metrics), Arc::clone(clock)), Handle::current())
}

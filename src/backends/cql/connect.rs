//! Reaching the cluster: keeps trying until it is there and its schema is up to date.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use scylla::client::session::Session;
use scylla::errors::PrepareError;
use thiserror::Error;
use tokio::time::{Instant, sleep};

use super::migrate::schema::{self, MIGRATIONS, SchemaError, SchemaState};
use super::session::{self, CqlTimeouts, SettingsError};
use super::store::CqlStore;
use crate::config::CqlSettings;
use crate::domain::page::{Page, PageVersion};
use crate::domain::slug::Slug;
use crate::ports::page_store::{CasResult, InsertResult, Lookup, PageStore, Record, StoreError};
use crate::ports::random::Random;

/// How long to wait before the cluster or its schema is looked at again.
pub(super) const LOOK_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// Why the store cannot be used. Each is for the operator to put right; a cluster that is out of reach is waited for.
#[derive(Debug, Error)]
pub enum ConnectError {
    /// A setting cannot be used.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// The schema was not brought up to date in time.
    #[error("the schema is {state:?} after --schema-wait: run `handbill migrate` with this version")]
    SchemaWait {
        /// How it stands.
        state: SchemaState,
    },
    /// A later program has taken away from the schema what this one needs.
    #[error("the schema was contracted by a later version of Handbill: run that version")]
    SchemaTooNew,
    /// The schema is not this program's.
    #[error(transparent)]
    Schema(SchemaError),
    /// A statement on pages is refused although the schema is up to date.
    #[error("the database refuses a statement on pages: {0}")]
    Prepare(#[from] PrepareError),
}

/// What connecting waits for, as `/readyz` names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// No node answers; why the last one did not.
    OutOfReach(String),
    /// The schema is missing or older than this program.
    Schema(SchemaState),
    /// Nothing: the store can be used.
    Connected,
}

impl CqlStore {
    /// A store on the cluster of `settings`. Waits without limit for the cluster, and for `--schema-wait` for its schema,
    /// and tells `progress` whenever what it waits for changes.
    pub async fn connect(
        settings: &CqlSettings,
        limits: CqlTimeouts,
        random: Random,
        progress: impl Fn(&Progress) + Send,
    ) -> Result<Self, ConnectError> {
        let mut told = Told { progress, last: None };
        let session = Arc::new(reach(settings, &mut told).await?);
        await_schema(&session, settings, &mut told).await?;
        let store = prepare(&session, settings, limits, &random, &mut told).await?;
        told.tell(Progress::Connected);
        Ok(store)
    }
}

/// Tells each change once.
struct Told<F> {
    progress: F,
    last: Option<Progress>,
}

impl<F: Fn(&Progress)> Told<F> {
    fn tell(&mut self, progress: Progress) {
        if self.last.as_ref() != Some(&progress) {
            (self.progress)(&progress);
            self.last = Some(progress);
        }
    }
}

async fn reach<F: Fn(&Progress)>(settings: &CqlSettings, told: &mut Told<F>) -> Result<Session, ConnectError> {
    loop {
        // Built anew each time, so that a password or certificate that was put right is read again.
        match session::builder(settings)?.build().await {
            Ok(session) => {
                session::settle_datacenter(&session, settings).await?;
                return Ok(session);
            }
            Err(error) => told.tell(Progress::OutOfReach(error.to_string())),
        }
        sleep(LOOK_AGAIN_AFTER).await;
    }
}

async fn await_schema<F: Fn(&Progress)>(
    session: &Session,
    settings: &CqlSettings,
    told: &mut Told<F>,
) -> Result<(), ConnectError> {
    let started = Instant::now();
    loop {
        match schema::check(session, &settings.scylla_keyspace, MIGRATIONS).await {
            Ok(SchemaState::Current | SchemaState::NewerExpanded) => return Ok(()),
            Ok(SchemaState::NewerContracted) => return Err(ConnectError::SchemaTooNew),
            Ok(state) if started.elapsed() >= settings.schema_wait => return Err(ConnectError::SchemaWait { state }),
            Ok(state) => told.tell(Progress::Schema(state)),
            Err(error @ SchemaError::Changed { .. }) => return Err(ConnectError::Schema(error)),
            Err(error) => told.tell(Progress::OutOfReach(error.to_string())),
        }
        sleep(LOOK_AGAIN_AFTER).await;
    }
}

/// The store once its statements are prepared, for which a node must be in reach.
async fn prepare<F: Fn(&Progress)>(
    session: &Arc<Session>,
    settings: &CqlSettings,
    limits: CqlTimeouts,
    random: &Random,
    told: &mut Told<F>,
) -> Result<CqlStore, ConnectError> {
    let started = Instant::now();
    loop {
        // The keyspace may be younger than the session, which must know it to send requests to the right nodes.
        if let Err(error) = session.refresh_metadata().await {
            told.tell(Progress::OutOfReach(error.to_string()));
        }
        let prepared = CqlStore::on(Arc::clone(session), &settings.scylla_keyspace, random.clone(), limits).await;
        match prepared {
            Ok(store) => return Ok(store),
            Err(error) if started.elapsed() >= settings.schema_wait => return Err(error),
            Err(error) => told.tell(Progress::OutOfReach(error.to_string())),
        }
        sleep(LOOK_AGAIN_AFTER).await;
    }
}

/// A store that is not there yet: out of reach until it is [set](PendingStore::set).
#[derive(Default)]
pub struct PendingStore(OnceLock<CqlStore>);

/// The cluster was not reached since the process started.
#[derive(Debug, Error)]
#[error("the database has not been reached yet")]
struct NotReached;

impl PendingStore {
    /// Puts `store` in its place. Only the first one counts.
    pub fn set(&self, store: CqlStore) {
        // One that is there already serves as well.
        let _ = self.0.set(store);
    }

    /// Whether the cluster has been reached.
    pub fn is_connected(&self) -> bool {
        self.0.get().is_some()
    }

    fn store(&self) -> Result<&CqlStore, StoreError> {
        self.0.get().ok_or_else(|| StoreError::Unavailable(Box::new(NotReached)))
    }
}

#[async_trait]
impl PageStore for PendingStore {
    async fn insert_if_absent(&self, page: Arc<Page>) -> Result<InsertResult, StoreError> {
        self.store()?.insert_if_absent(page).await
    }

    async fn lookup(&self, slug: &Slug) -> Result<Lookup, StoreError> {
        self.store()?.lookup(slug).await
    }

    async fn compare_and_set(&self, expected: PageVersion, next: Record) -> Result<CasResult, StoreError> {
        self.store()?.compare_and_set(expected, next).await
    }
}

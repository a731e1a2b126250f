//! Connecting to the cluster: tries until the cluster answers and its schema is up to date.

use std::sync::Arc;

use parking_lot::Mutex;
use scylla::client::session::Session;
use scylla::errors::PrepareError;
use thiserror::Error;
use tokio::time::{Instant, sleep, timeout};

use super::copies;
use super::migrate::schema::{self, MIGRATIONS, SchemaError, SchemaState};
use super::server_checks::findings;
use super::session::{self, CqlTimeouts, RETRY_INTERVAL};
use super::settings_error::SettingsError;
use super::store::CqlStore;
use crate::ports::random::Random;
use crate::settings::CqlSettings;

/// Why the store cannot be used. The operator must fix each of these. A cluster that does not answer is not one of
/// them, because connecting waits for it.
#[derive(Debug, Error)]
pub enum ConnectError {
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// The schema was not brought up to date in time.
    #[error("{state} after --schema-wait: run `handbill migrate` with this version")]
    SchemaWait {
        /// How the schema in the database compares with this program's schema.
        state: SchemaState,
    },
    /// A later program removed something from the schema.
    #[error("the schema was contracted by a later version of Handbill: run that version")]
    SchemaTooNew,
    /// The schema cannot be compared with this program's schema.
    #[error(transparent)]
    Schema(SchemaError),
    /// The database refuses a statement on pages although the schema is up to date.
    #[error("the database refuses a statement on pages: {0}")]
    Prepare(#[from] PrepareError),
}

/// Why a command cannot use the cluster.
#[derive(Debug, Error)]
pub enum ReachError {
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error("the cluster was not reached within --schema-wait: {0}")]
    OutOfReach(String),
}

/// The thing that connecting waits for, as `/readyz` reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// No node answers. Contains the last error.
    OutOfReach(String),
    Schema(SchemaState),
    /// Nothing: the store can be used.
    Connected,
}

impl CqlStore {
    /// A store on the cluster of `settings`. Waits without limit for the cluster, and up to `--schema-wait` for its
    /// schema. Calls `progress` at each change of [`Progress`].
    pub async fn connect(
        settings: &CqlSettings,
        timeouts: CqlTimeouts,
        random: Random,
        progress: impl Fn(&Progress) + Send,
    ) -> Result<Self, ConnectError> {
        let mut reporter = ProgressReporter { progress, last: None };
        let (session, datacenter) = session::connect(settings, |error| {
            reporter.report(Progress::OutOfReach(error.to_string()));
            Ok::<_, ConnectError>(())
        })
        .await?;
        session::check_rack(&session, &datacenter, settings)?;
        let session = Arc::new(session);
        await_schema(&session, settings, &datacenter, &mut reporter).await?;
        let store = prepare(&session, settings, &datacenter, timeouts, &random, &mut reporter).await?;
        for finding in findings(&session, &settings.keyspace).await {
            tracing::warn!("{finding}");
        }
        reporter.report(Progress::Connected);
        Ok(store)
    }

    /// The store of a command, which waits up to `--schema-wait` for the cluster and its schema.
    pub async fn reach(settings: &CqlSettings) -> Result<Self, ReachError> {
        let waiting = Mutex::new("it did not answer".to_owned());
        let report = |progress: &Progress| {
            if let Progress::OutOfReach(reason) = progress {
                reason.clone_into(&mut waiting.lock());
            }
        };
        let connecting = Self::connect(settings, CqlTimeouts::OF_COMMANDS, Random::System, report);
        match timeout(settings.schema_wait, connecting).await {
            Ok(reached) => Ok(reached?),
            Err(_) => Err(ReachError::OutOfReach(waiting.into_inner())),
        }
    }
}

/// Reports each change once.
struct ProgressReporter<F> {
    progress: F,
    last: Option<Progress>,
}

impl<F: Fn(&Progress)> ProgressReporter<F> {
    fn report(&mut self, progress: Progress) {
        if self.last.as_ref() != Some(&progress) {
            (self.progress)(&progress);
            self.last = Some(progress);
        }
    }
}

async fn await_schema<F: Fn(&Progress)>(
    session: &Session,
    settings: &CqlSettings,
    datacenter: &str,
    reporter: &mut ProgressReporter<F>,
) -> Result<(), ConnectError> {
    let started = Instant::now();
    loop {
        match copies::datacenters(session, &settings.keyspace).await {
            Ok(found) => copies::check(&settings.keyspace, datacenter, found.as_ref())?,
            Err(error) => {
                reporter.report(Progress::OutOfReach(error.to_string()));
                sleep(RETRY_INTERVAL).await;
                continue;
            }
        }
        match schema::check(session, &settings.keyspace, MIGRATIONS).await {
            Ok(SchemaState::Current | SchemaState::NewerExpanded) => return Ok(()),
            Ok(SchemaState::NewerContracted) => return Err(ConnectError::SchemaTooNew),
            Ok(state) if started.elapsed() >= settings.schema_wait => return Err(ConnectError::SchemaWait { state }),
            Ok(state) => reporter.report(Progress::Schema(state)),
            Err(error @ SchemaError::Changed { .. }) => return Err(ConnectError::Schema(error)),
            Err(error) => reporter.report(Progress::OutOfReach(error.to_string())),
        }
        sleep(RETRY_INTERVAL).await;
    }
}

/// Prepares the statements and returns the store. This needs a node that answers.
async fn prepare<F: Fn(&Progress)>(
    session: &Arc<Session>,
    settings: &CqlSettings,
    datacenter: &str,
    timeouts: CqlTimeouts,
    random: &Random,
    reporter: &mut ProgressReporter<F>,
) -> Result<CqlStore, ConnectError> {
    let started = Instant::now();
    loop {
        // The keyspace may have been created after the session began. The session must know the keyspace to send
        // requests to the right nodes.
        if let Err(error) = session.refresh_metadata().await {
            reporter.report(Progress::OutOfReach(error.to_string()));
        }
        let keyspace = &settings.keyspace;
        let prepared = async {
            let store = CqlStore::on(Arc::clone(session), keyspace, random.clone(), timeouts).await?;
            if let Some(rack) = &settings.rack {
                store.statements.prefer_rack(datacenter, rack);
            }
            // `migrate` writes it last.
            let is_migrating = matches!(store.slug_secret_if_made().await, Ok(None));
            Ok::<_, PrepareError>((store, is_migrating))
        };
        match prepared.await {
            Ok((_, true)) if started.elapsed() < settings.schema_wait => {
                reporter.report(Progress::Schema(SchemaState::Older));
            }
            Ok((store, _)) => return Ok(store),
            Err(error) if started.elapsed() >= settings.schema_wait => return Err(error.into()),
            Err(error) => reporter.report(Progress::OutOfReach(error.to_string())),
        }
        sleep(RETRY_INTERVAL).await;
    }
}

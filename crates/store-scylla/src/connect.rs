//! Connects to the cluster: tries until it answers with a current schema.

use std::sync::Arc;

use handbill_pages::ports::{clock::SystemClock, random::Random};
use scylla::client::session::Session;
use thiserror::Error;
use tokio::time::{Instant, sleep, timeout};

use super::checks;
use super::schema::{self, MIGRATIONS, SchemaError, SchemaState};
use super::session::{self, Limits, NO_ANSWER, RETRY_INTERVAL};
use super::settings::{ScyllaSettings, SettingsError};
use super::store::{CONSISTENCY, DATACENTER, SECRET, ScyllaStore};

/// Why the store cannot connect, for the operator to fix. Connecting waits for a cluster that does not answer.
#[derive(Debug, Error)]
pub enum ConnectError {
    #[error(transparent)]
    Settings(#[from] SettingsError),
    #[error("{state} after --schema-wait: run `handbill migrate` with this version")]
    SchemaWait { state: SchemaState },
    #[error(transparent)]
    Schema(#[from] SchemaError),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    OutOfReach(String),
    Schema(SchemaState),
    Connected,
}

impl ScyllaStore {
    /// Connects. Waits for ever for the cluster, and up to `--schema-wait` for its schema.
    pub async fn connect(
        &self,
        settings: &ScyllaSettings,
        progress: impl Fn(&Progress) + Send,
    ) -> Result<(), ConnectError> {
        let mut last = None;
        let mut report = |now: Progress| {
            if last.as_ref() != Some(&now) {
                progress(&now);
                last = Some(now);
            }
        };
        let silence = session::KEEPALIVE_TIMEOUT;
        let connecting = session::connect(settings, silence, None, |reason| report(Progress::OutOfReach(reason)));
        let (session, datacenter) = connecting.await?;
        let session = Arc::new(session);
        let started = Instant::now();
        loop {
            match self.try_on(&session, settings, datacenter.as_deref()).await {
                Ok(()) => break,
                Err(ConnectError::Schema(SchemaError::Unreadable(cause))) => {
                    report(Progress::OutOfReach(cause.to_string()));
                }
                Err(ConnectError::SchemaWait { state }) if started.elapsed() < settings.schema_wait => {
                    report(Progress::Schema(state));
                }
                Err(error) => return Err(error),
            }
            sleep(RETRY_INTERVAL).await;
        }
        for finding in checks::findings(&session, &settings.keyspace).await {
            tracing::warn!("{finding}");
        }
        report(Progress::Connected);
        Ok(())
    }

    /// [`SchemaError::Unreadable`] and [`ConnectError::SchemaWait`] may pass.
    async fn try_on(
        &self,
        session: &Arc<Session>,
        settings: &ScyllaSettings,
        datacenter: Option<&str>,
    ) -> Result<(), ConnectError> {
        let keyspace = settings.keyspace.as_str();
        let found = checks::datacenters(session, keyspace).await?;
        checks::check_copies(settings, datacenter, found.as_ref(), true)?;
        match schema::check(session, keyspace, MIGRATIONS).await? {
            SchemaState::Current | SchemaState::NewerExpanded => {}
            state => return Err(ConnectError::SchemaWait { state }),
        }
        // A session that began before the keyspace must learn it, to ask the right nodes.
        session.refresh_metadata().await.map_err(SchemaError::unreadable)?;
        let consistency = schema::setting(session, keyspace, CONSISTENCY).await?;
        let recorded = schema::setting(session, keyspace, DATACENTER).await?;
        // `migrate` writes the secret last.
        let secret = schema::setting(session, keyspace, SECRET).await?;
        let (Some(consistency), Some(recorded), Some(_)) = (consistency, recorded, secret) else {
            return Err(ConnectError::SchemaWait { state: SchemaState::Older });
        };
        checks::check_consistency(settings, &consistency)?;
        checks::check_datacenter(settings, datacenter, &recorded)?;
        if checks::repairs_late(session, keyspace).await? {
            return Err(SettingsError::ReadRepair { keyspace: keyspace.to_owned() }.into());
        }
        let prepared = self.prepare(Arc::clone(session), keyspace, settings.consistency).await;
        Ok(prepared.map_err(SchemaError::unreadable)?)
    }

    /// For a command, which waits up to `--schema-wait` for the cluster too.
    pub async fn reach(settings: &ScyllaSettings) -> Result<Self, ConnectError> {
        let store = Self::new(Limits::OF_COMMANDS, Random::System, Arc::new(SystemClock::new()));
        let connecting = store.connect(settings, |progress| tracing::info!(?progress, "connecting with the database"));
        let connecting = timeout(settings.schema_wait, connecting).await;
        connecting.unwrap_or_else(|_| Err(SettingsError::OutOfReach(NO_ANSWER.to_owned()).into())).map(|()| store)
    }
}

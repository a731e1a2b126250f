//! `handbill migrate` on a real server.

use std::time::Duration;

use futures_util::future::join_all;
use handbill_pages::ports::random::Random;
use handbill_store_scylla::schema::{MIGRATIONS, Migration, Phase, SchemaState, check};
use handbill_store_scylla::{
    ConnectError, LOCK_WAIT, Limits, MigrateError, Report, ScyllaConsistency, ScyllaSettings, SettingsError,
    migrate_with,
};
use scylla::client::session::Session;
use scylla::value::{CqlValue, Row};

use super::server::{change_schema, datacenter, drop_keyspace, fresh, migrated_settings, session, unconnected};

const NEXT: i32 = MIGRATIONS[MIGRATIONS.len() - 1].number + 1;

const ADDS_A_COLUMN: Migration = Migration {
    number: NEXT,
    phase: Phase::Expand,
    name: "note",
    cql: "-- A note; it may be null.\nALTER TABLE pages ADD note text;\n",
};

const DROPS_THE_COLUMN: Migration =
    Migration { number: NEXT + 1, phase: Phase::Contract, name: "no_note", cql: "ALTER TABLE pages DROP note" };

async fn migrating(
    session: &Session,
    settings: &ScyllaSettings,
    migrations: &[Migration],
) -> Result<Report, MigrateError> {
    migrate_with(session, settings, Some(&datacenter(session)), migrations, LOCK_WAIT, &Random::System).await
}

fn names(migrations: &[Migration]) -> Vec<String> {
    migrations.iter().map(|migration| format!("{:04} {}", migration.number, migration.name)).collect()
}

fn with(more: &[Migration]) -> Vec<Migration> {
    [MIGRATIONS, more].concat()
}

/// The columns and options of every table of `keyspace`, without the name of the keyspace.
async fn shape(session: &Session, keyspace: &str) -> Vec<String> {
    let columns = "table_name, column_name, kind, position, type, clustering_order";
    let options = "table_name, comment, speculative_retry, gc_grace_seconds, default_time_to_live";
    let mut lines = Vec::new();
    for (columns, table) in [(columns, "columns"), (options, "tables")] {
        let cql = format!("SELECT {columns} FROM system_schema.{table} WHERE keyspace_name = ?");
        let answer = session.query_unpaged(cql, (keyspace,)).await.unwrap().into_rows_result().unwrap();
        lines.extend(answer.rows::<Row>().unwrap().map(|row| format!("{:?}", row.unwrap().columns)));
    }
    lines
}

fn is_scylla(session: &Session) -> bool {
    session.get_cluster_state().get_nodes_info().iter().any(|node| node.sharder().is_some())
}

#[tokio::test]
async fn the_schema_has_the_options_that_the_promises_need() {
    let (session, settings) = fresh().await;
    let report = migrating(&session, &settings, MIGRATIONS).await.unwrap();
    assert!(report.made_keyspace);
    assert_eq!(report.applied, ["0001 baseline"]);
    if !is_scylla(&session) {
        // Cassandra's default; ScyllaDB repairs rows before it answers without an option.
        let cql = "SELECT read_repair FROM system_schema.tables WHERE keyspace_name = ? AND table_name = 'pages'";
        let answer = session.query_unpaged(cql, (&settings.keyspace,)).await.unwrap().into_rows_result().unwrap();
        assert_eq!(answer.single_row::<(String,)>().unwrap(), ("BLOCKING".to_owned(),));
    }
    drop_keyspace(&session, &settings.keyspace).await;
}

/// On tablets the first conditional write of a table changes the schema, which takes longer than a client waits.
#[tokio::test]
async fn no_conditional_write_of_a_client_is_the_first_of_its_table() {
    let session = session().await;
    if is_scylla(&session) {
        return;
    }
    let settings = migrated_settings().await;
    let answer = session.query_unpaged("SELECT cf_id FROM system.paxos", ()).await.unwrap().into_rows_result().unwrap();
    let written: Vec<_> = answer.rows::<(CqlValue,)>().unwrap().map(|row| row.unwrap().0).collect();
    for table in ["pages", "settings"] {
        let cql = "SELECT id FROM system_schema.tables WHERE keyspace_name = ? AND table_name = ?";
        let answer = session.query_unpaged(cql, (&settings.keyspace, table)).await.unwrap().into_rows_result().unwrap();
        let (id,) = answer.single_row::<(CqlValue,)>().unwrap();
        assert!(written.contains(&id), "{table}");
    }
    drop_keyspace(&session, &settings.keyspace).await;
}

#[tokio::test]
async fn every_statement_can_be_run_again() {
    let (session, settings) = fresh().await;
    let migrations = with(&[ADDS_A_COLUMN]);
    let first = migrating(&session, &settings, &migrations).await.unwrap();
    let before = shape(&session, &settings.keyspace).await;
    // This is as if the process had ended after each statement and before it was recorded.
    for migration in &migrations {
        let cql = "DELETE FROM schema_migrations WHERE component = 'handbill' AND number = ?";
        session.query_unpaged(cql, (migration.number,)).await.unwrap();
    }
    let second = migrating(&session, &settings, &migrations).await.unwrap();
    assert_eq!(second.applied, first.applied);
    assert_eq!(shape(&session, &settings.keyspace).await, before);
    drop_keyspace(&session, &settings.keyspace).await;
}

#[tokio::test]
async fn a_statement_that_the_server_refuses_ends_the_migration() {
    let (session, settings) = fresh().await;
    let two = "ALTER TABLE pages ADD note text; ALTER TABLE pages ADD other text;";
    for refused in [two, "ALTER TABLE nowhere ADD note text", "not CQL"] {
        let migrations = with(&[Migration { cql: refused, ..ADDS_A_COLUMN }]);
        let error = migrating(&session, &settings, &migrations).await.unwrap_err();
        assert!(matches!(error, MigrateError::Execution(_)) && !error.is_refusal(), "{refused}: {error}");
        assert_eq!(check(&session, &settings.keyspace, &migrations).await.unwrap(), SchemaState::Older, "{refused}");
    }
    drop_keyspace(&session, &settings.keyspace).await;
}

#[tokio::test]
async fn of_processes_that_migrate_at_once_one_does_it() {
    let (own_session, settings) = fresh().await;
    let migrations = with(&[ADDS_A_COLUMN]);
    let racing = (0..3).map(|_| async { migrating(&*session().await, &settings, &migrations).await.unwrap() });
    let reports = join_all(racing).await;
    let applied: Vec<String> = reports.into_iter().flat_map(|report| report.applied).collect();
    assert_eq!(applied, names(&migrations));
    drop_keyspace(&own_session, &settings.keyspace).await;
}

#[tokio::test]
async fn a_migration_that_a_crash_left_half_done_is_finished() {
    let (session, settings) = fresh().await;
    let keyspace = &settings.keyspace;
    migrating(&session, &settings, MIGRATIONS).await.unwrap();
    // This is as if the process had ended after the statement and before it was recorded.
    change_schema(&session, format!("ALTER TABLE {keyspace}.pages ADD note text")).await;
    let report = migrating(&session, &settings, &with(&[ADDS_A_COLUMN])).await.unwrap();
    assert_eq!(report.applied, names(&[ADDS_A_COLUMN]));
    change_schema(&session, format!("ALTER TABLE {keyspace}.pages DROP note")).await;
    let report = migrating(&session, &settings, &with(&[ADDS_A_COLUMN, DROPS_THE_COLUMN])).await.unwrap();
    assert_eq!(report.applied, names(&[DROPS_THE_COLUMN]));
    drop_keyspace(&session, &settings.keyspace).await;
}

#[tokio::test]
async fn a_keyspace_that_the_operator_made_is_used_as_it_is() {
    let (session, mut settings) = fresh().await;
    settings.replication_factor = 3;
    let keyspace = &settings.keyspace;
    let replication = format!("{{'class': 'NetworkTopologyStrategy', '{}': 1}}", datacenter(&session));
    let made = format!("CREATE KEYSPACE {keyspace} WITH replication = {replication} AND durable_writes = false");
    change_schema(&session, made).await;
    assert!(!migrating(&session, &settings, MIGRATIONS).await.unwrap().made_keyspace);
    let cql = "SELECT durable_writes FROM system_schema.keyspaces WHERE keyspace_name = ?";
    let answer = session.query_unpaged(cql, (keyspace,)).await.unwrap().into_rows_result().unwrap();
    assert_eq!(answer.single_row::<(bool,)>().unwrap(), (false,));
    drop_keyspace(&session, keyspace).await;
}

#[tokio::test]
async fn the_lock_of_a_process_that_died_ends_by_itself() {
    let (session, settings) = fresh().await;
    let keyspace = &settings.keyspace;
    migrating(&session, &settings, MIGRATIONS).await.unwrap();
    let dead = async |ttl: u32| {
        let cql = format!(
            "UPDATE {keyspace}.settings USING TTL {ttl} SET value = 'dead' WHERE name = 'lock' IF value = null"
        );
        session.query_unpaged(cql, ()).await.unwrap();
    };
    let next = with(&[ADDS_A_COLUMN]);
    let migrating = async |max_wait| {
        migrate_with(&session, &settings, Some(&datacenter(&session)), &next, max_wait, &Random::System).await
    };
    dead(3600).await;
    let refused = migrating(Duration::ZERO).await.unwrap_err();
    assert!(matches!(refused, MigrateError::Locked), "{refused}");
    let free = format!("DELETE FROM {keyspace}.settings WHERE name = 'lock' IF EXISTS");
    session.query_unpaged(free, ()).await.unwrap();
    dead(2).await;
    assert_eq!(migrating(Duration::from_hours(1)).await.unwrap().applied, names(&[ADDS_A_COLUMN]));
    drop_keyspace(&session, &settings.keyspace).await;
}

#[tokio::test]
async fn a_keyspace_is_migrated_with_its_own_consistency_alone() {
    let (session, settings) = fresh().await;
    let global = ScyllaSettings { consistency: ScyllaConsistency::Global, ..settings.clone() };
    let refused = migrating(&session, &global, MIGRATIONS).await.unwrap_err();
    assert!(matches!(refused, MigrateError::Settings(SettingsError::NoKeyspace(_))), "{refused}");
    migrating(&session, &settings, MIGRATIONS).await.unwrap();
    let refused = migrating(&session, &global, MIGRATIONS).await.unwrap_err();
    assert!(matches!(refused, MigrateError::Settings(SettingsError::OtherConsistency { .. })), "{refused}");
    let connecting = unconnected(Limits::OF_REQUESTS);
    let refused = connecting.connect(&global, |_| {}).await.unwrap_err();
    assert!(matches!(refused, ConnectError::Settings(SettingsError::OtherConsistency { .. })), "{refused}");
    drop_keyspace(&session, &settings.keyspace).await;
}

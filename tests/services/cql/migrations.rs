//! `handbill migrate` on a real server.

use std::time::Duration;

use futures_util::future::join_all;
use handbill_core::ports::random::Random;
use handbill_store_cql::migrate::schema::{MIGRATIONS, Migration, Phase, SchemaError, SchemaState, Server, check};
use handbill_store_cql::{CqlSettings, LeaseError, LeaseTimes, MigrateError, Report, enter_keyspace, migrate_with};
use scylla::client::session::Session;
use scylla::value::{CqlValue, Row};
use scylla_proxy::{Condition, RequestOpcode, RequestReaction, RequestRule, example_db_errors};

use super::server::{
    change_schema, datacenter, drop_keyspace, fresh_keyspace, migrated_settings, proxied_session, session, settings,
};

/// The number of the next migration.
const NEXT: i32 = MIGRATIONS[MIGRATIONS.len() - 1].number + 1;

const ADDS_A_COLUMN: Migration = Migration {
    number: NEXT,
    phase: Phase::Expand,
    name: "note",
    only_on: None,
    cql: "-- A note; it may be null.\nALTER TABLE pages ADD note text;\n",
};

const DROPS_THE_COLUMN: Migration = Migration {
    number: NEXT + 1,
    phase: Phase::Contract,
    name: "no_note",
    only_on: None,
    cql: "ALTER TABLE pages DROP note",
};

async fn migrating(
    session: &Session,
    settings: &CqlSettings,
    migrations: &[Migration],
) -> Result<Report, MigrateError> {
    let times = LeaseTimes::default();
    migrate_with(session, settings, &datacenter(session), migrations, times, &Random::System).await
}

/// The migrations as a report names them.
fn names(migrations: &[Migration]) -> Vec<String> {
    migrations.iter().map(|migration| format!("{:04} {}", migration.number, migration.name)).collect()
}

fn with(more: &[Migration]) -> Vec<Migration> {
    [MIGRATIONS, more].concat()
}

/// The columns and options of every table of `keyspace`, without the name of the keyspace.
async fn shape(session: &Session, keyspace: &str) -> Vec<String> {
    let columns = "table_name, column_name, kind, position, type, clustering_order";
    let options = "table_name, comment, read_repair, speculative_retry, gc_grace_seconds, default_time_to_live";
    let mut lines = Vec::new();
    for (columns, table) in [(columns, "columns"), (options, "tables")] {
        let cql = format!("SELECT {columns} FROM system_schema.{table} WHERE keyspace_name = ?");
        let answer = session.query_unpaged(cql, (keyspace,)).await.unwrap().into_rows_result().unwrap();
        lines.extend(answer.rows::<Row>().unwrap().map(|row| format!("{:?}", row.unwrap().columns)));
    }
    lines
}

/// Whether the server is ScyllaDB.
fn is_scylla(session: &Session) -> bool {
    session.get_cluster_state().get_nodes_info().iter().any(|node| node.sharder().is_some())
}

#[tokio::test]
async fn all_migrations_add_up_to_the_schema_that_is_shown() {
    let session = session().await;
    let (migrated, shown) = (fresh_keyspace(), fresh_keyspace());
    let report = migrating(&session, &settings(&migrated, &[]), MIGRATIONS).await.unwrap();
    assert!(report.made_keyspace);
    assert_eq!(report.applied, ["0001 baseline"]);

    let replication = format!("{{'class': 'NetworkTopologyStrategy', '{}': 1}}", datacenter(&session));
    change_schema(&session, format!("CREATE KEYSPACE {shown} WITH replication = {replication}")).await;
    session.use_keyspace(&shown, false).await.unwrap();
    // Apart from comments, the schema has semicolons only at the ends of statements: none of its strings has one.
    let schema: String = include_str!("../../../migrations/schema.cql")
        .lines()
        .filter(|line| !line.trim_start().starts_with("--"))
        .collect::<Vec<_>>()
        .join("\n");
    for statement in schema.split(';').filter(|statement| !statement.trim().is_empty()) {
        change_schema(&session, statement).await;
    }
    assert_eq!(shape(&session, &migrated).await, shape(&session, &shown).await);
    if !is_scylla(&session) {
        // The store's promises need this option, which is Cassandra's default.
        let cql = "SELECT read_repair FROM system_schema.tables WHERE keyspace_name = ? AND table_name = 'pages'";
        let answer = session.query_unpaged(cql, (&migrated,)).await.unwrap().into_rows_result().unwrap();
        assert_eq!(answer.single_row::<(String,)>().unwrap(), ("BLOCKING".to_owned(),));
    }
    drop_keyspace(&session, &migrated).await;
    drop_keyspace(&session, &shown).await;
}

#[tokio::test]
async fn migrating_again_changes_nothing() {
    let session = session().await;
    let keyspace = fresh_keyspace();
    let settings = settings(&keyspace, &[]);
    migrating(&session, &settings, MIGRATIONS).await.unwrap();
    let before = shape(&session, &keyspace).await;
    let report = migrating(&session, &settings, MIGRATIONS).await.unwrap();
    assert_eq!(report, Report { keyspace: keyspace.clone(), made_keyspace: false, applied: Vec::new() });
    assert_eq!(shape(&session, &keyspace).await, before);
    drop_keyspace(&session, &keyspace).await;
}

/// Also where that needs a majority of all nodes, or a right that the login has lost.
#[tokio::test]
async fn a_keyspace_that_is_up_to_date_gets_no_change_of_the_schema() {
    let settings = migrated_settings().await;
    let (session, mut proxy) = proxied_session(&settings, 1).await;
    let creates = Condition::RequestOpcode(RequestOpcode::Query)
        .and(Condition::BodyContainsCaseSensitive(Box::from(*b"CREATE TABLE")));
    let refuse = RequestReaction::forge_with_error(example_db_errors::unauthorized());
    proxy.running_nodes[0].change_request_rules(Some(vec![RequestRule(creates, refuse)]));
    let report = migrating(&session, &settings, MIGRATIONS).await.unwrap();
    assert!(report.applied.is_empty(), "{report}");
    drop_keyspace(&session, &settings.keyspace).await;
    proxy.finish().await.unwrap();
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
    for table in ["pages", "creates", "schema_lock", "schema_migrations", "slug_secret"] {
        let cql = "SELECT id FROM system_schema.tables WHERE keyspace_name = ? AND table_name = ?";
        let answer = session.query_unpaged(cql, (&settings.keyspace, table)).await.unwrap().into_rows_result().unwrap();
        let (id,) = answer.single_row::<(CqlValue,)>().unwrap();
        assert!(written.contains(&id), "{table}");
    }
    drop_keyspace(&session, &settings.keyspace).await;
}

#[tokio::test]
async fn every_statement_can_be_run_again() {
    let session = session().await;
    let keyspace = fresh_keyspace();
    let settings = settings(&keyspace, &[]);
    let migrations = with(&[ADDS_A_COLUMN]);
    let first = migrating(&session, &settings, &migrations).await.unwrap();
    let before = shape(&session, &keyspace).await;
    // This is as if the process had ended after each statement and before it was recorded.
    for migration in &migrations {
        let cql = "DELETE FROM schema_migrations WHERE component = 'handbill' AND number = ? IF EXISTS";
        session.query_unpaged(cql, (migration.number,)).await.unwrap();
    }
    let second = migrating(&session, &settings, &migrations).await.unwrap();
    assert_eq!(second.applied, first.applied);
    assert_eq!(shape(&session, &keyspace).await, before);
    drop_keyspace(&session, &keyspace).await;
}

#[tokio::test]
async fn a_statement_for_the_other_server_is_left_out_and_counts_as_applied() {
    let session = session().await;
    let keyspace = fresh_keyspace();
    let (other, same) =
        if is_scylla(&session) { (Server::Cassandra, Server::Scylla) } else { (Server::Scylla, Server::Cassandra) };
    let left_out = Migration { number: NEXT, only_on: Some(other), cql: "not CQL", ..ADDS_A_COLUMN };
    let run = Migration { number: NEXT + 1, only_on: Some(same), ..ADDS_A_COLUMN };
    let migrations = with(&[left_out, run]);
    migrating(&session, &settings(&keyspace, &[]), &migrations).await.unwrap();
    assert_eq!(check(&session, &keyspace, &migrations).await.unwrap(), SchemaState::Current);
    assert!(shape(&session, &keyspace).await.iter().any(|line| line.contains("Text(\"note\")")));
    drop_keyspace(&session, &keyspace).await;
}

#[tokio::test]
async fn a_statement_that_the_server_refuses_ends_the_migration_and_is_not_recorded() {
    let session = session().await;
    let keyspace = fresh_keyspace();
    let settings = settings(&keyspace, &[]);
    let two = "ALTER TABLE pages ADD note text; ALTER TABLE pages ADD other text;";
    for refused in [two, "ALTER TABLE nowhere ADD note text", "not CQL"] {
        let migrations = with(&[Migration { cql: refused, ..ADDS_A_COLUMN }]);
        let error = migrating(&session, &settings, &migrations).await.unwrap_err();
        assert!(matches!(error, MigrateError::Execution(_)), "{refused}: {error}");
        assert_eq!(check(&session, &keyspace, &migrations).await.unwrap(), SchemaState::Older, "{refused}");
    }
    drop_keyspace(&session, &keyspace).await;
}

#[tokio::test]
async fn of_processes_that_migrate_at_once_one_does_it_and_all_succeed() {
    let keyspace = fresh_keyspace();
    let settings = settings(&keyspace, &[]);
    let migrations = with(&[ADDS_A_COLUMN]);
    let racing = (0..3).map(|_| async { migrating(&*session().await, &settings, &migrations).await.unwrap() });
    let reports = join_all(racing).await;
    let applied: Vec<String> = reports.into_iter().flat_map(|report| report.applied).collect();
    assert_eq!(applied, names(&migrations));
    drop_keyspace(&*session().await, &keyspace).await;
}

#[tokio::test]
async fn a_keyspace_that_another_process_is_only_just_making_is_waited_for() {
    let (waiting, making) = (session().await, session().await);
    let keyspace = fresh_keyspace();
    let refused = enter_keyspace(&waiting, &keyspace, Duration::ZERO).await;
    assert!(refused.is_err(), "there is no such keyspace");
    let entered = enter_keyspace(&waiting, &keyspace, Duration::from_hours(1));
    let replication = format!("{{'class': 'NetworkTopologyStrategy', '{}': 1}}", datacenter(&making));
    let made = change_schema(&making, format!("CREATE KEYSPACE {keyspace} WITH replication = {replication}"));
    let (entered, ()) = tokio::join!(entered, made);
    entered.unwrap();
    drop_keyspace(&making, &keyspace).await;
}

#[tokio::test]
async fn a_migration_that_a_crash_left_half_done_is_finished() {
    let session = session().await;
    let keyspace = fresh_keyspace();
    let settings = settings(&keyspace, &[]);
    migrating(&session, &settings, MIGRATIONS).await.unwrap();
    // This is as if the process had ended after the statement and before it was recorded.
    change_schema(&session, format!("ALTER TABLE {keyspace}.pages ADD note text")).await;
    let report = migrating(&session, &settings, &with(&[ADDS_A_COLUMN])).await.unwrap();
    assert_eq!(report.applied, names(&[ADDS_A_COLUMN]));
    change_schema(&session, format!("ALTER TABLE {keyspace}.pages DROP note")).await;
    let report = migrating(&session, &settings, &with(&[ADDS_A_COLUMN, DROPS_THE_COLUMN])).await.unwrap();
    assert_eq!(report.applied, names(&[DROPS_THE_COLUMN]));
    drop_keyspace(&session, &keyspace).await;
}

#[tokio::test]
async fn a_program_tells_a_missing_an_older_and_a_newer_schema_from_its_own() {
    let session = session().await;
    let keyspace = fresh_keyspace();
    let settings = settings(&keyspace, &[]);
    let (expanded, contracted) = (with(&[ADDS_A_COLUMN]), with(&[ADDS_A_COLUMN, DROPS_THE_COLUMN]));
    assert_eq!(check(&session, &keyspace, MIGRATIONS).await.unwrap(), SchemaState::Missing);
    migrating(&session, &settings, MIGRATIONS).await.unwrap();
    assert_eq!(check(&session, &keyspace, MIGRATIONS).await.unwrap(), SchemaState::Current);
    assert_eq!(check(&session, &keyspace, &expanded).await.unwrap(), SchemaState::Older);

    migrating(&session, &settings, &expanded).await.unwrap();
    assert_eq!(check(&session, &keyspace, MIGRATIONS).await.unwrap(), SchemaState::NewerExpanded);
    assert!(migrating(&session, &settings, MIGRATIONS).await.unwrap().applied.is_empty());

    migrating(&session, &settings, &contracted).await.unwrap();
    assert_eq!(check(&session, &keyspace, MIGRATIONS).await.unwrap(), SchemaState::NewerContracted);
    let refused = migrating(&session, &settings, MIGRATIONS).await.unwrap_err();
    assert!(matches!(refused, MigrateError::TooNew), "{refused}");
    drop_keyspace(&session, &keyspace).await;
}

#[tokio::test]
async fn an_applied_migration_that_was_changed_is_refused() {
    let session = session().await;
    let keyspace = fresh_keyspace();
    let settings = settings(&keyspace, &[]);
    migrating(&session, &settings, &with(&[ADDS_A_COLUMN])).await.unwrap();
    let changed = Migration { cql: "ALTER TABLE pages ADD note blob;\n", ..ADDS_A_COLUMN };
    let refused = migrating(&session, &settings, &with(&[changed])).await.unwrap_err();
    assert!(matches!(refused, MigrateError::Schema(SchemaError::Changed { number: NEXT })), "{refused}");
    drop_keyspace(&session, &keyspace).await;
}

#[tokio::test]
async fn a_keyspace_that_the_operator_made_is_used_as_it_is() {
    let session = session().await;
    let keyspace = fresh_keyspace();
    let replication = format!("{{'class': 'NetworkTopologyStrategy', '{}': 1}}", datacenter(&session));
    let made = format!("CREATE KEYSPACE {keyspace} WITH replication = {replication} AND durable_writes = false");
    change_schema(&session, made).await;
    let mut settings = settings(&keyspace, &[]);
    settings.replication_factor = 3;
    assert!(!migrating(&session, &settings, MIGRATIONS).await.unwrap().made_keyspace);
    let cql = "SELECT durable_writes FROM system_schema.keyspaces WHERE keyspace_name = ?";
    let answer = session.query_unpaged(cql, (&keyspace,)).await.unwrap().into_rows_result().unwrap();
    assert_eq!(answer.single_row::<(bool,)>().unwrap(), (false,));
    drop_keyspace(&session, &keyspace).await;
}

#[tokio::test]
async fn the_lock_of_a_process_that_died_is_taken_over_after_its_lease_and_not_before() {
    let session = session().await;
    let keyspace = fresh_keyspace();
    let settings = settings(&keyspace, &[]);
    migrating(&session, &settings, MIGRATIONS).await.unwrap();
    let dead = format!(
        "UPDATE {keyspace}.schema_lock SET holder = 0x01, heartbeat = 5 WHERE component = 'handbill' IF EXISTS"
    );
    session.query_unpaged(dead, ()).await.unwrap();

    let next = with(&[ADDS_A_COLUMN]);
    let migrating =
        async |times| migrate_with(&session, &settings, &datacenter(&session), &next, times, &Random::System).await;
    let hour = Duration::from_hours(1);
    let short = Duration::from_millis(20);
    let refused = migrating(LeaseTimes { heartbeat: short, lease: hour, max_wait: short }).await.unwrap_err();
    assert!(matches!(refused, MigrateError::Lease(LeaseError::Held)), "{refused}");
    let nothing_to_do = LeaseTimes { heartbeat: short, lease: hour, max_wait: short };
    migrate_with(&session, &settings, &datacenter(&session), MIGRATIONS, nothing_to_do, &Random::System).await.unwrap();
    migrating(LeaseTimes { heartbeat: short, lease: Duration::from_secs(2), max_wait: hour }).await.unwrap();
    drop_keyspace(&session, &keyspace).await;
}

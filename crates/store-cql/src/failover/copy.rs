//! Copies what one side of a move may lack.

use futures_util::TryStreamExt;
use scylla::client::session::Session;
use scylla::statement::prepared::PreparedStatement;
use scylla::statement::{Consistency, Statement};
use scylla::value::Row as AnyRow;
use tokio::time::timeout;

use super::plan::{COPY_TIMEOUT, REPEATS};
use crate::migrate::schema::server_of;
use crate::ports::page_store::Cause;
use crate::ring::{self, Share};

/// The first tables of [`TABLES`] have no row that was acknowledged in one datacentre alone while the move copied.
pub(super) const CONFIRMED: usize = 4;

/// The tables that are copied, each with its partition key, and how many rows of a part are read at once. A text has at most 1.7 MB,
/// and several parts are read beside each other.
pub(super) const TABLES: [(&str, &str, i32); 8] = [
    ("pages", "slug", 500),
    ("texts", "slug", 4),
    ("deletions", "slug", 500),
    ("deletions_by_time", "ten_minutes", 500),
    ("audit", "bucket", 500),
    ("takedowns_begun", "component", 500),
    ("creates", "component", 500),
    ("slug_secret", "component", 500),
];

/// Reads every row of `tables` from all copies. The servers bring copies that differ to the newest value before they
/// answer. Returns the number of rows.
pub(super) async fn copy(
    session: &Session,
    keyspace: &str,
    tables: &[(&str, &str, i32)],
    say: &(impl Fn(&str) + Send),
) -> Result<u64, Cause> {
    let mut copied = 0;
    for &(table, key, rows_at_once) in tables {
        let cql = format!("SELECT * FROM {keyspace}.{table} WHERE token({key}) > ? AND token({key}) <= ?");
        let cql = ring::of_scan(cql, server_of(session));
        let mut statement = session.prepare(Statement::new(cql).with_page_size(rows_at_once)).await?;
        statement.set_consistency(Consistency::All);
        statement.set_is_idempotent(true);
        statement.set_request_timeout(Some(COPY_TIMEOUT));
        let mut quarters = 0;
        ring::read_parts(
            Share::WHOLE,
            REPEATS,
            async |tokens| copy_part(session, &statement, tokens).await,
            |percent, _, rows| {
                copied += rows?;
                if percent / 25 > quarters {
                    quarters = percent / 25;
                    say(&format!("Copied {percent} % of {table}."));
                }
                Ok(())
            },
        )
        .await?;
    }
    Ok(copied)
}

async fn copy_part(session: &Session, statement: &PreparedStatement, range: (i64, i64)) -> Result<u64, Cause> {
    let rows = session.execute_iter(statement.clone(), range).await?;
    let mut rows = rows.rows_stream::<AnyRow>()?;
    let mut read = 0;
    while timeout(COPY_TIMEOUT, rows.try_next()).await??.is_some() {
        read += 1;
    }
    Ok(read)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The name of the table that begins `definition`, and its partition key.
    fn table(definition: &str) -> (&str, &str) {
        let name = definition.split_whitespace().next().expect("a table has a name");
        let of_one_column = definition.lines().find_map(|line| line.split_once(" text PRIMARY KEY"));
        let of_more = definition.split_once("PRIMARY KEY (").map(|(_, columns)| columns);
        let key = of_one_column.map(|(before, _)| before).or(of_more).expect("a table has a key");
        (name, key.trim().split(',').next().expect("a key has a column"))
    }

    #[test]
    fn a_planned_move_copies_every_table_that_a_migration_makes() {
        let baseline = include_str!("../../../../migrations/0001_expand_baseline.cql");
        let made: Vec<_> = baseline.split("CREATE TABLE IF NOT EXISTS ").skip(1).map(table).collect();
        let copied: Vec<_> = TABLES.iter().map(|&(name, key, _)| (name, key)).collect();
        assert_eq!(copied, made);
    }
}

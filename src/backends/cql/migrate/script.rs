//! The files of `migrations/`, taken apart into statements that are safe to run again.

use thiserror::Error;

/// One statement and what must be looked at before it is run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Step {
    /// The statement, without comments.
    pub(super) text: String,
    /// The only server that knows it, or any.
    pub(super) only_on: Option<Server>,
    /// When it has been run already.
    pub(super) done_when: DoneWhen,
}

/// A server, where the two differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Server {
    Scylla,
    Cassandra,
}

/// What shows that a statement needs no running.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum DoneWhen {
    /// Running it again is harmless.
    Harmless,
    /// The table has the column.
    ColumnIsThere { table: String, column: String },
    /// The table does not have the column.
    ColumnIsGone { table: String, column: String },
}

/// A statement of a kind that could not be run again after a crash.
#[derive(Debug, Error)]
#[error("this statement could not be run again after a crash: {0}")]
pub struct Refused(String);

/// The statements of `text`, in order.
pub(super) fn steps(text: &str) -> Result<Vec<Step>, Refused> {
    let mut steps = Vec::new();
    for Raw { text, only_on } in split(text) {
        let done_when = done_when(&text).ok_or_else(|| Refused(text.clone()))?;
        steps.push(Step { text, only_on, done_when });
    }
    Ok(steps)
}

struct Raw {
    text: String,
    only_on: Option<Server>,
}

/// Cuts at semicolons and drops `--` comments, but not where they stand within quotes.
fn split(text: &str) -> Vec<Raw> {
    let mut statements = Vec::new();
    let (mut statement, mut only_on, mut is_quoted) = (String::new(), None, false);
    for line in text.lines() {
        if !is_quoted {
            only_on = match line.trim() {
                "-- only on cassandra" => Some(Server::Cassandra),
                "-- only on scylladb" => Some(Server::Scylla),
                _ => only_on,
            };
        }
        let mut rest = line;
        while let Some(c) = rest.chars().next() {
            if !is_quoted && rest.starts_with("--") {
                break;
            }
            rest = &rest[c.len_utf8()..];
            is_quoted ^= c == '\'';
            if c == ';' && !is_quoted {
                statements.push(Raw { text: statement.trim().to_owned(), only_on: only_on.take() });
                statement.clear();
            } else {
                statement.push(c);
            }
        }
        statement.push('\n');
    }
    if !statement.trim().is_empty() {
        statements.push(Raw { text: statement.trim().to_owned(), only_on });
    }
    statements
}

/// What shows that `statement` was run, or nothing where it could not be run again.
fn done_when(statement: &str) -> Option<DoneWhen> {
    let words: Vec<String> = statement.split_whitespace().take(8).map(str::to_ascii_lowercase).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let column = |table: &str, column: &str| (table.to_owned(), column.to_owned());
    match words[..] {
        ["create", "table" | "index", "if", "not", "exists", ..] | ["drop", "table" | "index", "if", "exists", ..] => {
            Some(DoneWhen::Harmless)
        }
        ["alter", "table", _, "with", ..] => Some(DoneWhen::Harmless),
        ["alter", "table", table, "add", name, _, ..] if !statement.contains(['(', ',']) => {
            let (table, column) = column(table, name);
            Some(DoneWhen::ColumnIsThere { table, column })
        }
        ["alter", "table", table, "drop", name] if !statement.contains(['(', ',']) => {
            let (table, column) = column(table, name);
            Some(DoneWhen::ColumnIsGone { table, column })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_end_at_semicolons_and_comments_at_the_line_but_not_within_quotes() {
        let text = "-- a; comment\nCREATE TABLE IF NOT EXISTS a (k text PRIMARY KEY) -- more; of it\n\
                    WITH comment = 'it''s -- one; text';\n\n-- only on cassandra\nALTER TABLE a WITH x = 1;\nDROP TABLE IF EXISTS b";
        let steps = steps(text).unwrap();
        let texts: Vec<&str> = steps.iter().map(|step| step.text.as_str()).collect();
        assert_eq!(
            texts,
            [
                "CREATE TABLE IF NOT EXISTS a (k text PRIMARY KEY) \nWITH comment = 'it''s -- one; text'",
                "ALTER TABLE a WITH x = 1",
                "DROP TABLE IF EXISTS b",
            ]
        );
        let servers: Vec<Option<Server>> = steps.iter().map(|step| step.only_on).collect();
        assert_eq!(servers, [None, Some(Server::Cassandra), None]);
    }

    #[test]
    fn a_column_is_looked_for_before_it_is_added_or_dropped() {
        let step = |text| steps(text).unwrap().remove(0).done_when;
        let (table, column) = ("a".to_owned(), "b".to_owned());
        let there = DoneWhen::ColumnIsThere { table: table.clone(), column: column.clone() };
        assert_eq!(step("ALTER TABLE a ADD b frozen<list<text>>;"), there);
        assert_eq!(step("alter table a add b text"), there);
        assert_eq!(step("ALTER TABLE a DROP b"), DoneWhen::ColumnIsGone { table, column });
    }

    #[test]
    fn what_could_not_be_run_again_is_refused() {
        for text in [
            "CREATE TABLE a (k text PRIMARY KEY)",
            "DROP TABLE a",
            "ALTER TABLE a ADD (b text, c text)",
            "ALTER TABLE a ADD b text, c text",
            "ALTER TABLE a RENAME k TO l",
            "INSERT INTO a (k) VALUES ('x')",
            "TRUNCATE a",
        ] {
            assert!(steps(text).is_err(), "{text}");
        }
    }
}

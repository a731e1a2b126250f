//! The parts of the ring of tokens, for work that reads the whole table one part after another.

use super::migrate::schema::Server;

/// The ring is read in this many parts.
pub(super) const PARTS: u8 = 128;

/// The tokens of part `part`: above the first number, up to the second.
pub(super) fn range(part: u8) -> (i64, i64) {
    let bound = |part: u8| i64::MIN.saturating_add_unsigned((u64::MAX / u64::from(PARTS)).saturating_mul(part.into()));
    let until = if part + 1 == PARTS { i64::MAX } else { bound(part + 1) };
    (bound(part), until)
}

/// The statement `cql` for work that reads every row once. ScyllaDB would keep these rows in memory in place of those that
/// clients ask for; Cassandra has no such cache, and refuses the words.
pub(super) fn of_scan(cql: String, server: Server) -> String {
    match server {
        Server::Scylla => cql + " BYPASS CACHE",
        Server::Cassandra => cql,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scan_leaves_the_cache_of_scylladb_alone() {
        let cql = || "SELECT slug FROM pages LIMIT 1".to_owned();
        assert_eq!(of_scan(cql(), Server::Scylla), "SELECT slug FROM pages LIMIT 1 BYPASS CACHE");
        assert_eq!(of_scan(cql(), Server::Cassandra), cql());
    }

    #[test]
    fn the_parts_are_the_whole_ring() {
        assert_eq!(range(0).0, i64::MIN);
        assert_eq!(range(PARTS - 1).1, i64::MAX);
        for part in 1..PARTS {
            assert_eq!(range(part).0, range(part - 1).1);
            assert!(range(part).0 < range(part).1);
        }
    }
}

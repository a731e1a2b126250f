//! The way of pages from an SQLite store into a cluster and back, page by page and key by key.

use std::ffi::OsStr;
use std::fs;

use handbill_test_support::client::{Connection, get};
use handbill_test_support::known::{Known, writing_while};
use handbill_test_support::server::{Server, import, on, succeeded};

use super::Cluster;

#[test]
fn pages_move_into_a_cluster_and_back_while_both_are_used() {
    let cluster = Cluster::migrated();
    let (data, file) = (cluster.path("data"), cluster.path("export.ndjson"));
    let sqlite = Server::start(&data, &[]);
    let mut known = Known::default();
    known.load(sqlite.address, 45);
    let (written, _) = writing_while(sqlite.address, || on(&data, ["export"]));
    fs::write(&file, succeeded(&written)).unwrap();

    let replica = cluster.replica(&[]);
    let importing = [OsStr::new("import"), file.as_os_str()];
    cluster.done(importing);
    known.check(replica.address, sqlite.address);
    let again = cluster.done(importing);
    assert!(again.starts_with("stored: 0 pages, 0 deletions; "), "{again}");

    // More happens in the cluster, and then everything goes back.
    known.rename(sqlite.address, replica.address);
    known.load(replica.address, 15);
    let (back, _) = writing_while(replica.address, || cluster.done(["export"]));
    assert!(known.0.values().all(|(key, _)| !back.contains(key.as_str())), "no key travels");
    fs::write(&file, back).unwrap();
    let data = cluster.path("elsewhere");
    let moved = Server::start(&data, &[]);
    import(&data, &file);
    known.check(moved.address, replica.address);
}

/// A restore: an older state of the pages, and the journal of what was done since.
#[test]
fn no_deleted_page_returns_once_the_journal_is_replayed() {
    let cluster = Cluster::migrated();
    let replica = cluster.replica(&[]);
    let mut known = Known::default();
    known.load(replica.address, 12);
    let backup = cluster.path("backup.ndjson");
    fs::write(&backup, cluster.done(["export"])).unwrap();
    let active: Vec<_> = known.0.iter().filter(|(_, (_, page))| page.is_some()).map(|(slug, _)| slug.clone()).collect();
    let [deleted, hidden, removed] = [&active[0], &active[1], &active[2]];
    known.delete(&mut Connection::open(replica.address).unwrap(), deleted);
    for (act, slug) in [("hide", hidden), ("takedown", removed)] {
        cluster.done([act, slug.as_str(), "--reason", "spam", "--by", "desk"]);
    }
    // The backup does not have this page, and a later import may.
    let late = known.create(&mut Connection::open(replica.address).unwrap(), "Late", "hidden after the backup");
    cluster.done(["hide", &late, "--reason", "spam", "--by", "desk"]);
    let journal = cluster.path("journal.jsonl");
    let lines = cluster.done(["export", "--journal"]);
    fs::write(&journal, &lines).unwrap();
    for (kind, slug) in [("delete", deleted), ("hide", hidden), ("takedown", removed)] {
        assert!(lines.contains(&format!("{{\"kind\":\"{kind}\",\"slug\":\"{slug}\",\"version\":")), "{lines}");
    }
    assert!(known.0.values().all(|(key, _)| !lines.contains(key.as_str())), "no key travels");

    let restored = Cluster::migrated();
    let other = restored.replica(&[]);
    restored.done([OsStr::new("import"), backup.as_os_str()]);
    let replay = [OsStr::new("migrate"), OsStr::new("--replay-journal"), journal.as_os_str()];
    for _ in 0..2 {
        let said = restored.command(replay, "");
        assert!(succeeded(&said).contains("of the journal."), "{said:?}");
    }
    for (slug, (_, page)) in &known.0 {
        let is_there = page.is_some() && ![hidden, removed, &late].contains(&slug);
        assert_eq!(get(other.address, &format!("/{slug}")).unwrap().status, if is_there { 200 } else { 410 }, "{slug}");
    }
}

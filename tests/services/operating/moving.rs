//! The way of pages from an SQLite store into a cluster and back, page by page and key by key.

use std::ffi::OsStr;
use std::fs;

use super::Cluster;
use crate::process::client::Connection;
use crate::process::moving::{Known, import, on, succeeded, writing_while};
use crate::process::support::Server;

#[test]
fn pages_move_into_a_cluster_and_back_with_every_key_and_date_while_both_are_used() {
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

#[test]
fn an_older_export_brings_nothing_back_into_a_cluster_and_overwrites_nothing() {
    let cluster = Cluster::migrated();
    let replica = cluster.replica(&[]);
    let mut known = Known::default();
    known.load(replica.address, 30);
    let old = cluster.path("old.ndjson");
    fs::write(&old, cluster.done(["export"])).unwrap();
    let mut connection = Connection::open(replica.address).unwrap();
    let active: Vec<_> = known.0.iter().filter(|(_, (_, page))| page.is_some()).map(|(slug, _)| slug.clone()).collect();
    for (number, slug) in active.iter().enumerate() {
        match number % 2 {
            0 => known.delete(&mut connection, slug),
            _ => known.change(&mut connection, slug, "Newer than the export."),
        }
    }
    assert_eq!(
        cluster.done([OsStr::new("import"), old.as_os_str()]),
        "stored: 0 pages, 0 deletions; left as they were: 10 already there, 10 older than the page in the store, 10 deleted in the \
         store, 0 hidden in the store\n"
    );
    known.check(replica.address, replica.address);
}

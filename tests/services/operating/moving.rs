//! The way of pages from an SQLite store into a cluster and back, page by page and key by key.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::path::Path;

use handbill::operators::archive::file::{Records, verify};
use handbill_core::domain::archive::{Encoder, Entry};
use handbill_core::domain::timestamp::UnixMillis;

use super::Cluster;
use crate::process::client::Connection;
use crate::process::moving::{Known, on, refused, succeeded, writing_while};
use crate::process::support::{Server, text};
use crate::process::takedowns::status;
use crate::support::pages::{CREATED, page};

/// An SQLite store with pages, and a file with them that was written while the store was used.
fn exported(cluster: &Cluster, pages: usize) -> (Known, std::net::SocketAddr, std::path::PathBuf) {
    let (data, token, file) = (cluster.path("data"), cluster.token(), cluster.path("export.ndjson.zst"));
    let server = Server::start(&data, &["--admin-token-file", &token]);
    let mut known = Known::default();
    known.load(server.address, pages);
    let admin = server.admin.to_string();
    let export = [
        OsStr::new("export"),
        file.as_os_str(),
        OsStr::new("--admin-listen"),
        OsStr::new(&admin),
        OsStr::new("--admin-token-file"),
        OsStr::new(&token),
    ];
    let (written, _) = writing_while(server.address, || on(&data, export));
    succeeded(&written);
    let address = server.address;
    assert!(server.stop().0.success());
    (known, address, file)
}

fn import(file: &Path) -> [&OsStr; 2] {
    [OsStr::new("import"), file.as_os_str()]
}

#[test]
fn pages_move_into_a_cluster_and_back_with_every_key_and_date_while_both_are_used() {
    let cluster = Cluster::migrated();
    let (mut known, embedded, file) = exported(&cluster, 45);
    cluster.done(import(&file));
    let replica = cluster.replica(&[]);
    known.check(replica.address, embedded);
    let again = cluster.done(import(&file));
    assert!(again.starts_with("stored: 0 pages, 0 deletions; "), "{again}");

    // More happens in the cluster, and then everything goes back.
    known.rename(embedded, replica.address);
    known.load(replica.address, 15);
    let back = cluster.path("back.ndjson");
    let export = [OsStr::new("export"), back.as_os_str()];
    let (printed, _) = writing_while(replica.address, || cluster.done(export));
    assert!(printed.ends_with(" records\n"), "{printed}");
    let text = fs::read_to_string(&back).unwrap();
    assert!(known.0.values().all(|(key, _)| !text.contains(key.as_str())), "no key travels");
    let data = cluster.path("elsewhere");
    succeeded(&on(&data, import(&back)));
    let moved = Server::start(&data, &[]);
    known.check(moved.address, replica.address);
    assert!(replica.stop().0.success() && moved.stop().0.success());
}

#[test]
fn an_older_export_brings_nothing_back_into_a_cluster_and_overwrites_nothing() {
    let cluster = Cluster::migrated();
    let replica = cluster.replica(&[]);
    let mut known = Known::default();
    known.load(replica.address, 30);
    let old = cluster.path("old.ndjson");
    cluster.done([OsStr::new("export"), old.as_os_str()]);
    let mut connection = Connection::open(replica.address).unwrap();
    let active: Vec<_> = known.0.iter().filter(|(_, (_, page))| page.is_some()).map(|(slug, _)| slug.clone()).collect();
    for (number, slug) in active.iter().enumerate() {
        match number % 2 {
            0 => known.delete(&mut connection, slug),
            _ => known.change(&mut connection, slug, "Newer than the export."),
        }
    }
    assert_eq!(
        cluster.done(import(&old)),
        "stored: 0 pages, 0 deletions; left as they were: 10 already there or read twice, 10 older than the page in the store, 10 \
         deleted in the store, 0 hidden in the store\n"
    );
    known.check(replica.address, replica.address);

    // The ledger by itself brings an older state up to date: what was deleted since is deleted there too.
    let ledger = cluster.path("ledger.ndjson");
    let printed = cluster.done([OsStr::new("export"), OsStr::new("--deletions"), ledger.as_os_str()]);
    assert!(printed.ends_with(": 20 records\n"), "{printed}");
    let restored = Cluster::migrated();
    for file in [&old, &ledger] {
        restored.done(import(file));
    }
    let other = restored.replica(&[]);
    for (slug, (_, page)) in &known.0 {
        let expected = if page.is_some() { 200 } else { 410 };
        assert_eq!(status(other.address, &format!("/{slug}")), expected, "{slug}");
    }
}

#[test]
fn an_export_of_a_cluster_that_was_killed_goes_on_where_it_is_run_again_and_is_whole() {
    let cluster = Cluster::migrated();
    let (made, out) = (cluster.path("made.ndjson"), cluster.path("out.ndjson.zst"));
    let (mut encoder, mut text) = Encoder::begin(UnixMillis::new(CREATED), "test".to_owned(), None);
    // Each of the eight ranges that are read at once has more than one batch of these.
    let text_of = |number| format!("page {number}. {}", "Some words. ".repeat(2000));
    let pages: Vec<_> = (0..600).map(|number| Entry::of(&page(&text_of(number)))).collect();
    for page in &pages {
        text.push_str(&encoder.entry(page));
    }
    fs::write(&made, text + &encoder.end()).unwrap();
    cluster.done(import(&made));

    let export = [OsStr::new("export"), out.as_os_str()];
    let place = cluster.path("out.ndjson.zst.part.place");
    let is_cut_short = (0..20).any(|_| {
        let mut child = cluster.on_it(crate::process::support::handbill(export)).spawn().unwrap();
        while !place.exists() && child.try_wait().unwrap().is_none() {}
        child.kill().unwrap();
        child.wait().unwrap();
        let is_whole = fs::remove_file(&out).is_ok();
        !is_whole
    });
    assert!(is_cut_short, "every export was whole before it could be killed");
    let output = cluster.command(export, "");
    assert!(succeeded(&output).ends_with(": 600 records\n"));
    let said = crate::process::support::text(&output.stderr);
    assert!(said.contains("goes on after ") && !said.contains("after 0 records"), "{said}");
    let slugs = |entries: Vec<Entry>| entries.iter().map(|entry| entry.slug().to_string()).collect::<BTreeSet<_>>();
    verify(&out, |_| {}).unwrap();
    let found = Records::open(&out).unwrap().map(Result::unwrap).collect();
    assert_eq!(slugs(found), slugs(pages));
    assert!(!place.exists());
}

#[test]
fn a_damaged_file_is_refused_before_anything_is_stored_in_a_cluster() {
    let cluster = Cluster::migrated();
    let (_, _, file) = exported(&cluster, 6);
    let whole = fs::read(&file).unwrap();
    let damaged = cluster.path("damaged.ndjson.zst");
    let cut = whole[..whole.len() - 9].to_vec();
    let mut flipped = whole.clone();
    flipped[whole.len() / 2] ^= 8;
    for bytes in [cut, flipped] {
        fs::write(&damaged, bytes).unwrap();
        refused(&cluster.command(import(&damaged), ""));
    }
    // A header and a trailer.
    assert_eq!(cluster.done(["export"]).lines().count(), 2);
}

#[test]
fn an_interrupted_import_into_a_cluster_goes_on_where_it_is_run_again() {
    let cluster = Cluster::migrated();
    let (known, embedded, file) = exported(&cluster, 150);
    for stored in [5, 50, 100] {
        let mut child = cluster.on_it(crate::process::support::handbill(import(&file))).spawn().unwrap();
        let count = || cluster.number("SELECT count(*) FROM KEYSPACE.pages");
        while count() < stored && child.try_wait().unwrap().is_none() {}
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let output = cluster.command(import(&file), "");
    assert!(!succeeded(&output).contains(" 0 already there"), "{}", text(&output.stdout));
    let replica = cluster.replica(&[]);
    known.check(replica.address, embedded);
}

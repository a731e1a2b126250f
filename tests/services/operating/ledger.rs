//! Copies of a cluster's ledger, each of which goes on from the one before it.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use handbill::operators::archive::export::Selection;
use handbill::operators::archive::file::{Records, verify};
use handbill::operators::archive::moving::backups_in;

use super::Cluster;
use crate::process::client::Connection;
use crate::process::moving::{Known, succeeded};
use crate::process::support::{handbill, text};
use crate::process::takedowns::status;

/// Deletes so many pages that it makes. Returns their slugs.
fn deleted(address: SocketAddr, count: usize) -> BTreeSet<String> {
    let (mut known, mut connection) = (Known::default(), Connection::open(address).unwrap());
    let slugs: BTreeSet<_> =
        (0..count).map(|number| known.create(&mut connection, &format!("Page {number}"), "Text")).collect();
    for slug in &slugs {
        known.delete(&mut connection, slug);
    }
    slugs
}

fn slugs_in(file: &Path) -> BTreeSet<String> {
    verify(file, None, |_| {}).unwrap();
    Records::open(file, None).unwrap().map(|entry| entry.unwrap().slug().to_string()).collect()
}

impl Cluster {
    fn back_up(&self) -> [std::ffi::OsString; 4] {
        ["backup".into(), "--deletions".into(), "--to".into(), self.path("ledgers").into()]
    }

    /// Copies the ledger. Returns the copy, and what was said.
    fn copy(&self) -> (PathBuf, String) {
        let output = self.command(self.back_up(), "");
        let printed = succeeded(&output).to_owned();
        let path = printed.rsplit_once(": ").expect("it names the file").0.into();
        (path, text(&output.stderr).to_owned())
    }

    fn copies(&self) -> Vec<PathBuf> {
        let copies = backups_in(&self.path("ledgers"), Selection::Deletions).unwrap();
        copies.into_iter().map(|copy| copy.path).collect()
    }

    fn forget_row(&self, slug: &str) {
        let cql = format!("DELETE FROM {}.deletions WHERE slug = '{slug}'", self.keyspace);
        self.runtime.block_on(self.session.query_unpaged(cql, ())).unwrap();
    }
}

#[test]
fn each_copy_of_the_ledger_has_every_acknowledged_deletion_and_asks_only_for_what_is_new() {
    let cluster = Cluster::migrated();
    let replica = cluster.replica(&[]);
    let mut known = deleted(replica.address, 5);
    let (first, _) = cluster.copy();
    assert_eq!(slugs_in(&first), known);

    // The first copy alone has this one from now on.
    cluster.forget_row(known.first().unwrap());
    known.extend(deleted(replica.address, 3));
    let (second, said) = cluster.copy();
    assert_eq!((slugs_in(&second), said.as_str()), (known.clone(), ""));
    let (third, said) = cluster.copy();
    assert_eq!((slugs_in(&third), said.as_str()), (known.clone(), ""), "nothing was new");

    // Any of them by itself restores what the whole ledger would.
    for path in [&first, &second] {
        fs::remove_file(path).unwrap();
    }
    let restored = Cluster::migrated();
    let printed = restored.done([OsStr::new("import"), third.as_os_str()]);
    assert!(printed.starts_with("stored: 0 pages, 8 deletions; "), "{printed}");
    let other = restored.replica(&[]);
    for slug in &known {
        assert_eq!(status(other.address, &format!("/{slug}")), 410, "{slug}");
    }
}

#[test]
fn a_copy_that_is_damaged_or_of_another_cluster_is_not_gone_on_from() {
    let cluster = Cluster::migrated();
    let replica = cluster.replica(&[]);
    let known = deleted(replica.address, 3);
    let (first, _) = cluster.copy();
    let mut bytes = fs::read(&first).unwrap();
    let end = bytes.len() - 3;
    bytes[end] ^= 8;
    fs::write(&first, bytes).unwrap();
    let (second, said) = cluster.copy();
    assert_eq!(slugs_in(&second), known);
    assert!(said.contains("the whole ledger is read"), "{said}");

    let other = Cluster::migrated();
    fs::create_dir_all(other.path("ledgers")).unwrap();
    fs::copy(&second, other.path("ledgers").join(second.file_name().unwrap())).unwrap();
    let (copy, _) = other.copy();
    assert_eq!(slugs_in(&copy), BTreeSet::new(), "it has nothing of the other's");
}

#[test]
fn copies_that_are_ended_early_or_made_at_once_leave_each_later_one_whole() {
    let cluster = Cluster::migrated();
    let replica = cluster.replica(&[]);
    let mut known = deleted(replica.address, 3);
    cluster.copy();
    for _ in 0..3 {
        known.extend(deleted(replica.address, 2));
        let start = || cluster.on_it(handbill(cluster.back_up())).spawn().unwrap();
        let mut children = [start(), start(), start()];
        children[0].kill().unwrap();
        for child in &mut children {
            child.wait().unwrap();
        }
        let (newest, _) = cluster.copy();
        assert_eq!(slugs_in(&newest), known);
    }
    for copy in cluster.copies() {
        assert!(slugs_in(&copy).is_subset(&known), "{}", copy.display());
    }
}

//! Taking pages down in a cluster, the audit, and the switch of creates, seen through several replicas.

use std::collections::BTreeSet;

use super::Cluster;
use crate::process::moving::succeeded;
use crate::process::support::text;
use crate::process::takedowns::{
    Load, assert_audited, assert_gone, assert_taken_down, create, publish, publish_some, status,
};

#[test]
fn a_hundred_pages_are_taken_down_in_a_cluster_by_one_command_under_load_and_are_410_at_every_replica_at_once() {
    let cluster = Cluster::migrated();
    let replicas = [cluster.replica(&[]), cluster.replica(&[])];
    let addresses = [replicas[0].address, replicas[1].address];
    let slugs = publish_some(&addresses, "Unwanted", 100);
    let others = publish_some(&addresses, "Wanted", 10);
    // Every replica keeps every page in its cache.
    for address in addresses {
        for slug in &slugs {
            assert_eq!(status(address, &format!("/{slug}")), 200);
        }
    }

    let load = Load::begin(&addresses, &slugs);
    let list = slugs.iter().fold(String::new(), |list, slug| format!("{list}https://pages.example/{slug}\n"));
    let taken = cluster.command(["takedown", "--reason", "spam", "--by", "desk"], &list);
    assert_gone(&addresses, &slugs);
    load.stop();
    assert_taken_down(succeeded(&taken), &slugs);
    assert_eq!(text(&taken.stderr).matches("an operator took a page down").count(), 100);

    assert_audited(&cluster.audit(), &slugs);
    let texts = |slugs: &[String]| {
        cluster.number(&format!("SELECT count(content) FROM KEYSPACE.texts WHERE slug IN ('{}')", slugs.join("', '")))
    };
    assert_eq!((texts(&slugs), texts(&others)), (0, 10), "no SELECT shows a text of a page that was taken down");
    for slug in &others {
        assert_eq!(status(addresses[0], &format!("/{slug}")), 200);
    }
    let ledger = cluster.done(["export", "--deletions"]);
    assert_eq!(ledger.matches("\"takedown\":{\"reason\":\"spam\",\"by\":\"desk\"}").count(), 100);

    let again = cluster.done(["takedown", "--reason", "spam", "--by", "desk", &slugs[0]]);
    assert!(again.starts_with(&format!("{}\talready_deleted\t", slugs[0])), "{again}");
    assert_eq!(cluster.audit().len(), 100);
    let found = cluster.done(["inspect", &slugs[0]]);
    assert!(found.contains("deleted") && found.contains("spam, by desk"), "{found}");
}

#[test]
fn pages_of_a_cluster_are_found_by_their_links_through_the_cluster_and_through_a_replica() {
    let cluster = Cluster::migrated();
    let token = cluster.token();
    let replica = cluster.replica(&["--admin-token-file", &token]);
    let spam: BTreeSet<String> =
        (0..8).map(|_| publish(replica.address, "Buy at https://www.spam.example/x")).collect();
    let fine = publish(replica.address, "An honest text.");
    let slugs = |printed: &str| printed.lines().map(|line| line.split('\t').next().unwrap().to_owned()).collect();
    let criteria = ["takedown", "--linking-to", "spam.example", "--matching", "(?i)buy"];
    let found: BTreeSet<String> = slugs(&cluster.done([&criteria[..], &["--dry-run"]].concat()));
    assert_eq!(found, spam);

    // The running process has the same routes.
    let admin = replica.admin.to_string();
    let of_process = ["--admin-listen", &admin, "--admin-token-file", &token, "--yes"];
    let named = ["--reason", "spam", "--by", "desk"];
    let command = crate::process::support::handbill([&criteria[..], &named, &of_process].concat());
    succeeded(&crate::process::support::run(command, b""));
    for slug in &spam {
        assert_eq!(status(replica.address, &format!("/{slug}")), 410);
    }
    assert_eq!(status(replica.address, &format!("/{fine}")), 200);
    assert_eq!(cluster.audit().len(), 8);
}

#[test]
fn creates_are_paused_and_limited_at_every_replica_and_a_pause_is_known_to_a_replica_that_starts() {
    let cluster = Cluster::migrated();
    let (one, two) = (cluster.replica(&[]), cluster.replica(&[]));
    let paused = cluster.done(["pause", "--by", "desk"]);
    assert_eq!(paused, "Creates are paused; any number of pages in any hour.\n");
    for replica in [&one, &two] {
        replica.wait_for_log("\"paused\":true");
        assert_eq!(create(replica.address, "Text.").problem(), (503, "unavailable".to_owned()));
    }
    let three = cluster.replica(&[]);
    assert_eq!(create(three.address, "Text.").problem(), (503, "unavailable".to_owned()), "it began during the pause");
    cluster.done(["resume", "--by", "desk"]);
    cluster.done(["budget", "1", "--by", "desk"]);
    for replica in [&one, &two, &three] {
        replica.wait_for_log("\"hourly_budget\":1");
    }
    assert_eq!(create(one.address, "Text.").status, 201);
    assert_eq!(create(two.address, "Text.").status, 503, "the budget is that of all replicas together");
    cluster.done(["budget", "off", "--by", "desk"]);
    let actions: Vec<_> =
        cluster.audit().iter().map(|line| (line["paused"].clone(), line["hourly_budget"].clone())).collect();
    let expected = [(true, None), (false, None), (false, Some(1)), (false, None)];
    assert_eq!(actions, expected.map(|(paused, budget)| (paused.into(), serde_json::json!(budget))));
}

#[test]
fn a_takedown_in_a_cluster_that_is_not_in_the_ledger_says_so_until_it_is() {
    let cluster = Cluster::migrated();
    let token = cluster.token();
    let replica = cluster.replica(&["--admin-token-file", &token]);
    let slug = publish(replica.address, "Text.");
    let admin = replica.admin.to_string();
    let take_down = || {
        let named = ["takedown", "--reason", "spam", "--by", "desk", &slug];
        let of_process = ["--admin-listen", &admin, "--admin-token-file", &token];
        crate::process::support::run(crate::process::support::handbill([&named[..], &of_process].concat()), b"")
    };
    // Only the entry has this column, not the note before the page is deleted.
    cluster.change_schema("ALTER TABLE KEYSPACE.deletions DROP version");
    for _ in 0..2 {
        let outcome = take_down();
        let line = text(&outcome.stdout);
        assert_eq!(outcome.status.code(), Some(1), "{outcome:?}");
        assert!(line.starts_with(&format!("{slug}\tnot_in_ledger\t")) && line.contains("a restore could"), "{line}");
        assert_eq!(status(replica.address, &format!("/{slug}")), 410);
    }
    cluster.change_schema("ALTER TABLE KEYSPACE.deletions ADD version bigint");
    let outcome = take_down();
    assert!(succeeded(&outcome).starts_with(&format!("{slug}\talready_deleted\t")), "{outcome:?}");
    assert_eq!(cluster.number("SELECT version FROM KEYSPACE.deletions"), 2);
    assert_eq!(cluster.audit().len(), 1);
}

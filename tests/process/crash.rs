//! The process is killed at random moments. Every change that it had acknowledged is there, complete, and a create that is sent
//! again with its key makes no second page.
//!
//! `SIGKILL` leaves the operating system's cache of files alone, so this test cannot show a missing fsync: `tests/tools/power` does.

use std::fs;
use std::path::Path;

use handbill_store_sqlite::{DATABASE_FILE, JOURNAL_FILE};
use handbill_test_support::client::post;
use handbill_test_support::environment::setting;
use handbill_test_support::histories::transport::Network;
use handbill_test_support::histories::workload::{Chance, Plan, run};
use handbill_test_support::port::Port;
use handbill_test_support::server::{FREE_PORTS, Server, handbill, with_data};
use rand::TryRng;
use rand::rngs::SysRng;
use rusqlite::Connection as Database;
use rustix::process::Signal;
use tempfile::tempdir;

const KILLS: usize = 12;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn every_acknowledged_change_survives_being_killed() {
    let seed = setting("CRASH_SEED", SysRng.try_next_u64().unwrap());
    println!("CRASH_SEED={seed} makes the same choices again");
    let (directory, port, mut chance) = (tempdir().unwrap(), Port::hold(), Chance::new(seed));
    let start = || {
        let mut command = handbill(["--create-limit", "0", "--edit-limit", "0", "--admin-listen", "127.0.0.1:0"]);
        command.arg("--listen").arg(port.address.to_string()).arg("--data-dir").arg(directory.path());
        Server::spawn(command)
    };
    let network = Network { public: vec![port.address], operators: vec![directory.path().join("admin.sock")] };
    let plan = Plan { seed, calls: 0, groups: 2, clients: 4, burst: 40, has_operators: true };
    let mut server = start();
    let outcome = run(&network, plan, async |mut progress| {
        for _ in 0..KILLS {
            progress.more(1 + usize::try_from(chance.below(100)).unwrap()).await;
            server.signal(Signal::KILL);
            server.wait();
            server = start();
        }
        progress.more(100).await;
    })
    .await;
    outcome.assert_linearizable();
    assert!(server.stop().0.success());
    check_files(directory.path());
}

/// Fails if a key has two pages, or if the journal lacks a deletion.
fn check_files(directory: &Path) {
    let database = Database::open(directory.join(DATABASE_FILE)).unwrap();
    let keys = "SELECT count(head ->> 'key_sha256'), count(DISTINCT head ->> 'key_sha256') FROM pages";
    let (pages, keys): (u32, u32) = database.query_row(keys, [], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    assert!(pages > 0 && pages == keys, "{pages} pages of {keys} keys");
    let journal = fs::read_to_string(directory.join(JOURNAL_FILE)).unwrap();
    let mut statement = database.prepare("SELECT slug FROM pages WHERE state = 'deleted'").unwrap();
    for slug in statement.query_map([], |row| row.get::<_, String>(0)).unwrap().map(Result::unwrap) {
        assert!(journal.contains(&slug), "the journal has no deletion of {slug}");
    }
}

#[test]
fn being_killed_while_it_makes_its_directory_leaves_a_good_one() {
    let directory = tempdir().unwrap();
    for round in 0..10 {
        let data = directory.path().join(round.to_string());
        let mut child = with_data(handbill(FREE_PORTS), &data).spawn().unwrap();
        // The first file in the directory shows that the server has begun. How far it gets is left to chance.
        let has_begun = || fs::read_dir(&data).is_ok_and(|mut files| files.next().is_some());
        while round % 2 == 0 && child.try_wait().unwrap().is_none() && !has_begun() {}
        child.kill().unwrap();
        child.wait().unwrap();
        let server = Server::start(&data, &[]);
        assert_eq!(post(server.address, "After all", "x").unwrap().status, 201);
    }
}

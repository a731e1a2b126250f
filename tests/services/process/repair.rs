//! Damage that an operator repairs, as the runbook says.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use handbill_store_redb::{DATABASE_FILE, LEDGER_FILE};
use tempfile::tempdir;

use super::client::Connection;
use super::connections::until_metrics;
use super::moving::{Known, on, refused, succeeded};
use super::support::{Server, handbill, run, text};

/// Flips a bit of each place in the file at `path` that has `part`.
fn damage(path: &Path, part: &[u8]) {
    let mut bytes = fs::read(path).unwrap();
    let places: Vec<_> = (0..bytes.len() - part.len()).filter(|&at| bytes[at..].starts_with(part)).collect();
    assert!(!places.is_empty());
    for at in places {
        bytes[at] ^= 1;
    }
    fs::write(path, bytes).unwrap();
}

/// A stopped service with its address, and its nine pages, of which three are deleted.
fn stopped(data: &Path) -> (SocketAddr, Known) {
    let mut known = Known::default();
    let server = Server::start(data, &[]);
    let address = server.address;
    known.load(address, 9);
    assert!(server.stop().0.success());
    (address, known)
}

/// The slugs of deleted pages, in the order of the ledger's lines.
fn in_ledger(data: &Path) -> Vec<String> {
    let lines = fs::read_to_string(data.join(LEDGER_FILE)).unwrap();
    let slug = |line: &str| line.split("\"slug\":\"").nth(1).unwrap().split('"').next().unwrap().to_owned();
    lines.lines().skip(1).map(slug).collect()
}

#[test]
fn a_damaged_page_comes_back_from_an_older_backup_and_nothing_that_is_newer_is_lost() {
    let folder = tempdir().unwrap();
    let [data, new, backup, rest] =
        ["data", "new", "backup.ndjson.zst", "rest.ndjson.zst"].map(|name| folder.path().join(name));
    let mut known = Known::default();
    let server = Server::start(&data, &[]);
    let first = server.address;
    let mut connection = Connection::open(first).unwrap();
    known.create(&mut connection, "Damaged", "The sum is 1000000 pounds.");
    let [changed, deleted] =
        ["changed", "deleted"].map(|title| known.create(&mut connection, title, "Its first text."));
    drop(connection);
    assert!(server.stop().0.success());
    succeeded(&on(&data, [OsStr::new("export"), backup.as_os_str()]));

    let server = Server::start(&data, &[]);
    known.rename(first, server.address);
    let second = server.address;
    let mut connection = Connection::open(second).unwrap();
    known.change(&mut connection, &changed, "Its second text.");
    known.delete(&mut connection, &deleted);
    known.create(&mut connection, "newer", "It is in no backup.");
    drop(connection);
    assert!(server.stop().0.success());
    damage(&data.join(DATABASE_FILE), b"1000000");

    let checked = on(&data, ["check"]);
    assert_eq!(checked.status.code(), Some(1));
    assert!(text(&checked.stdout).contains("fault: damaged-"), "{}", text(&checked.stdout));
    assert_eq!(on(&data, [OsStr::new("export"), rest.as_os_str()]).status.code(), Some(1));
    let ledger = data.join(LEDGER_FILE);
    let restore = ["restore".as_ref(), "--from".as_ref(), rest.as_os_str(), "--ledger".as_ref(), ledger.as_os_str()];
    succeeded(&on(&new, restore));
    succeeded(&on(&new, [OsStr::new("import"), backup.as_os_str()]));
    assert!(succeeded(&on(&new, ["check"])).contains(": whole; 3 pages and 1 deletion can"));
    let server = Server::start(&new, &[]);
    known.check(server.address, second);
}

#[test]
fn a_damaged_line_of_the_ledger_is_seen_at_the_start_and_the_database_writes_it_again() {
    let folder = tempdir().unwrap();
    let data = folder.path().join("data");
    let (address, known) = stopped(&data);
    let slugs = in_ledger(&data);
    let ledger = data.join(LEDGER_FILE);
    damage(&ledger, slugs[1].as_bytes());

    let server = Server::start(&data, &[]);
    server.wait_for_log("line 3 is damaged");
    until_metrics(&server, |metrics| metrics.contains("\nhandbill_ledger_damaged_lines 1\n"));
    assert!(server.stop().0.success());
    let checked = on(&data, ["check"]);
    let faults = text(&checked.stdout);
    assert!(faults.contains("line 3 is damaged") && faults.contains("the ledger lacks 1 deletion"), "{faults}");
    assert_eq!(faults.matches("fault: ").count(), 2, "{faults}");

    fs::rename(&ledger, folder.path().join("damaged")).unwrap();
    let server = Server::start(&data, &[]);
    known.check(server.address, address);
    assert!(server.stop().0.success());
    assert!(succeeded(&on(&data, ["check"])).contains(": whole; "));
    assert_eq!(in_ledger(&data).into_iter().collect::<BTreeSet<_>>(), slugs.into_iter().collect());
}

#[test]
fn a_restore_refuses_a_damaged_line_of_the_ledger_or_skips_and_prints_it() {
    let folder = tempdir().unwrap();
    let [data, backup, ledger] = ["data", "backup.ndjson", "ledger"].map(|name| folder.path().join(name));
    stopped(&data);
    let slugs = in_ledger(&data);
    succeeded(&on(&data, [OsStr::new("export"), backup.as_os_str()]));
    // The backup is older than the deletions.
    let lines = fs::read_to_string(&backup).unwrap();
    let undamaged = lines.lines().filter(|line| line.contains("\"page\":")).count();
    fs::rename(data.join(LEDGER_FILE), &ledger).unwrap();
    damage(&ledger, slugs[1].as_bytes());

    let new = folder.path().join("new");
    let restore = |data: &Path, more: &[&str]| {
        let mut command = handbill([OsStr::new("restore"), OsStr::new("--from"), backup.as_os_str()]);
        command.arg("--ledger").arg(&ledger).args(more).arg("--data-dir").arg(data);
        run(command, b"")
    };
    let line = restore(&new, &[]);
    let line = refused(&line);
    assert!(line.contains("line 3 is damaged") && line.contains("--skip-damaged goes on"), "{line}");
    let skipping = restore(&new, &["--skip-damaged"]);
    assert_eq!(skipping.status.code(), Some(1), "{}", text(&skipping.stderr));
    let printed: Vec<_> = text(&skipping.stdout).lines().filter(|line| line.starts_with("skipped: ")).collect();
    assert_eq!(printed.len(), 1, "{printed:?}");
    let said = "the ledgers lack 1 deletion of the backup: skipped lines had what they lack, or they are older";
    assert!(text(&skipping.stderr).contains(said), "{}", text(&skipping.stderr));
    // The damaged byte is the first of the slug.
    assert!(printed[0].contains("line 3 is damaged") && printed[0].contains(&slugs[1][1..]), "{printed:?}");
    assert!(succeeded(&on(&new, ["check"])).contains(&format!(": whole; {undamaged} pages and 3 deletions")));

    // A damaged archive is never restored in part.
    damage(&backup, b"Changed **text**");
    let other = folder.path().join("other");
    assert_eq!(restore(&other, &["--skip-damaged"]).status.code(), Some(2));
    assert!(!other.join(DATABASE_FILE).exists());
}

#[test]
fn a_snapshot_that_is_mounted_read_only_is_checked_and_exported_and_not_served() {
    let folder = tempdir().unwrap();
    let data = folder.path().join("data");
    stopped(&data);
    fs::remove_file(data.join("handbill.lock")).unwrap();
    let before = fs::read(data.join(DATABASE_FILE)).unwrap();
    let mounted = |args: &[&str]| {
        // In a mount namespace of its own, which ends with the command.
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c"]);
        command.arg("mount --bind \"$1\" \"$1\" && mount -o remount,ro,bind \"$1\" && shift && exec \"$@\"");
        command.arg("sh").arg(&data).arg(env!("CARGO_BIN_EXE_handbill")).args(args).arg("--data-dir").arg(&data);
        command.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
        command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
        run(command, b"")
    };
    assert!(succeeded(&mounted(&["check"])).contains(": whole; 6 pages and 3 deletions"));
    let exported = mounted(&["export"]);
    assert_eq!(text(&exported.stdout).lines().count(), 1 + 9 + 1, "{}", text(&exported.stderr));
    assert!(exported.status.success(), "{}", text(&exported.stderr));
    let line = mounted(&["serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"]);
    let line = refused(&line);
    assert!(line.contains("mount its file system for writing"), "{line}");
    assert_eq!(fs::read(data.join(DATABASE_FILE)).unwrap(), before);
    assert!(!data.join("handbill.lock").exists());
}

//! Bad days of the SQLite store: damaged files, a full volume, a volume that is mounted read-only.

use std::fs;
use std::process::{Command, Stdio};

use handbill_store_sqlite::DATABASE_FILE;
use handbill_test_support::client::{get, post};
use handbill_test_support::pages::damage;
use handbill_test_support::server::{FREE_PORTS, Server, handbill, noise, on, program, refused, run, text, with_data};
use tempfile::tempdir;

/// The program in a mount namespace of its own, where `mount` is run first. It ends with the process.
fn handbill_with(mount: &str) -> Command {
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", &format!("{mount} && exec \"$0\" \"$@\"")]);
    command.arg(program()).env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

#[test]
fn a_damaged_file_stops_the_start_with_one_line() {
    let directory = tempdir().unwrap();
    assert!(Server::start(directory.path(), &[]).stop().0.success());
    let path = directory.path().join(DATABASE_FILE);
    let mut overwritten = fs::read(&path).unwrap();
    let cut = overwritten[..100].to_vec();
    overwritten[100..4096].fill(0xaa);
    for bytes in [cut, overwritten, b"text\n".repeat(5000)] {
        fs::write(&path, &bytes).unwrap();
        let lines = ["text", "json"].map(|format| {
            let start = handbill([&FREE_PORTS[..], &["--log-format", format]].concat());
            refused(&run(with_data(start, directory.path()), b"")).to_owned()
        });
        assert_eq!(lines[0], lines[1]);
        assert_eq!(fs::read(&path).unwrap(), bytes, "it is left as it is");
        assert!(lines[0].contains("damaged or no database of Handbill") && lines[0].contains("restore a backup"));
    }
}

#[test]
fn a_flipped_bit_in_a_page_answers_500_for_that_page_alone() {
    let directory = tempdir().unwrap();
    let server = Server::start(directory.path(), &[]);
    let slug = |title: &str| post(server.address, title, "Text.").unwrap().json()["slug"].as_str().unwrap().to_owned();
    let (damaged, whole) = (slug("Damaged"), slug("Whole"));
    assert!(server.stop().0.success());
    damage(directory.path(), &damaged);

    let server = Server::start(directory.path(), &[]);
    for target in [format!("/api/pages/{damaged}"), format!("/{damaged}"), format!("/{damaged}.md")] {
        assert_eq!(get(server.address, &target).unwrap().status, 500, "{target}");
    }
    assert_eq!(get(server.address, &format!("/api/pages/{whole}")).unwrap().status, 200);
    let metrics = get(server.admin, "/metrics").unwrap();
    assert!(metrics.text().contains("operation=\"lookup\",outcome=\"unreadable\"} 3\n"), "{}", metrics.text());
    let exported = on(directory.path(), ["export"]);
    assert_eq!(exported.status.code(), Some(1));
    assert!(text(&exported.stderr).contains("1 record cannot be read"), "{}", text(&exported.stderr));
    assert!(text(&exported.stdout).contains(&whole) && !text(&exported.stdout).contains(&damaged));
    let (status, _, log) = server.stop();
    assert!(status.success() && log.contains(&damaged), "{log}");
}

#[test]
fn a_data_directory_that_was_moved_away_is_noticed() {
    let directory = tempdir().unwrap();
    let [data, elsewhere] = ["data", "elsewhere"].map(|name| directory.path().join(name));
    let server = Server::start(&data, &[]);
    let shown = || {
        let metrics = get(server.admin, "/metrics").unwrap();
        let ready = get(server.admin, "/readyz").unwrap();
        (ready.status, ready.text().contains("was moved or removed"), metrics.text().contains("store_available 1\n"))
    };
    assert_eq!(shown(), (200, false, true));
    let path = post(server.address, "Mine", "Text.").unwrap().json()["slug"].as_str().unwrap().to_owned();
    let path = format!("/api/pages/{path}");
    fs::rename(&data, &elsewhere).unwrap();
    assert_eq!(shown(), (503, true, false));
    assert_eq!(shown(), (503, true, false));
    // None of these uses the store that another process begins there.
    let another = Server::start(&data, &["--admin-socket", directory.path().join("another.sock").to_str().unwrap()]);
    let theirs = post(another.address, "Theirs", "Text.").unwrap().json()["slug"].as_str().unwrap().to_owned();
    for theirs_or_mine in [&path, &format!("/api/pages/{theirs}")] {
        assert_eq!(get(server.address, theirs_or_mine).unwrap().status, 503);
    }
    assert_eq!(post(server.address, "A page", "Text.").unwrap().status, 503);
    let mut backup = handbill(["backup", directory.path().join("copy").to_str().unwrap(), "--admin-socket"]);
    backup.arg(elsewhere.join("admin.sock"));
    assert!(text(&run(backup, b"").stderr).contains("was moved or removed"));
    assert!(another.stop().0.success());
    fs::remove_dir_all(&data).unwrap();
    fs::rename(&elsewhere, &data).unwrap();
    assert_eq!(get(server.address, &path).unwrap().status, 200);
    assert_eq!(post(server.address, "A page", "Text.").unwrap().status, 201);
    assert_eq!(shown(), (200, false, true));
    let (.., log) = server.stop();
    assert_eq!(log.matches("the store can be neither read nor written").count(), 1, "{log}");
}

#[test]
fn on_a_full_volume_the_pages_are_served_and_writes_fail_until_there_is_room() {
    let directory = tempdir().unwrap();
    let [before, data] = ["before", "data"].map(|name| directory.path().join(name));
    let server = Server::start(&before, &[]);
    let page = post(server.address, "A page", "Text.").unwrap().json();
    assert!(server.stop().0.success());
    fs::create_dir(&data).unwrap();
    let mount = format!(
        "mount -t tmpfs -o size=1m none '{1}' && cp '{0}'/handbill.* '{0}'/journal.jsonl '{1}' && ! cat /dev/zero > '{1}/filler'",
        before.display(),
        data.display()
    );
    let server = Server::start_as(handbill_with(&mount), &data, &[]);
    let path = format!("/api/pages/{}", page["slug"].as_str().unwrap());
    assert_eq!(get(server.address, &path).unwrap().json()["content"], "Text.");
    let another = || post(server.address, "Another", &noise(50_000)).unwrap();
    assert_eq!(another().problem(), (503, "unavailable".to_owned()));
    // The alert HandbillWritesFail counts this series.
    let failed = r#"handbill_store_duration_seconds_count{operation="insert_if_absent",outcome="unavailable"} 1"#;
    let metrics = get(server.admin, "/metrics").unwrap();
    assert!(metrics.text().contains(failed), "{}", metrics.text());
    let inside = format!("/proc/{}/root{}/filler", server.child.id(), data.display());
    fs::remove_file(inside).unwrap();
    assert_eq!(another().status, 201);
    assert!(server.stop().0.success());
}

#[test]
fn a_read_only_volume_stops_the_start_with_one_line() {
    let directory = tempdir().unwrap();
    assert!(Server::start(directory.path(), &[]).stop().0.success());
    let before = fs::read(directory.path().join(DATABASE_FILE)).unwrap();
    let place = directory.path().display();
    let mut command = handbill_with(&format!("mount --bind '{place}' '{place}' && mount -o remount,ro,bind '{place}'"));
    command.args(FREE_PORTS);
    let output = run(with_data(command, directory.path()), b"");
    assert!(refused(&output).contains("Read-only file system"), "{output:?}");
    assert_eq!(fs::read(directory.path().join(DATABASE_FILE)).unwrap(), before);
}

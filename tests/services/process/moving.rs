//! Exports, imports and restores, by the real binary.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use handbill_store_sqlite::{DATABASE_FILE, JOURNAL_FILE};
use serde_json::Value;
use tempfile::{TempDir, tempdir};

use rusqlite::Connection as Database;
use rustix::process::{Signal, kill_process};

use super::client::{Connection, JSON, bearer, get, page_json};
use super::connections::until_metrics;
use super::support::{Server, handbill, handbill_after, noise, pid, run, text};

const TOKEN: &str = "a token of operators, long enough";

/// A running service, the folder with its data and files, and what its clients know.
struct Service {
    server: Server,
    folder: TempDir,
    known: Known,
}

/// Pages by slug: the key, and the page as the API showed it last, or `None` if it was deleted.
#[derive(Default)]
pub(crate) struct Known(pub(crate) BTreeMap<String, (String, Option<Value>)>);

impl Service {
    fn start() -> Self {
        let folder = tempdir().unwrap();
        fs::write(folder.path().join("token"), TOKEN).unwrap();
        let server = start(&folder.path().join("data"), folder.path());
        Self { server, folder, known: Known::default() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Runs a command that finds the running process.
    fn command<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Output {
        run(with_data(self.asking(args), &self.path("data")), b"")
    }

    /// A command that asks the running process.
    fn asking<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> std::process::Command {
        let admin = self.server.admin.to_string();
        let mut command = handbill(args);
        command.args(["--admin-listen", &admin, "--admin-token-file"]).arg(self.path("token"));
        command
    }
}

fn with_data(mut command: std::process::Command, data: &Path) -> std::process::Command {
    command.arg("--data-dir").arg(data);
    command
}

fn start(data: &Path, folder: &Path) -> Server {
    let token = folder.join("token").display().to_string();
    Server::start(data, &["--admin-token-file", &token])
}

/// Runs a command on the data directory `data`, which no process uses.
pub(crate) fn on<S: AsRef<OsStr>>(data: &Path, args: impl IntoIterator<Item = S>) -> Output {
    run(with_data(handbill(args), data), b"")
}

pub(crate) fn succeeded(output: &Output) -> &str {
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}

/// The one line of a command that was refused.
pub(crate) fn refused(output: &Output) -> &str {
    let line = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{line}");
    assert_eq!(line.lines().count(), 1, "{line}");
    line
}

impl Known {
    pub(crate) fn create(&mut self, connection: &mut Connection, title: &str, content: &str) -> String {
        let body = page_json(title, content);
        let answer = connection.request("POST", "/api/pages", &[JSON], body.as_bytes()).unwrap();
        assert_eq!(answer.status, 201, "{}", answer.text());
        let page = answer.json();
        let (slug, key) = (page["slug"].as_str().unwrap().to_owned(), page["edit_key"].as_str().unwrap().to_owned());
        self.0.insert(slug.clone(), (key, None));
        self.look(connection, &slug);
        slug
    }

    fn look(&mut self, connection: &mut Connection, slug: &str) {
        let answer = connection.get(&format!("/api/pages/{slug}")).unwrap();
        assert_eq!(answer.status, 200, "{}", answer.text());
        self.0.get_mut(slug).unwrap().1 = Some(answer.json());
    }

    pub(crate) fn change(&mut self, connection: &mut Connection, slug: &str, content: &str) {
        let headers = [JSON, ("Authorization", &*bearer(&self.0[slug].0))];
        let body = serde_json::json!({ "content": content }).to_string();
        let answer = connection.request("PATCH", &format!("/api/pages/{slug}"), &headers, body.as_bytes()).unwrap();
        assert_eq!(answer.status, 200, "{}", answer.text());
        self.look(connection, slug);
    }

    pub(crate) fn delete(&mut self, connection: &mut Connection, slug: &str) {
        let headers = [("Authorization", &*bearer(&self.0[slug].0))];
        let answer = connection.request("DELETE", &format!("/api/pages/{slug}"), &headers, b"").unwrap();
        assert_eq!(answer.status, 204, "{}", answer.text());
        self.0.get_mut(slug).unwrap().1 = None;
    }

    /// Creates pages, changes a third of them and deletes a third.
    pub(crate) fn load(&mut self, address: SocketAddr, pages: usize) {
        let mut connection = Connection::open(address).unwrap();
        for number in 0..pages {
            let content = format!("# Page {number}\n\n{}", "Some *words* & \"signs\" of text. ".repeat(number % 50));
            let slug = self.create(&mut connection, &format!("Page {number} ü"), &content);
            match number % 3 {
                0 => self.change(&mut connection, &slug, "Changed **text**."),
                1 => self.delete(&mut connection, &slug),
                _ => {}
            }
        }
    }

    /// Takes the addresses of pages, which were those of the service at `from`, for those of the service at `to`.
    pub(crate) fn rename(&mut self, from: SocketAddr, to: SocketAddr) {
        for (_, page) in self.0.values_mut() {
            *page =
                page.take().map(|page| page.to_string().replace(&from.to_string(), &to.to_string()).parse().unwrap());
        }
    }

    /// Checks page by page and key by key that the service at `address` has what is known.
    pub(crate) fn check(&self, address: SocketAddr, base: SocketAddr) {
        let mut connection = Connection::open(address).unwrap();
        for (slug, (key, page)) in &self.0 {
            let path = format!("/api/pages/{slug}");
            let answer = connection.get(&path).unwrap();
            let headers = [JSON, ("Authorization", &*bearer(key))];
            let change = connection.request("PATCH", &path, &headers, b"{}").unwrap();
            match page {
                None => assert_eq!((answer.status, change.status), (410, 410), "{slug}"),
                Some(page) => {
                    assert_eq!((answer.status, change.status), (200, 200), "{slug}: {}", answer.text());
                    // Each service gives out addresses of its own.
                    let here = page.to_string().replace(&base.to_string(), &address.to_string());
                    assert_eq!(answer.json().to_string(), here, "{slug}");
                }
            }
        }
    }
}

/// The most pages that are created while something else goes on.
const MOST_WRITTEN: usize = 400;

/// Reads the service's pages, writes pages until it is told to stop, and returns them.
pub(crate) fn writing_while<T>(address: SocketAddr, during: impl FnOnce() -> T) -> (T, Known) {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let (mut known, mut connection) = (Known::default(), Connection::open(address).unwrap());
            let mut number = 0;
            let mut kept = known.create(&mut connection, "Written meanwhile", "Written meanwhile.");
            while !stop.load(Ordering::Relaxed) {
                // More pages would only make the test longer.
                if number < MOST_WRITTEN {
                    let slug = known.create(&mut connection, "Written meanwhile", "Written meanwhile.");
                    if number % 2 == 0 {
                        known.delete(&mut connection, &slug);
                    } else {
                        kept = slug;
                    }
                } else {
                    known.change(&mut connection, &kept, &format!("Change {number}."));
                }
                number += 1;
            }
            known
        });
        // If `during` panics, the writer must end too.
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(during));
        stop.store(true, Ordering::Relaxed);
        let written = writer.join().unwrap();
        (done.unwrap_or_else(|panic| std::panic::resume_unwind(panic)), written)
    })
}

#[test]
fn an_export_under_load_moves_every_page_key_and_date_into_an_empty_store() {
    let mut service = Service::start();
    let address = service.server.address;
    service.known.load(address, 60);
    let file = service.path("export.ndjson.zst");
    let (exported, _) = writing_while(address, || service.command([OsStr::new("export"), file.as_os_str()]));
    succeeded(&exported);
    let bytes = fs::read(&file).unwrap();
    assert!(bytes.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]), "it is compressed");

    let data = service.path("elsewhere");
    succeeded(&on(&data, [OsStr::new("import"), file.as_os_str()]));
    let moved = start(&data, service.folder.path());
    service.known.check(moved.address, address);
    assert!(moved.stop().0.success());
    // A second time, everything is there.
    let again = on(&data, [OsStr::new("import"), file.as_os_str()]);
    assert!(succeeded(&again).starts_with("stored: 0 pages, 0 deletions; "), "{}", text(&again.stdout));
}

#[test]
fn an_export_holds_no_key_and_goes_to_standard_output_from_a_stopped_store_too() {
    let mut service = Service::start();
    service.known.load(service.server.address, 6);
    let running = service.command(["export"]);
    let running_lines = succeeded(&running).lines().count();
    let Service { server, folder, known } = service;
    assert!(server.stop().0.success());
    let stopped = on(&folder.path().join("data"), ["export"]);
    let lines: Vec<_> = succeeded(&stopped).lines().collect();
    // A header, six records and a trailer.
    assert_eq!((lines.len(), running_lines), (8, 8));
    assert_eq!(lines[1..7], succeeded(&running).lines().collect::<Vec<_>>()[1..7]);
    for (key, _) in known.0.values() {
        assert!(!text(&stopped.stdout).contains(key.as_str()));
    }
    let deletions = on(&folder.path().join("data"), ["export", "--deletions"]);
    assert_eq!(succeeded(&deletions).lines().filter(|line| line.contains("\"tombstone\"")).count(), 2);
    assert!(!text(&deletions.stdout).contains("\"page\""));
}

#[test]
fn without_the_token_a_running_process_gives_nothing_away() {
    let service = Service::start();
    let admin = service.server.admin.to_string();
    let output = on(&service.path("data"), ["export", "--admin-listen", &admin]);
    let line = refused(&output);
    assert!(line.contains("another process uses it") && line.contains("--admin-token-file"), "{line}");
    assert!(output.stdout.is_empty());
    let answer = super::client::get(service.server.admin, "/records").unwrap();
    assert_eq!(answer.status, 401, "{}", answer.text());
}

#[test]
fn an_older_export_brings_nothing_back_and_overwrites_nothing() {
    let mut service = Service::start();
    let address = service.server.address;
    service.known.load(address, 30);
    let file = service.path("old.ndjson");
    succeeded(&service.command([OsStr::new("export"), file.as_os_str()]));
    let mut connection = Connection::open(address).unwrap();
    let active: Vec<_> =
        service.known.0.iter().filter(|(_, (_, page))| page.is_some()).map(|(slug, _)| slug.clone()).collect();
    for (number, slug) in active.iter().enumerate() {
        match number % 2 {
            0 => service.known.delete(&mut connection, slug),
            _ => service.known.change(&mut connection, slug, "Newer than the export."),
        }
    }
    drop(connection);
    let Service { server, folder, known } = service;
    assert!(server.stop().0.success());
    let data = folder.path().join("data");
    let output = on(&data, [OsStr::new("import"), file.as_os_str()]);
    assert_eq!(
        succeeded(&output),
        "stored: 0 pages, 0 deletions; left as they were: 10 already there or read twice, 10 older than the page in the store, 10 \
         deleted in the store, 0 hidden in the store\n"
    );
    let server = start(&data, folder.path());
    known.check(server.address, address);
}

/// The records of an export, without the lines around them, which have its time.
fn records(file: &Path) -> Vec<String> {
    let text = fs::read_to_string(file).unwrap();
    let lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines[1..lines.len() - 1].to_vec()
}

#[test]
fn a_damaged_file_is_refused_before_anything_is_stored() {
    let mut service = Service::start();
    service.known.load(service.server.address, 9);
    let plain = service.path("export.ndjson");
    for name in ["export.ndjson", "export.ndjson.zst"] {
        let file = service.path(name);
        succeeded(&service.command([OsStr::new("export"), file.as_os_str()]));
        let whole = fs::read(&file).unwrap();
        let damaged = service.path(&format!("damaged-{name}"));
        let cuts = (1..20).map(|part| whole[..whole.len() * part / 20].to_vec());
        // The last one is in the size of the window of zstd, of which some bits mean nothing.
        let flips = (0..40).map(|part| (whole.len() * part / 40, part % 8)).chain([(5, 0)]).map(|(at, bit)| {
            let mut flipped = whole.clone();
            flipped[at] ^= 1 << bit;
            flipped
        });
        let data = service.path("never-made");
        let import = |bytes: Vec<u8>| {
            fs::write(&damaged, bytes).unwrap();
            on(&data, [OsStr::new("import"), damaged.as_os_str()])
        };
        for bytes in cuts {
            refused(&import(bytes));
            assert!(!data.exists());
        }
        for bytes in flips {
            let output = import(bytes);
            if output.status.success() {
                // The padding of a block means nothing either. Then the file holds what it held before.
                assert_ne!(file, plain, "{output:?}");
                let again = service.path("again.ndjson");
                succeeded(&on(&data, [OsStr::new("export"), again.as_os_str()]));
                assert_eq!(records(&again), records(&plain));
                fs::remove_dir_all(&data).unwrap();
                fs::remove_file(&again).unwrap();
            } else {
                refused(&output);
                assert!(!data.exists());
            }
        }
    }
}

#[test]
fn an_interrupted_import_goes_on_where_it_is_run_again() {
    let mut service = Service::start();
    let address = service.server.address;
    let mut connection = Connection::open(address).unwrap();
    for number in 0..300 {
        service.known.create(&mut connection, &format!("Page {number}"), &"Text of some length. ".repeat(400));
    }
    drop(connection);
    let file = service.path("export.ndjson");
    succeeded(&service.command([OsStr::new("export"), file.as_os_str()]));
    let data = service.path("elsewhere");
    // Each attempt ends a little later: when the file with the pages has grown to this size.
    for kilobytes in [1, 1500, 3000, 6000] {
        let mut command = handbill([OsStr::new("import"), file.as_os_str()]);
        let mut child = command.arg("--data-dir").arg(&data).spawn().unwrap();
        let database = data.join(DATABASE_FILE);
        let size = || fs::metadata(&database).map_or(0, |file| file.len());
        while size() < kilobytes * 1024 && child.try_wait().unwrap().is_none() {}
        child.kill().unwrap();
        child.wait().unwrap();
    }
    succeeded(&on(&data, [OsStr::new("import"), file.as_os_str()]));
    let server = start(&data, service.folder.path());
    service.known.check(server.address, address);
}

/// Hides or shows `slugs` and returns the output.
fn act(service: &Service, action: &[&str], slugs: &[&str]) -> String {
    succeeded(&run(service.asking([action, slugs].concat()), b"")).to_owned()
}

#[test]
fn after_a_restore_of_yesterdays_database_with_todays_journal_nothing_is_read_that_was_deleted_or_hidden_since() {
    let mut service = Service::start();
    let mut connection = Connection::open(service.server.address).unwrap();
    let names = ["kept", "deleted", "taken down", "hidden", "shown", "both"];
    let slugs = names.map(|name| service.known.create(&mut connection, name, "A text."));
    let [kept, deleted, taken_down, hidden, shown, both] = slugs.each_ref().map(String::as_str);
    let hide = ["hide", "--reason", "spam", "--by", "desk"];
    act(&service, &hide, &[shown]);
    drop(connection);
    let Service { server, folder, known } = service;
    assert!(server.stop().0.success());
    let (data, yesterday) = (folder.path().join("data"), folder.path().join("yesterday"));
    fs::copy(data.join(DATABASE_FILE), &yesterday).unwrap();

    let server = start(&data, folder.path());
    let mut service = Service { server, folder, known };
    let mut connection = Connection::open(service.server.address).unwrap();
    service.known.delete(&mut connection, deleted);
    act(&service, &["takedown", "--reason", "malware", "--by", "desk"], &[taken_down]);
    act(&service, &hide, &[hidden, both]);
    act(&service, &["show", "--by", "desk"], &[shown, both]);
    let [gone, after] = ["gone", "after"].map(|name| service.known.create(&mut connection, name, "Since then."));
    service.known.delete(&mut connection, &gone);
    let archive = service.path("archive.ndjson");
    succeeded(&service.command([OsStr::new("export"), archive.as_os_str()]));
    act(&service, &hide, &[&after]);
    drop(connection);
    let Service { server, folder, .. } = service;
    server.stop_now();
    drop(server);

    let restored = folder.path().join("restored");
    fs::create_dir(&restored).unwrap();
    fs::copy(&yesterday, restored.join(DATABASE_FILE)).unwrap();
    fs::copy(data.join(JOURNAL_FILE), restored.join(JOURNAL_FILE)).unwrap();
    let server = start(&restored, folder.path());
    // The first answer after the start is right already.
    let status = |server: &Server, slug: &str| get(server.address, &format!("/{slug}")).unwrap().status;
    let found = [deleted, taken_down, hidden, gone.as_str(), after.as_str()].map(|slug| status(&server, slug));
    assert_eq!(found, [410, 410, 410, 410, 404]);
    assert_eq!([kept, shown, both].map(|slug| status(&server, slug)), [200; 3]);
    assert!(server.announcement[2].ends_with("(4 pages, of which 1 hidden, 3 deletions)"), "{:?}", server.announcement);
    let service = Service { server, folder, known: Known::default() };
    let inspected = act(&service, &["inspect", "--json"], &[hidden]);
    assert!(inspected.contains("\"state\":\"hidden\"") && inspected.contains("\"by\":\"desk\""), "{inspected}");
    let Service { server, folder, .. } = service;
    assert!(server.stop().0.success());

    // An export from before the hiding has a page that the restored store lacks: it is hidden too.
    succeeded(&on(&restored, [OsStr::new("import"), archive.as_os_str()]));
    let server = start(&restored, folder.path());
    assert_eq!([deleted, hidden, gone.as_str(), after.as_str()].map(|slug| status(&server, slug)), [410; 4]);
    let service = Service { server, folder, known: Known::default() };
    act(&service, &["show", "--by", "desk"], &[hidden, &after]);
    assert_eq!([hidden, after.as_str()].map(|slug| status(&service.server, slug)), [200; 2]);
}

#[test]
fn a_backup_of_a_busy_store_is_whole_and_its_time_is_shown_also_after_a_restart() {
    let mut service = Service::start();
    let address = service.server.address;
    service.known.load(address, 30);
    let last = |server: &Server| {
        let metrics = get(server.admin, "/metrics").unwrap();
        let value =
            metrics.text().lines().find_map(|line| line.strip_prefix("handbill_last_backup_timestamp_seconds "));
        value.unwrap().parse::<u64>().unwrap()
    };
    assert_eq!(last(&service.server), 0);
    let (plain, packed) = (service.path("plain.sqlite3"), service.path("packed.sqlite3.zst"));
    let ((), _) = writing_while(address, || {
        for file in [&plain, &packed] {
            succeeded(&run(service.asking([OsStr::new("backup"), file.as_os_str()]), b""));
        }
    });
    until_metrics(&service.server, |_| last(&service.server) > 1_700_000_000);
    let streamed = run(service.asking(["backup", "-"]), b"");
    assert!(streamed.status.success());
    let restored = service.path("restored");
    for bytes in [fs::read(&plain).unwrap(), zstd::decode_all(&*fs::read(&packed).unwrap()).unwrap(), streamed.stdout] {
        fs::create_dir(&restored).unwrap();
        fs::write(restored.join(DATABASE_FILE), bytes).unwrap();
        let database = Database::open(restored.join(DATABASE_FILE)).unwrap();
        let intact: String = database.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
        assert_eq!(intact, "ok");
        drop(database);
        let server = Server::start(&restored, &[]);
        service.known.check(server.address, address);
        drop(server);
        fs::remove_dir_all(&restored).unwrap();
    }
    let Service { server, folder, .. } = service;
    assert!(server.stop().0.success());
    assert!(last(&start(&folder.path().join("data"), folder.path())) > 1_700_000_000);
}

#[test]
fn a_backup_that_is_stopped_killed_or_has_no_room_leaves_no_file_under_its_name_and_is_not_the_last_one() {
    let mut service = Service::start();
    let mut connection = Connection::open(service.server.address).unwrap();
    for _ in 0..30 {
        service.known.create(&mut connection, "A page", &noise(100_000));
    }
    let file = service.path("backup.sqlite3");
    let part = service.path("backup.sqlite3.part");
    let backup = || service.asking([OsStr::new("backup"), file.as_os_str()]);
    for signal in [Signal::TERM, Signal::KILL] {
        let mut child = backup().spawn().unwrap();
        while !part.exists() && child.try_wait().unwrap().is_none() {}
        kill_process(pid(&child), signal).unwrap();
        assert!(!child.wait().unwrap().success());
        assert!(!file.exists());
    }
    // A limit of 512 KiB for a file stands in for a full disk.
    let mut command = handbill_after("trap '' XFSZ && ulimit -f 1024");
    command.args(backup().get_args());
    let output = run(command, b"");
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("cannot be written"), "{}", text(&output.stderr));
    assert!(!file.exists() && !part.exists());
    let metrics = get(service.server.admin, "/metrics").unwrap();
    assert!(metrics.text().contains("\nhandbill_last_backup_timestamp_seconds 0\n"), "{}", metrics.text());
    let mut data = fs::read_dir(service.path("data")).unwrap().map(|file| file.unwrap().path());
    assert!(data.all(|path| path.extension().is_none_or(|ending| ending != "copy")));
    succeeded(&run(backup(), b""));
}

#[test]
fn each_of_50_backups_under_writes_has_every_page_that_was_acknowledged_before_it() {
    let service = Service::start();
    let mut known = Known::default();
    let mut connection = Connection::open(service.server.address).unwrap();
    let ((), _) = writing_while(service.server.address, || {
        for round in 0..50 {
            known.create(&mut connection, &format!("Round {round}"), &"Some text. ".repeat(round * 40 + 1));
            let name = format!("backup-{round}.ndjson");
            let file = service.path(&name);
            succeeded(&service.command([OsStr::new("export"), file.as_os_str()]));
            let archive = fs::read_to_string(&file).unwrap();
            let lines: BTreeMap<_, _> = archive
                .lines()
                .filter_map(|line| {
                    let line: Value = serde_json::from_str(line).unwrap();
                    let page = line.get("page")?.clone();
                    Some((page["slug"].as_str().unwrap().to_owned(), page))
                })
                .collect();
            for (slug, (_, page)) in &known.0 {
                assert_eq!(lines[slug]["content"], page.as_ref().unwrap()["content"], "{slug} in round {round}");
            }
        }
    });
}

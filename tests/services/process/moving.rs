//! Backups, exports, and what is restored from them, by the real binary.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::{MetadataExt, chown};
use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use serde_json::Value;
use tempfile::{TempDir, tempdir};

use super::client::{Connection, JSON, bearer, get, page_json};
use super::support::{Server, handbill, run, text};

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
    assert!(succeeded(&on(&data, ["check"])).contains(": whole; "));
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
    assert!(line.contains("in use") && line.contains("--admin-token-file"), "{line}");
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
        let database = data.join(handbill_store_redb::DATABASE_FILE);
        let size = || fs::metadata(&database).map_or(0, |file| file.len());
        while size() < kilobytes * 1024 && child.try_wait().unwrap().is_none() {}
        child.kill().unwrap();
        child.wait().unwrap();
    }
    succeeded(&on(&data, [OsStr::new("import"), file.as_os_str()]));
    let server = start(&data, service.folder.path());
    service.known.check(server.address, address);
}

#[test]
fn a_backup_restored_with_the_ledger_has_no_page_that_was_deleted_since() {
    let mut service = Service::start();
    let address = service.server.address;
    service.known.load(address, 30);
    let backups = service.path("backups");
    succeeded(&service.command([OsStr::new("export"), backups.as_os_str()]));
    let mut connection = Connection::open(address).unwrap();
    let active: Vec<_> =
        service.known.0.iter().filter(|(_, (_, page))| page.is_some()).map(|(slug, _)| slug.clone()).collect();
    for slug in &active[..5] {
        service.known.delete(&mut connection, slug);
    }
    drop(connection);
    let Service { server, folder, known } = service;
    // The machine is lost. Only the ledger, which was copied elsewhere, and the backup remain.
    server.signal(rustix::process::Signal::KILL);
    drop(server);
    let ledger = folder.path().join("ledger");
    fs::copy(folder.path().join("data").join(handbill_store_redb::LEDGER_FILE), &ledger).unwrap();

    let restore = |data: &Path, ledger: Option<&Path>| {
        let mut command = handbill([OsStr::new("restore"), OsStr::new("--from"), backups.as_os_str()]);
        if let Some(ledger) = ledger {
            command.arg("--ledger").arg(ledger);
        }
        run(with_data(command, data), b"")
    };
    let data = folder.path().join("restored");
    succeeded(&restore(&data, Some(&ledger)));
    let again = restore(&data, Some(&ledger));
    let line = refused(&again);
    assert!(
        line.contains("there is a database already, ") && line.contains("handbill.redb: restore into another"),
        "{line}"
    );
    assert!(!line.contains("--new-store"), "nobody gave it: {line}");
    let own = folder.path().join("data").join(handbill_store_redb::LEDGER_FILE);
    let mistaken = on(&data, [OsStr::new("restore"), OsStr::new("--from"), own.as_os_str()]);
    assert!(refused(&mistaken).contains("give it to --ledger"), "{mistaken:?}");
    assert!(
        succeeded(&on(&data, ["check"]))
            .contains(": whole; 15 pages and 15 deletions can be read; the ledger has 15 deletions")
    );
    let server = start(&data, folder.path());
    known.check(server.address, address);
    drop(server);

    // The ledger that lies beside the lost database counts without being named.
    let beside = folder.path().join("data");
    fs::rename(beside.join(handbill_store_redb::DATABASE_FILE), folder.path().join("lost")).unwrap();
    succeeded(&restore(&beside, None));
    let server = start(&beside, folder.path());
    known.check(server.address, address);
    drop(server);

    // Without any ledger the pages return: this is what the ledger is for.
    let without = folder.path().join("without");
    let restored = restore(&without, None);
    assert!(text(&restored.stderr).contains("there is no copy of the ledger"), "{}", text(&restored.stderr));
    succeeded(&restored);
    let server = start(&without, folder.path());
    let mut connection = Connection::open(server.address).unwrap();
    assert!(active[..5].iter().all(|slug| connection.get(&format!("/api/pages/{slug}")).unwrap().status == 200));
}

#[test]
fn a_file_of_deletions_is_no_backup_whatever_its_name_is() {
    let mut service = Service::start();
    let mut connection = Connection::open(service.server.address).unwrap();
    let slugs = ["kept", "gone"].map(|title| service.known.create(&mut connection, title, "A text."));
    service.known.delete(&mut connection, &slugs[1]);
    let [deletions, ledger] = ["deletions.ndjson.zst", "copied.ndjson"].map(|name| service.path(name));
    succeeded(&service.command([OsStr::new("export"), OsStr::new("--deletions"), deletions.as_os_str()]));
    fs::copy(service.path("data").join(handbill_store_redb::LEDGER_FILE), &ledger).unwrap();
    let data = service.path("restored");
    for file in [&deletions, &ledger] {
        let output = on(&data, [OsStr::new("restore"), OsStr::new("--from"), file.as_os_str()]);
        assert!(refused(&output).contains("has deletions alone"), "{output:?}");
        assert!(!data.exists());
    }
    // A backup without a page is one all the same: each page of it was deleted.
    service.known.delete(&mut connection, &slugs[0]);
    let backups = service.path("backups");
    succeeded(&service.command([OsStr::new("export"), backups.as_os_str()]));
    let restored = on(&data, [OsStr::new("restore"), OsStr::new("--from"), backups.as_os_str()]);
    assert!(succeeded(&restored).contains("stored: 0 pages, 2 deletions"), "{restored:?}");
}

#[test]
fn a_restore_whose_ledgers_lack_a_deletion_of_the_backup_says_so_and_exits_with_1_and_its_store_can_be_served() {
    let mut service = Service::start();
    let mut connection = Connection::open(service.server.address).unwrap();
    let slugs = ["first", "second", "third"].map(|title| service.known.create(&mut connection, title, "A text."));
    let (own, old) = (service.path("data").join(handbill_store_redb::LEDGER_FILE), service.path("old.ledger"));
    service.known.delete(&mut connection, &slugs[0]);
    fs::copy(&own, &old).unwrap();
    service.known.delete(&mut connection, &slugs[1]);
    let backups = service.path("backups");
    succeeded(&service.command([OsStr::new("export"), backups.as_os_str()]));
    let restore = |name: &str, ledger: &Path| {
        let args = [OsStr::new("restore"), OsStr::new("--from"), backups.as_os_str(), OsStr::new("--ledger")];
        let output = on(&service.path(name), args.into_iter().chain([ledger.as_os_str()]));
        (output.status.code(), text(&output.stdout).to_owned(), text(&output.stderr).to_owned())
    };
    let (code, printed, said) = restore("old", &old);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("the ledgers lack 1 deletion of the backup: they are older than it or of another"), "{said}");
    assert!(
        printed.contains(", begun at 20") && printed.contains("old.ledger, whose newest entry is of 20"),
        "{printed}"
    );
    let server = start(&service.path("old"), service.folder.path());
    service.known.check(server.address, service.server.address);
    let (code, _, said) = restore("own", &own);
    assert_eq!((code, said.contains("lack")), (Some(0), false), "{said}");
}

/// Hides or shows `slugs` and returns the output.
fn act(service: &Service, action: &[&str], slugs: &[&str]) -> String {
    succeeded(&run(service.asking([action, slugs].concat()), b"")).to_owned()
}

#[test]
fn a_backup_restored_with_the_ledger_hides_what_was_hidden_since_and_shows_what_was_shown_again() {
    let mut service = Service::start();
    let address = service.server.address;
    let mut connection = Connection::open(address).unwrap();
    let pages = ["hidden", "shown", "both", "left"].map(|name| service.known.create(&mut connection, name, "A text."));
    let [hidden, shown, both, left] = pages.each_ref().map(String::as_str);
    let hide = ["hide", "--reason", "spam", "--by", "desk"];
    act(&service, &hide, &[shown]);
    let backups = service.path("backups");
    succeeded(&service.command([OsStr::new("export"), backups.as_os_str()]));
    act(&service, &hide, &[hidden, both]);
    act(&service, &["show", "--by", "desk"], &[shown, both]);
    let after = service.known.create(&mut connection, "after the backup", "A text.");
    let archive = service.path("archive.ndjson");
    succeeded(&service.command([OsStr::new("export"), archive.as_os_str()]));
    act(&service, &hide, &[&after]);
    drop(connection);
    let Service { server, folder, .. } = service;
    server.signal(rustix::process::Signal::KILL);
    drop(server);
    let data = folder.path().join("data");
    fs::remove_file(data.join(handbill_store_redb::DATABASE_FILE)).unwrap();

    succeeded(&on(&data, [OsStr::new("restore"), OsStr::new("--from"), backups.as_os_str()]));
    assert!(succeeded(&on(&data, ["check"])).contains(": whole; 4 pages and 0 deletions"));
    // An archive from before the hiding has a page that the backup lacks: it is hidden too.
    succeeded(&on(&data, [OsStr::new("import"), archive.as_os_str()]));
    assert!(succeeded(&on(&data, ["check"])).contains(": whole; 5 pages and 0 deletions"));
    let server = start(&data, folder.path());
    let service = Service { server, folder, known: Known::default() };
    let status = |slug: &str| get(service.server.address, &format!("/{slug}")).unwrap().status;
    assert_eq!([hidden, shown, both, left, after.as_str()].map(status), [410, 200, 200, 200, 410]);
    let inspected = act(&service, &["inspect", "--json"], &[hidden]);
    assert!(inspected.contains("\"state\":\"hidden\"") && inspected.contains("\"by\":\"desk\""), "{inspected}");
    act(&service, &["show", "--by", "desk"], &[hidden, &after]);
    assert_eq!([hidden, after.as_str()].map(status), [200, 200]);
}

#[test]
fn an_import_whose_deletions_are_not_in_the_ledger_says_so_until_they_are() {
    let mut service = Service::start();
    let mut connection = Connection::open(service.server.address).unwrap();
    let slug = service.known.create(&mut connection, "A page", "Text.");
    service.known.delete(&mut connection, &slug);
    drop(connection);
    let deletions = service.path("deletions.ndjson");
    succeeded(&service.command([OsStr::new("export"), OsStr::new("--deletions"), deletions.as_os_str()]));
    // Nobody can write a ledger where a directory has its name.
    let data = service.path("elsewhere");
    let ledger = data.join("handbill.ledger");
    fs::create_dir_all(&ledger).unwrap();
    let import = || on(&data, [OsStr::new("import"), deletions.as_os_str()]);
    for _ in 0..2 {
        let output = import();
        let line = text(&output.stderr).lines().last().unwrap();
        assert_eq!(output.status.code(), Some(2), "{line}");
        assert!(line.contains("the ledger of deletions could not be written"), "{line}");
    }
    fs::remove_dir(&ledger).unwrap();
    assert!(succeeded(&import()).contains("1 already there"));
    assert!(fs::read_to_string(&ledger).unwrap().contains(&slug));
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

/// Every offset of `part` in `bytes`.
fn places(bytes: &[u8], part: &[u8]) -> Vec<usize> {
    (0..bytes.len().saturating_sub(part.len())).filter(|&at| bytes[at..].starts_with(part)).collect()
}

#[test]
fn compact_removes_every_deleted_and_replaced_text_byte_by_byte_and_keeps_the_rest() {
    let mut service = Service::start();
    let address = service.server.address;
    let mut connection = Connection::open(address).unwrap();
    // Texts are compressed in the file, and the hosts of their links are not. The texts are long, also compressed, so that the small
    // writes of later deletions cannot take the place of all of them.
    let text_of = |number: usize| {
        let mut state = number as u64;
        let mut word = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            format!("{:x} ", state >> 24)
        };
        let words: String = (0..number % 60 * 40).map(|_| word()).collect();
        format!("[A link](https://unmistakable-{number:04}.example/) {words}")
    };
    let mut slugs = Vec::new();
    for number in 0..120 {
        slugs.push(service.known.create(&mut connection, "A page", &text_of(number)));
    }
    for slug in slugs.iter().skip(1).step_by(3) {
        service.known.change(&mut connection, slug, "Replaced.");
    }
    for slug in slugs.iter().step_by(3) {
        service.known.delete(&mut connection, slug);
    }
    drop(connection);
    let Service { server, folder, known } = service;
    assert!(server.stop().0.success());
    let data = folder.path().join("data");
    let remaining = || {
        // The room for deletions has nothing but zeros, and too many of them for a search.
        let files = fs::read_dir(&data).unwrap().map(|file| file.unwrap().path());
        let files = files.filter(|path| !path.ends_with("handbill.reserve")).map(|path| fs::read(path).unwrap());
        let bytes = files.collect::<Vec<_>>().concat();
        let name = b"unmistakable-";
        let numbers = places(&bytes, name).into_iter().map(|at| bytes[at + name.len()..].iter().take(4));
        numbers.map(|digits| digits.map(|&digit| char::from(digit)).collect()).collect::<BTreeSet<String>>()
    };
    assert!(remaining().len() > 40, "without compacting, some deleted texts are still in the file");
    succeeded(&on(&data, ["compact"]));
    let kept = (0..120).filter(|number| number % 3 == 2).map(|number| format!("{number:04}"));
    assert_eq!(remaining(), kept.collect());
    assert!(
        succeeded(&on(&data, ["check"]))
            .contains(": whole; 80 pages and 40 deletions can be read; the ledger has 40 deletions")
    );
    let server = start(&data, folder.path());
    known.check(server.address, address);
}

#[test]
fn what_a_command_makes_belongs_to_the_owner_of_the_data_directory() {
    let mut service = Service::start();
    service.known.create(&mut Connection::open(service.server.address).unwrap(), "A page", "Text.");
    let archive = service.path("pages.ndjson");
    succeeded(&service.command([OsStr::new("export"), archive.as_os_str()]));
    let Service { server, folder, .. } = service;
    assert!(server.stop().0.success());
    let [begun, restored] = ["begun", "restored"].map(|name| folder.path().join(name));
    for (data, command) in [
        (&begun, ["import".as_ref(), archive.as_os_str()].as_slice()),
        (&restored, &["restore".as_ref(), "--from".as_ref(), archive.as_os_str()]),
        (&begun, &["compact".as_ref()]),
    ] {
        fs::create_dir_all(data).unwrap();
        // Only root can give the directory to another, and nobody else can make files for another.
        let _ = chown(data, Some(12_345), Some(54_321));
        succeeded(&on(data, command));
        let owner = |path: &Path| fs::metadata(path).map(|file| (file.uid(), file.gid())).unwrap();
        let files: Vec<_> = fs::read_dir(data).unwrap().map(|file| file.unwrap().path()).collect();
        assert!(files.len() > 2, "{files:?}");
        for file in files {
            assert_eq!(owner(&file), owner(data), "{}", file.display());
        }
    }
}

#[test]
fn compact_killed_at_any_moment_leaves_one_whole_file() {
    let mut service = Service::start();
    let address = service.server.address;
    service.known.load(address, 90);
    let Service { server, folder, known } = service;
    assert!(server.stop().0.success());
    let data = folder.path().join("data");
    let new = data.join("handbill.redb.compact");
    for round in 0..12 {
        let mut child = with_data(handbill(["compact"]), &data).spawn().unwrap();
        // The new file shows how far it is. The rest is left to chance.
        let size = || fs::metadata(&new).map_or(0, |file| file.len());
        while child.try_wait().unwrap().is_none() && size() < round * 100_000 {}
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(succeeded(&on(&data, ["check"])).contains(": whole; 60 pages and 30 deletions"));
        assert!(!new.exists(), "what was left is removed");
    }
    let server = start(&data, folder.path());
    known.check(server.address, address);
}

#[test]
fn check_finds_each_of_200_flipped_bits_in_records_keys_and_tree_pages() {
    let mut service = Service::start();
    let mut connection = Connection::open(service.server.address).unwrap();
    for number in 0..150 {
        service.known.create(&mut connection, "A page", &format!("Text {number:04}. {}", "Filler. ".repeat(number)));
    }
    drop(connection);
    let Service { server, folder, known } = service;
    assert!(server.stop().0.success());
    let data = folder.path().join("data");
    succeeded(&on(&data, ["compact"]));
    let database = data.join(handbill_store_redb::DATABASE_FILE);
    let whole = fs::read(&database).unwrap();
    let check = |bytes: &[u8]| {
        fs::write(&database, bytes).unwrap();
        on(&data, ["check"])
    };
    assert!(succeeded(&check(&whole)).contains(": whole; "));

    // Free space may hold stale copies of pages. A place is in use if `check` notices that its byte has changed.
    let is_live = |at: usize| {
        let mut changed = whole.clone();
        changed[at] ^= 0xff;
        !check(&changed).status.success()
    };
    let slugs: Vec<_> = known.0.keys().collect();
    let keys = slugs.iter().step_by(2).flat_map(|slug| places(&whole, slug.as_bytes())).filter(|&at| is_live(at));
    let keys: Vec<_> = keys.take(70).collect();
    let texts = (0..150).step_by(2).flat_map(|number| places(&whole, format!("Text {number:04}").as_bytes()));
    let texts: Vec<_> = texts.filter(|&at| is_live(at)).take(70).collect();
    // The second byte is padding, and the first says that a page of the file is a branch.
    let branches = (0..whole.len() / 4096).map(|page| page * 4096).filter(|&at| whole[at] == 2 && is_live(at));
    let branches: Vec<_> = branches.flat_map(|at| (at + 8..at + 408).step_by(3)).collect();
    let branches: Vec<_> = branches.into_iter().filter(|&at| whole[at] != 0 && is_live(at)).take(60).collect();
    println!("{} keys, {} texts, {} places in branches", keys.len(), texts.len(), branches.len());
    let places = [keys, texts, branches].concat();
    assert_eq!(places.len(), 200);
    for (number, at) in places.into_iter().enumerate() {
        let mut flipped = whole.clone();
        flipped[at] ^= 1 << (number % 8);
        let output = check(&flipped);
        assert_eq!(output.status.code(), Some(1), "byte {at}: {}{}", text(&output.stdout), text(&output.stderr));
        assert!(text(&output.stdout).starts_with("fault: "), "{}", text(&output.stdout));
    }
    assert!(succeeded(&check(&whole)).contains(": whole; "), "a check changes nothing");
}

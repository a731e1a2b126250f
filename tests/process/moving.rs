//! Exports, imports, backups and restores, by the real binary.

use std::ffi::OsStr;
use std::fs;
use std::io::Read;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::{Command, Output};

use handbill_store_sqlite::{DATABASE_FILE, JOURNAL_FILE};
use handbill_test_support::client::{Connection, get};
use handbill_test_support::known::{Known, writing_while};
use handbill_test_support::server::{
    Server, handbill, handbill_after, import, noise, on, pid, refused, run, succeeded, text, with_data,
};
use rusqlite::Connection as Database;
use rustix::process::{Signal, kill_process};
use tempfile::{TempDir, tempdir};

use super::connections::until_metrics;

/// A running service, the folder with its data and files, and what its clients know.
pub(super) struct Service {
    pub(super) server: Server,
    pub(super) folder: TempDir,
    known: Known,
}

impl Service {
    pub(super) fn start() -> Self {
        Self::start_in(tempdir().unwrap(), &[])
    }

    /// Starts one with its data in `data` below `folder`.
    pub(super) fn start_in(folder: TempDir, args: &[&str]) -> Self {
        let server = Server::start(&folder.path().join("data"), args);
        Self { server, folder, known: Known::default() }
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(super) fn command<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Output {
        self.given("", args)
    }

    /// Runs a command that asks this service, with `input`.
    pub(super) fn given<S: AsRef<OsStr>>(&self, input: &str, args: impl IntoIterator<Item = S>) -> Output {
        run(self.asking(args), input.as_bytes())
    }

    pub(super) fn done<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> String {
        succeeded(&self.command(args)).to_owned()
    }

    fn asking<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Command {
        with_data(handbill(args), &self.path("data"))
    }

    fn export(&self, name: &str) -> PathBuf {
        let file = self.path(name);
        fs::write(&file, succeeded(&self.command(["export"]))).unwrap();
        file
    }
}

#[test]
fn a_command_without_a_process_says_in_one_line_what_to_do() {
    let folder = tempdir().unwrap();
    let file = folder.path().join("backup");
    let (by, file) = (["--by", "desk"], file.to_str().unwrap());
    for command in [
        &["export"][..],
        &["export", "--journal"],
        &["import"],
        &["backup", file],
        &["inspect", "a-page-22222222"],
        &[&["pause"][..], &by].concat(),
        &[&["show", "a-page-22222222"][..], &by].concat(),
        &[&["takedown", "a-page-22222222", "--reason", "spam"][..], &by].concat(),
    ] {
        let output = on(folder.path(), command);
        assert!(refused(&output).contains("no process answers at"), "{output:?}");
    }
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
}

#[test]
fn an_import_that_was_interrupted_is_whole_when_it_is_run_again() {
    let mut service = Service::start();
    let address = service.server.address;
    let mut connection = Connection::open(address).unwrap();
    for number in 0..300 {
        service.known.create(&mut connection, &format!("Page {number}"), &"Text of some length. ".repeat(400));
    }
    drop(connection);
    let file = service.export("export.ndjson");
    let data = service.path("elsewhere");
    let server = Server::start(&data, &[]);
    let stored = || succeeded(&on(&data, ["export", "--fields", "slug"])).lines().count();
    for pages in [1, 100, 200] {
        let mut child = with_data(handbill([OsStr::new("import"), file.as_os_str()]), &data).spawn().unwrap();
        while stored() < pages && child.try_wait().unwrap().is_none() {}
        child.kill().unwrap();
        child.wait().unwrap();
    }
    import(&data, &file);
    service.known.check(server.address, address);
}

#[test]
fn imports_and_a_backup_at_once_leave_every_page_as_exported() {
    let mut service = Service::start();
    let address = service.server.address;
    service.known.load(address, 90);
    let (first, data, backup) = (service.export("export.ndjson"), service.path("elsewhere"), service.path("backup"));
    let server = Server::start(&data, &[]);
    let of_process = |args: [&OsStr; 2]| with_data(handbill(args), &data);
    let importing = || of_process([OsStr::new("import"), first.as_os_str()]).spawn().unwrap();
    let mut at_once = vec![importing(), importing()];
    at_once.push(of_process([OsStr::new("backup"), backup.as_os_str()]).spawn().unwrap());
    for child in at_once {
        succeeded(&child.wait_with_output().unwrap());
    }
    service.known.check(server.address, address);
    let database = Database::open(&backup).unwrap();
    let intact: String = database.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(intact, "ok");
}

/// The reader of the export takes nothing until the process that serves has been killed: so the export has not ended by then.
#[test]
fn an_export_whose_process_ends_says_how_to_get_the_rest() {
    let mut service = Service::start();
    let address = service.server.address;
    let mut connection = Connection::open(address).unwrap();
    for number in 0..600 {
        service.known.create(&mut connection, &format!("Page {number}"), &"Text of some length. ".repeat(200));
    }
    drop(connection);
    let exporting = service.asking(["export"]).spawn().unwrap();
    let mut output = exporting.stdout.as_ref().unwrap().as_fd().try_clone_to_owned().map(fs::File::from).unwrap();
    let mut begun = [0];
    output.read_exact(&mut begun).unwrap();
    service.server.stop_now();
    let ended = exporting.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(1), "{}", text(&ended.stderr));
    let (_, after) = text(&ended.stderr).split_once("export --after ").unwrap();
    let after = after.split(' ').next().unwrap().to_owned();

    let Service { server, folder, known } = service;
    drop(server);
    let (here, data) = (folder.path().join("data"), folder.path().join("elsewhere"));
    let _server = Server::start(&here, &[]);
    let moved = Server::start(&data, &[]);
    let rest = on(&here, ["export", "--after", &after]);
    succeeded(&rest);
    for archive in [[&begun[..], &ended.stdout].concat(), rest.stdout] {
        succeeded(&run(with_data(handbill(["import"]), &data), &archive));
    }
    known.check(moved.address, address);
}

/// The tests of the store have each act, before and after the backup.
#[test]
fn after_a_restore_nothing_deleted_or_hidden_since_is_read() {
    let mut service = Service::start();
    let mut connection = Connection::open(service.server.address).unwrap();
    let mut create = |service: &mut Service, title| service.known.create(&mut connection, title, "A text.");
    let [kept, deleted, hidden] = ["kept", "deleted", "hidden"].map(|title| create(&mut service, title));
    let yesterday = service.path("yesterday.sqlite3");
    succeeded(&service.command([OsStr::new("backup"), yesterday.as_os_str()]));
    let hide = |service: &Service, slug: &str| {
        succeeded(&service.command(["hide", "--reason", "spam", "--by", "desk", slug]));
    };
    hide(&service, &hidden);
    let after = create(&mut service, "after");
    service.known.delete(&mut connection, &deleted);
    let archive = service.export("archive.ndjson");
    hide(&service, &after);
    service.server.stop_now();

    let restored = service.path("restored");
    fs::create_dir(&restored).unwrap();
    fs::copy(&yesterday, restored.join(DATABASE_FILE)).unwrap();
    fs::copy(service.path("data").join(JOURNAL_FILE), restored.join(JOURNAL_FILE)).unwrap();
    let server = Server::start(&restored, &[]);
    // The first answer after the start is right already.
    let status = |slug: &String| get(server.address, &format!("/{slug}")).unwrap().status;
    assert_eq!([&deleted, &hidden, &after, &kept].map(status), [410, 410, 410, 200]);
    assert!(server.announcement[2].ends_with("(2 pages, of which 1 hidden, 2 deletions)"), "{:?}", server.announcement);
    let inspected = on(&restored, ["inspect", &*hidden]);
    assert!(succeeded(&inspected).contains("\"by\":\"desk\""), "{inspected:?}");

    // An export from before the hiding has a page that the restored store lacks: no import shows it.
    import(&restored, &archive);
    assert_eq!([&deleted, &hidden, &after].map(status), [410; 3]);
    succeeded(&on(&restored, ["show", "--by", "desk", &*hidden]));
    assert_eq!([&hidden, &after].map(status), [200, 410]);
}

#[test]
fn a_backup_of_a_busy_store_is_whole_and_its_time_is_shown() {
    let mut service = Service::start();
    let address = service.server.address;
    service.known.load(address, 30);
    let last = |server: &Server| server.metric("handbill_last_backup_timestamp_seconds");
    assert_eq!(last(&service.server), 0);
    let plain = service.path("plain.sqlite3");
    let ((), _) = writing_while(address, || {
        succeeded(&service.command([OsStr::new("backup"), plain.as_os_str()]));
    });
    until_metrics(&service.server, |_| last(&service.server) > 1_700_000_000);
    let streamed = run(service.asking(["backup", "-"]), b"");
    assert!(streamed.status.success());
    let restored = service.path("restored");
    for bytes in [fs::read(&plain).unwrap(), streamed.stdout] {
        fs::create_dir(&restored).unwrap();
        fs::write(restored.join(DATABASE_FILE), bytes).unwrap();
        let server = Server::start(&restored, &[]);
        service.known.check(server.address, address);
        drop(server);
        fs::remove_dir_all(&restored).unwrap();
    }
    let Service { server, folder, .. } = service;
    assert!(server.stop().0.success());
    assert!(last(&Server::start(&folder.path().join("data"), &[])) > 1_700_000_000);
}

#[test]
fn a_backup_that_fails_leaves_no_file_under_its_name() {
    let mut service = Service::start();
    let mut connection = Connection::open(service.server.address).unwrap();
    for _ in 0..30 {
        service.known.create(&mut connection, "A page", &noise(100_000));
    }
    let file = service.path("backup.sqlite3");
    let parts = || {
        let files = fs::read_dir(&service.folder).unwrap().map(|file| file.unwrap().path());
        files.filter(|path| path.extension() == Some("part".as_ref())).collect::<Vec<_>>()
    };
    let backup = || service.asking([OsStr::new("backup"), file.as_os_str()]);
    for signal in [Signal::TERM, Signal::KILL] {
        let mut child = backup().spawn().unwrap();
        while parts().is_empty() && child.try_wait().unwrap().is_none() {}
        kill_process(pid(&child), signal).unwrap();
        assert!(!child.wait().unwrap().success());
        assert!(!file.exists());
        // A killed backup leaves what it has written.
        for part in parts() {
            fs::remove_file(part).unwrap();
        }
    }
    // A limit of 512 KiB for a file stands in for a full disk.
    let mut command = handbill_after("trap '' XFSZ && ulimit -f 1024");
    command.args(backup().get_args());
    let output = run(command, b"");
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("cannot write"), "{}", text(&output.stderr));
    assert!(!file.exists() && parts().is_empty());
    assert_eq!(service.server.metric("handbill_last_backup_timestamp_seconds"), 0);
    let mut data = fs::read_dir(service.path("data")).unwrap().map(|file| file.unwrap().path());
    assert!(data.all(|path| path.extension().is_none_or(|ending| ending != "copy")));
    succeeded(&run(backup(), b""));

    fs::create_dir(service.path("data").join("handbill.sqlite3.copy")).unwrap();
    let output = service.command([OsStr::new("backup"), service.path("another").as_os_str()]);
    assert!(refused(&output).contains("the data directory needs room"), "{output:?}");
}

#[test]
fn an_import_that_is_refused_says_why_and_not_that_the_process_ended() {
    let service = Service::start();
    let long = "x".repeat(20_000_000);
    let header = r#"{"handbill": "archive", "version": 99}"#;
    for archive in [&*long, "no archive\n", header, &format!("{header}\n{long}\n")].repeat(10) {
        let refused = run(service.asking(["import", "-"]), archive.as_bytes());
        let reason = text(&refused.stderr);
        assert_eq!(refused.status.code(), Some(1), "{reason}");
        assert!(!reason.contains("the process at"), "{reason}");
        assert!(reason.contains("import --after 0 can import the rest"), "{reason}");
    }
}

#[test]
fn an_export_whose_output_cannot_be_written_ends_with_1() {
    let service = Service::start();
    let mut command = service.asking(["export"]);
    command.stdout(fs::File::create("/dev/full").unwrap());
    let output = run(command, b"");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(text(&output.stderr).contains("cannot write the output"), "{output:?}");
}

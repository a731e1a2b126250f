//! A data file that is damaged: before the server starts, while it runs, and so that it cannot be opened again.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::FileExt;
use std::path::Path;

use redb::{Database, TableDefinition};
use tempfile::tempdir;

use super::client::{get, post};
use super::moving::on;
use super::support::{Server, handbill, handbill_after, run, text};
use crate::support::pages::noise;

const DATABASE: &str = "handbill.redb";

const FREE_PORTS: [&str; 4] = ["--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"];

/// Size of the head of the database's file, in bytes.
const HEAD_BYTES: usize = 4096;

/// The one line with which a start in `data_dir` is refused, which is the same in either log format.
fn refused(data_dir: &Path) -> String {
    let mut lines = ["text", "json"].map(|format| {
        let mut command =
            handbill(["--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--log-format", format]);
        command.arg("--data-dir").arg(data_dir);
        let output = run(command, b"");
        let line = text(&output.stderr).to_owned();
        assert_eq!(output.status.code(), Some(2), "{line}");
        assert_eq!(text(&output.stdout), "");
        assert!(line.starts_with("handbill: ") && line.lines().count() == 1, "{line}");
        line
    });
    assert_eq!(lines[0], lines[1]);
    std::mem::take(&mut lines[0])
}

/// A directory with a database of one page.
fn with_a_page(directory: &Path) -> Vec<u8> {
    let server = Server::start(directory, &[]);
    assert_eq!(post(server.address, "A page", "Its text.").unwrap().status, 201);
    assert!(server.stop().0.success());
    fs::read(directory.join(DATABASE)).unwrap()
}

#[test]
fn a_damaged_file_stops_the_start_with_one_line_in_either_log_format() {
    let directory = tempdir().unwrap();
    let whole = with_a_page(directory.path());
    let filled = |byte: u8| {
        let mut bytes = whole.clone();
        bytes[HEAD_BYTES..].fill(byte);
        bytes
    };
    let cut = |len: usize| whole[..len].to_vec();
    for bytes in
        [cut(0), cut(100), cut(HEAD_BYTES), cut(whole.len() / 2), b"text\n".repeat(5000), filled(0xaa), filled(0xff)]
    {
        fs::write(directory.path().join(DATABASE), bytes).unwrap();
        let line = refused(directory.path());
        assert!(line.contains("is damaged or no Handbill database"), "{line}");
        assert!(line.contains("restore it from a backup"), "{line}");
    }
}

#[test]
fn a_file_in_an_older_or_newer_format_stops_every_command_with_one_line_that_says_what_to_do_and_stays_as_it_is() {
    const META: TableDefinition<&str, u64> = TableDefinition::new("meta");
    // The program before an upgrade meets a format after its own.
    for format in [1, 1000] {
        let directory = tempdir().unwrap();
        with_a_page(directory.path());
        let path = directory.path().join(DATABASE);
        let database = Database::open(&path).unwrap();
        let transaction = database.begin_write().unwrap();
        transaction.open_table(META).unwrap().insert("format", format).unwrap();
        transaction.commit().unwrap();
        drop(database);
        let before = fs::read(&path).unwrap();
        let is_clear = |line: &str| {
            line.contains(&format!("has format {format} ")) && line.contains("start the version that wrote it")
        };
        let line = refused(directory.path());
        assert!(is_clear(&line) && line.contains("choose another data directory"), "{line}");
        for (command, code) in [("export", 2), ("compact", 2), ("check", 1)] {
            let output = on(directory.path(), [command]);
            let said = format!("{}{}", text(&output.stdout), text(&output.stderr));
            assert!(output.status.code() == Some(code) && is_clear(&said), "{command}: {output:?}");
        }
        assert!(fs::read(&path).unwrap() == before, "a program of another format has changed the file");
    }
}

#[test]
fn a_flipped_bit_in_a_text_answers_500_and_is_counted_and_other_pages_are_served() {
    let directory = tempdir().unwrap();
    let server = Server::start(directory.path(), &[]);
    let slug = |title: &str, content: &str| {
        let page = post(server.address, title, content).unwrap().json();
        page["slug"].as_str().unwrap().to_owned()
    };
    let (damaged, whole) = (slug("Damaged", "The sum is 1000000 pounds."), slug("Whole", "Another page."));
    assert!(server.stop().0.success());
    let path = directory.path().join(DATABASE);
    let mut bytes = fs::read(&path).unwrap();
    let sum = b"1000000";
    for at in 0..bytes.len() - sum.len() {
        if bytes[at..].starts_with(sum) {
            // The text stays valid, so only its checksum shows the damage: a 9 in place of the 1.
            bytes[at] ^= 0b1000;
        }
    }
    fs::write(&path, bytes).unwrap();

    let server = Server::start(directory.path(), &[]);
    for target in [format!("/api/pages/{damaged}"), format!("/{damaged}"), format!("/{damaged}.md")] {
        let answer = get(server.address, &target).unwrap();
        assert_eq!(answer.status, 500, "{target}: {}", answer.text());
        assert!(!answer.text().contains("000000"), "{target}: {}", answer.text());
    }
    let answer = get(server.address, &format!("/api/pages/{damaged}")).unwrap();
    assert_eq!(answer.problem(), (500, "internal".to_owned()));
    assert_eq!(get(server.address, &format!("/api/pages/{whole}")).unwrap().status, 200);
    let metrics = get(server.admin, "/metrics").unwrap();
    assert!(metrics.text().contains("\nhandbill_store_corrupt_records_total 4\n"), "{}", metrics.text());
    assert!(server.stop().0.success());
}

#[test]
fn a_flipped_bit_anywhere_in_the_file_stops_the_start_with_one_line_or_is_never_another_text() {
    let directory = tempdir().unwrap();
    let server = Server::start(directory.path(), &[]);
    let page = post(server.address, "A page", "Its *very* own text.").unwrap().json();
    let slug = page["slug"].as_str().unwrap();
    let target = format!("/api/pages/{slug}");
    let written = get(server.address, &target).unwrap().json();
    assert!(server.stop().0.success());
    let path = directory.path().join(DATABASE);
    let whole = fs::read(&path).unwrap();
    let used: Vec<_> = (0..whole.len()).filter(|&at| whole[at] != 0).collect();
    let mut seen = std::collections::BTreeMap::<_, usize>::new();
    // Some of the used bytes, and every second byte of the record, which follows its key.
    let key = |at: &usize| whole[*at..].starts_with(slug.as_bytes());
    let record = (0..whole.len()).filter(key).flat_map(|key| (key..key + 150).step_by(2));
    for at in used.iter().copied().step_by(1 + used.len() / 100).chain(record) {
        let mut flipped = whole.clone();
        flipped[at] ^= 1 << (at % 8);
        fs::write(&path, flipped).unwrap();
        let mut command = handbill(FREE_PORTS);
        let mut child = command.arg("--data-dir").arg(directory.path()).spawn().unwrap();
        let mut announcement = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut announcement).unwrap();
        if announcement.is_empty() {
            let output = child.wait_with_output().unwrap();
            let line = text(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "byte {at}: {line}");
            assert!(line.starts_with("handbill: ") && line.lines().count() == 1, "byte {at}: {line}");
            *seen.entry(0).or_default() += 1;
            continue;
        }
        let (_, address) = announcement.split_once("http://").unwrap();
        let address = address.split(' ').next().unwrap().parse().unwrap();
        let answer = get(address, &target).unwrap();
        if answer.status == 200 {
            assert_eq!(answer.json()["content"], written["content"], "byte {at}");
            assert_eq!(answer.json()["content_html"], written["content_html"], "byte {at}");
        }
        assert!([200, 500].contains(&answer.status), "byte {at}: {}", answer.text());
        *seen.entry(answer.status).or_default() += 1;
        child.kill().unwrap();
        child.wait().unwrap();
    }
    println!("{seen:?}");
    assert!(seen[&200] > 0 && seen[&500] > 0, "{seen:?}");
}

#[test]
fn a_store_that_cannot_be_opened_again_ends_the_process_with_a_line_that_says_why() {
    let directory = tempdir().unwrap();
    // Files of at most 8 MiB stand in for a full volume: the write that fails makes the store open its file again.
    let mut server =
        Server::start_as(handbill_after("trap '' XFSZ && ulimit -f 16384"), directory.path(), &["--create-limit", "0"]);
    let path = directory.path().join(DATABASE);
    let content = noise(100_000);
    while post(server.address, "One of many", &content).is_ok_and(|answer| answer.status == 201) {
        // Each commit rewrites the bytes that opening reads, so the damage must come after the last commit.
        let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
        let len = usize::try_from(file.metadata().unwrap().len()).unwrap();
        file.write_all_at(&vec![0xaa; len - HEAD_BYTES], HEAD_BYTES as u64).unwrap();
    }
    assert_eq!(server.wait().code(), Some(1));
    let (.., log) = server.finish();
    let line = log.lines().find(|line| line.starts_with("handbill: ")).unwrap_or_else(|| panic!("no line in {log}"));
    assert!(line.contains("cannot be opened again") && line.contains("is damaged"), "{line}");
}

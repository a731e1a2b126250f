//! What a released version has written, each later one reads (contract, decision 27): see `tests/tools/frozen`.

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use handbill_store_sqlite::{DATABASE_FILE, JOURNAL_FILE};
use handbill_test_support::client::{JSON, bearer, get, request};
use handbill_test_support::server::{Server, handbill, import, run, succeeded};
use serde_json::{Value, json};
use tempfile::tempdir;

/// The files of a version, and its pages by slug: what the API showed, or null if the page was gone.
struct Frozen {
    folder: PathBuf,
    pages: BTreeMap<String, Option<Value>>,
}

fn versions() -> Vec<Frozen> {
    let folders = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/frozen")).unwrap();
    let folders = folders.map(|entry| entry.unwrap().path()).filter(|path| path.is_dir());
    let read = |folder: PathBuf| Frozen {
        pages: serde_json::from_slice(&fs::read(folder.join("pages.json")).unwrap()).unwrap(),
        folder,
    };
    let versions: Vec<_> = folders.map(read).collect();
    assert!(!versions.is_empty(), "there are no frozen files");
    versions
}

impl Frozen {
    /// A server on copies of `files`, each with its new name.
    fn serve(&self, data: &Path, files: &[(&str, &str)]) -> Server {
        fs::create_dir(data).unwrap();
        for (from, to) in files {
            fs::copy(self.folder.join(from), data.join(to)).unwrap();
        }
        let server = Server::start(data, &["--base-url", "https://pages.example"]);
        server.ready();
        server
    }

    fn keys(&self) -> BTreeMap<String, String> {
        let lines = fs::read_to_string(self.folder.join("keys.jsonl")).unwrap();
        let keys = lines.lines().map(|line| serde_json::from_str(line).unwrap()).map(|saved: Value| {
            let (url, key) = (saved["url"].as_str().unwrap(), saved["edit_key"].as_str().unwrap());
            (url.rsplit('/').next().unwrap().to_owned(), key.to_owned())
        });
        keys.collect()
    }

    fn check(&self, address: SocketAddr) {
        for (slug, page) in &self.pages {
            let answer = get(address, &format!("/api/pages/{slug}")).unwrap();
            match page {
                None => assert_eq!(answer.status, 410, "{slug}"),
                Some(page) => {
                    let mut found = answer.json();
                    found.as_object_mut().unwrap().remove("content_html").expect("it is rendered");
                    assert_eq!(&found, page, "{slug}");
                    let links = found["content"].as_str().unwrap().contains("https://links.example");
                    let html = get(address, &format!("/{slug}")).unwrap();
                    assert_eq!(html.header("x-robots-tag").is_some(), links, "{slug}");
                }
            }
        }
    }
}

#[test]
fn a_frozen_database_is_served_with_its_keys() {
    for frozen in versions() {
        let folder = tempdir().unwrap();
        let files = [("handbill.sqlite3", DATABASE_FILE), ("journal.jsonl", JOURNAL_FILE)];
        let server = frozen.serve(&folder.path().join("data"), &files);
        frozen.check(server.address);
        let keys = frozen.keys();
        for (slug, page) in &frozen.pages {
            let headers = [JSON, ("Authorization", &*bearer(&keys[slug]))];
            let answer = request(server.address, "PATCH", &format!("/api/pages/{slug}"), &headers, b"{}").unwrap();
            assert_eq!(answer.status, if page.is_some() { 200 } else { 410 }, "{slug}");
        }
    }
}

#[test]
fn a_frozen_archive_is_imported_whole() {
    for frozen in versions() {
        let folder = tempdir().unwrap();
        let data = folder.path().join("data");
        let server = frozen.serve(&data, &[]);
        import(&data, &frozen.folder.join("archive.ndjson"));
        frozen.check(server.address);
    }
}

/// The journal goes on after the backup: it deletes, hides and takes down.
#[test]
fn a_frozen_backup_is_restored_with_its_journal() {
    for frozen in versions() {
        let folder = tempdir().unwrap();
        let files = [("backup.sqlite3", DATABASE_FILE), ("journal.jsonl", JOURNAL_FILE)];
        frozen.check(frozen.serve(&folder.path().join("data"), &files).address);
    }
}

#[test]
fn a_frozen_key_file_lists_every_page() {
    for frozen in versions() {
        let folder = tempdir().unwrap();
        let file = folder.path().join("keys.jsonl");
        fs::copy(frozen.folder.join("keys.jsonl"), &file).unwrap();
        let mut command = handbill(["list", "--json", "--keys-dir"]);
        command.arg(folder.path());
        let listed = run(command, b"");
        let pages = succeeded(&listed).lines().map(|line| serde_json::from_str(line).unwrap());
        let urls: Vec<Value> = pages.map(|page: Value| page["url"].clone()).collect();
        assert_eq!(urls.len(), frozen.pages.len());
        for slug in frozen.pages.keys() {
            assert!(urls.contains(&json!(format!("https://pages.example/{slug}"))), "{slug}");
        }
    }
}

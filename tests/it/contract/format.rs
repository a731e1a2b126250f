//! A data directory that was written once, by the program of the release: `format_6/` is that of the format 6. Whoever changes what
//! is stored sees here that files which exist no longer open. Before the first release such a change replaces the directory; after
//! it, the older files are read or refused, and `CHANGELOG.md` says which.

use std::fs;
use std::path::Path;

use handbill_core::domain::audit::AuditAction;
use handbill_core::domain::language::Language;
use handbill_core::domain::page::Tombstone;
use handbill_core::domain::slug::Slug;
use handbill_core::domain::takedown::{Takedown, TakedownReason};
use handbill_core::ports::audit_log::AuditLog;
use handbill_core::ports::page_scan::{PageScan, ScanLimit};
use handbill_core::ports::page_store::{Lookup, PageStore};
use handbill_store_redb::{DATABASE_FILE, LEDGER_FILE, RedbStore, check};
use tempfile::TempDir;

const DATABASE: &[u8] = include_bytes!("format_6/handbill.redb.zst");
const LEDGER: &[u8] = include_bytes!("format_6/handbill.ledger");

/// A copy of the directory.
pub(super) fn written_once() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join(DATABASE_FILE), zstd::decode_all(DATABASE).unwrap()).unwrap();
    fs::write(directory.path().join(LEDGER_FILE), LEDGER).unwrap();
    directory
}

async fn found(store: &RedbStore, slug: &str) -> Lookup {
    store.lookup(&Slug::parse(slug).unwrap()).await.unwrap()
}

#[tokio::test]
async fn a_file_that_was_written_once_is_read_to_its_last_record() {
    let directory = written_once();
    let checked = check(directory.path(), &|_, _| {}).unwrap();
    assert_eq!((checked.pages, checked.tombstones, checked.ledger, checked.faults), (3, 2, 2, Vec::new()));

    let store = RedbStore::open(directory.path()).unwrap();
    let Lookup::Active(page) = found(&store, "a-page-with-everything-6h8x6wpw").await else { panic!("it is there") };
    assert_eq!(page.head.title.as_ref().unwrap().as_str(), "A page with everything");
    assert_eq!(
        (page.head.version.get(), page.head.link_origins.as_slice()),
        (1, &["https://example.com".to_owned()][..])
    );
    assert!(page.text.content.as_str().starts_with("# Heading\n") && page.text.content.as_str().ends_with("dazu.\n"));
    assert!(
        page.text.html.contains("<em>marks</em>") && page.text.excerpt.starts_with("Heading Text with"),
        "{page:?}"
    );
    assert_eq!((page.text.code_blocks.len(), page.text.language), (1, Language::from_code("de")));

    let Lookup::Active(page) = found(&store, "edited-2vvyv4vn").await else { panic!("it is there") };
    assert_eq!((page.head.version.get(), &page.head.title), (2, &None));
    assert!(page.head.updated_at > page.head.created_at);
    let Lookup::Hidden(head) = found(&store, "hidden-z6cx4phh").await else { panic!("it is hidden") };
    let by_desk = |reason| Takedown::new(reason, "desk").unwrap();
    assert_eq!(head.hidden.as_ref().unwrap().takedown, by_desk(TakedownReason::Spam));
    assert_eq!(store.page(&head).await.unwrap().unwrap().text.content.as_str(), "A hidden text.");
    for (slug, takedown) in
        [("deleted-g7sd3dkv", None), ("taken-down-qb9g4z65", Some(by_desk(TakedownReason::Phishing)))]
    {
        let Lookup::Deleted(tombstone) = found(&store, slug).await else { panic!("{slug} is deleted") };
        let Tombstone { takedown: found, version, created_at, deleted_at, .. } = tombstone;
        assert_eq!((found, version.get(), deleted_at > created_at), (takedown, 2, true));
    }
    let scanned = store.scan(None, ScanLimit::DEFAULT).await.unwrap();
    assert_eq!((scanned.records.len(), scanned.visibilities.len()), (5, 1));

    let audit = store.list(0, 10).await.unwrap();
    let numbers: Vec<_> = audit.iter().map(|entry| entry.number).collect();
    assert_eq!(numbers, [1, 2, 3, 4, 5, 6, 7]);
    assert!(audit.iter().all(|entry| entry.entry.by == "desk"));
    let actions: Vec<_> = audit.into_iter().map(|entry| entry.entry.action).collect();
    let creates = |paused| AuditAction::Creates { paused, hourly_budget: None };
    assert!(matches!(&actions[0], AuditAction::Hide { reason: TakedownReason::Spam, .. }), "{actions:?}");
    assert!(matches!(&actions[1], AuditAction::Takedown { reason: TakedownReason::Phishing, .. }), "{actions:?}");
    let inspected = AuditAction::Inspect { slug: Slug::parse("taken-down-qb9g4z65").unwrap() };
    assert_eq!(actions[2..], [creates(true), creates(false), inspected, AuditAction::Export, AuditAction::Scan]);
    store.slug_secret().await.unwrap();
}

/// Every file in `directory` but the lock, with its bytes.
pub(super) fn files(directory: &Path) -> Vec<(String, Vec<u8>)> {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = entries
        .map(|path| (path.file_name().unwrap().to_str().unwrap().to_owned(), fs::read(path).unwrap()))
        .filter(|(name, _)| name != "handbill.lock")
        .collect();
    files.sort();
    files
}

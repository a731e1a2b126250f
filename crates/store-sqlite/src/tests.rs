//! What only this store promises: its files, its journal, its backups, and what it does on bad days. The rules of all stores are in
//! `tests/it/contract`.

use std::io::{Read, Write as _};
use std::path::{Path, PathBuf};
use std::{collections::HashSet, fs, os::unix::fs::PermissionsExt, sync::Arc, time::Instant};

use handbill_pages::ports::page_scan::{PageScan, ScanLimit};
use handbill_pages::ports::page_store::{ChangeListener, CreatesSwitch, Expected, PageStore, PutResult, StoreError};
use handbill_pages::ports::{operated_store::OperatedStore, random::Random};
use handbill_pages::values::details::{Details, DetailsPatch};
use handbill_pages::values::slug::{Slug, SlugSuffix};
use handbill_pages::values::takedown::{Takedown, TakedownReason};
use handbill_pages::values::{
    content::Content, edit_key::EditKey, head::PageHead, markdown::render, page::Page, record::Record,
    timestamp::UnixMillis, title::Title,
};
use parking_lot::Mutex;
use rusqlite::Connection;
use tempfile::tempdir;
use tokio::sync::oneshot;

use super::database::{BUSY_TIMEOUT, DatabaseOptions};
use super::writer::{Shared, Write, Writer};
use super::{Counts, DATABASE_FILE, JOURNAL_FILE, OpenError, SqliteStore, change::Operation, journal::Journal};

const CREATED: i64 = 1_795_235_400_123;

fn at(millis: i64) -> UnixMillis {
    UnixMillis::new(CREATED + millis)
}

fn page(content: &str) -> Arc<Page> {
    let title = Title::parse("A test page").unwrap();
    let slug = Slug::derive(&title, SlugSuffix::random(|below| Random::System.indices().below(below)));
    let key = EditKey::random(|below| Random::System.indices().below(below)).hash();
    let head = PageHead::first(slug, Details::with_title(title), key, at(0));
    Arc::new(Page::new(head, Content::parse(content.to_owned()).unwrap(), render(content)))
}

/// `page` with other content, as of `millis`.
fn edited(page: &Page, content: &str, millis: i64) -> Arc<Page> {
    let head = page.head.clone().updated(&DetailsPatch::default(), at(millis));
    Arc::new(Page::new(head, Content::parse(content.to_owned()).unwrap(), render(content)))
}

fn takedown() -> Takedown {
    Takedown::new(TakedownReason::Phishing, "desk, ticket 7").unwrap()
}

/// `page` after it was hidden or shown at `millis`.
fn turned(page: &Page, hiding: Option<Takedown>, millis: i64) -> Record {
    let page = Arc::new(Page { head: page.head.clone().changed(at(millis)), text: page.text.clone() });
    match hiding {
        Some(takedown) => Record::Hidden(page, takedown),
        None => Record::Active(page),
    }
}

fn open(directory: &Path) -> SqliteStore {
    SqliteStore::open(directory, false).unwrap()
}

fn refused(directory: &Path) -> OpenError {
    let error = SqliteStore::open(directory, false).err().expect("the directory is refused");
    assert!(!error.to_string().contains('\n'), "{error}");
    error
}

async fn insert(store: &SqliteStore, page: &Arc<Page>) {
    assert_eq!(store.put(Expected::Absent, Record::Active(Arc::clone(page)), None).await.unwrap(), PutResult::Done);
}

async fn replace(store: &SqliteStore, page: &Page, next: Record) -> PutResult {
    store.put(Expected::page(&page.head), next, None).await.unwrap()
}

async fn delete(store: &SqliteStore, page: &Page, millis: i64) -> Record {
    let tombstone = Record::Deleted(page.head.tombstone(at(millis)));
    assert_eq!(replace(store, page, tombstone.clone()).await, PutResult::Done);
    tombstone
}

async fn found(store: &SqliteStore, page: &Page) -> Option<Record> {
    store.lookup(&page.head.slug).await.unwrap()
}

/// Copies the database of `store` into the folder `to`.
async fn copy(store: &SqliteStore, to: &Path) {
    let mut bytes = Vec::new();
    store.copy().await.unwrap().unwrap().read_to_end(&mut bytes).unwrap();
    fs::write(to.join(DATABASE_FILE), bytes).unwrap();
}

fn journal(directory: &Path) -> Vec<serde_json::Value> {
    let text = fs::read_to_string(directory.join(JOURNAL_FILE)).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn raw(directory: &Path) -> Connection {
    Connection::open(directory.join(DATABASE_FILE)).unwrap()
}

#[tokio::test]
async fn everything_is_found_again_after_a_restart() {
    let directory = tempdir().unwrap();
    let store = open(directory.path());
    let (kept, changed, deleted, hidden) = (page("kept"), page("old"), page("gone"), page("hidden"));
    for page in [&kept, &changed, &deleted, &hidden] {
        insert(&store, page).await;
    }
    let next = edited(&changed, "new", 1);
    replace(&store, &changed, Record::Active(Arc::clone(&next))).await;
    let tombstone = delete(&store, &deleted, 1).await;
    let turned = turned(&hidden, Some(takedown()), 1);
    replace(&store, &hidden, turned.clone()).await;
    store.set_paused(true).await.unwrap();
    let secret = *store.slug_secret().await.unwrap().as_bytes();
    drop(store);

    let store = open(directory.path());
    assert_eq!(found(&store, &kept).await, Some(Record::Active(kept)));
    assert_eq!(found(&store, &next).await, Some(Record::Active(Arc::clone(&next))));
    assert_eq!(found(&store, &deleted).await, tombstone.into());
    assert_eq!(found(&store, &hidden).await, turned.into());
    assert!(store.paused().await.unwrap());
    assert_eq!(*store.slug_secret().await.unwrap().as_bytes(), secret);
    assert_eq!(store.counts().await.unwrap(), Counts { pages: 3, hidden: 1, deletions: 1 });
}

#[test]
fn a_missing_directory_is_made_for_its_user_alone() {
    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    let parent = tempdir().unwrap();
    let directory = parent.path().join("some/where");
    let _store = open(&directory);
    assert_eq!(mode(&directory), 0o700);
    for file in [DATABASE_FILE, "handbill.sqlite3-wal", JOURNAL_FILE] {
        assert_eq!(mode(&directory.join(file)), 0o600, "{file}");
    }
}

#[tokio::test]
async fn a_directory_in_use_is_refused_but_may_be_read() {
    let directory = tempdir().unwrap();
    let store = open(directory.path());
    insert(&store, &page("text")).await;
    assert!(matches!(refused(directory.path()), OpenError::InUse(_)));
    let count: i64 = raw(directory.path()).query_row("SELECT count(*) FROM pages", [], |row| row.get(0)).unwrap();
    assert_eq!(count, 1);
    drop(store);
    open(directory.path());
}

#[test]
fn a_newer_or_foreign_database_is_refused_and_stays() {
    let newer = tempdir().unwrap();
    drop(open(newer.path()));
    raw(newer.path()).pragma_update(None, "user_version", 2).unwrap();
    assert!(matches!(refused(newer.path()), OpenError::Newer { found: 2, known: 1, .. }));

    let foreign = tempdir().unwrap();
    raw(foreign.path()).execute_batch("CREATE TABLE mine (x)").unwrap();
    assert!(matches!(refused(foreign.path()), OpenError::Damaged { .. }));

    let noise = tempdir().unwrap();
    fs::write(noise.path().join(DATABASE_FILE), [7; 10_000]).unwrap();
    assert!(matches!(refused(noise.path()), OpenError::Damaged { .. }));
    assert_eq!(fs::read(noise.path().join(DATABASE_FILE)).unwrap(), [7; 10_000]);
}

#[tokio::test]
async fn a_journal_without_a_database_needs_new_store() {
    let directory = tempdir().unwrap();
    let store = open(directory.path());
    let gone = page("gone");
    insert(&store, &gone).await;
    delete(&store, &gone, 1).await;
    drop(store);
    let again = |is_new| SqliteStore::open(directory.path(), is_new);
    assert!(matches!(again(true), Err(OpenError::NotLost(_))));
    fs::remove_file(directory.path().join(DATABASE_FILE)).unwrap();
    assert!(matches!(again(false), Err(OpenError::Lost(_))));
    // As a process leaves it that ends while it makes the database.
    fs::write(directory.path().join(DATABASE_FILE), "").unwrap();
    assert!(matches!(again(false), Err(OpenError::Lost(_))));
    assert!(matches!(found(&again(true).unwrap(), &gone).await, Some(Record::Deleted(_))));
}

#[tokio::test]
async fn a_restore_brings_back_nothing_deleted_or_hidden_since() {
    let directory = tempdir().unwrap();
    let store = open(directory.path());
    let [kept, deleted, hidden, shown, taken_down, late] = ["a", "b", "c", "d", "e", "f"].map(page);
    for page in [&kept, &deleted, &hidden, &shown, &taken_down] {
        insert(&store, page).await;
    }
    let was_hidden = turned(&shown, Some(takedown()), 1);
    replace(&store, &shown, was_hidden.clone()).await;
    let was_hidden = was_hidden.page().unwrap();
    let backups = tempdir().unwrap();
    copy(&store, backups.path()).await;

    insert(&store, &late).await;
    replace(&store, &kept, Record::Active(edited(&kept, "lost with the newer database", 3))).await;
    delete(&store, &deleted, 3).await;
    replace(&store, &hidden, turned(&hidden, Some(takedown()), 3)).await;
    replace(&store, was_hidden, turned(was_hidden, None, 3)).await;
    replace(&store, &taken_down, Record::Deleted(taken_down.head.taken_down(takedown(), at(3)))).await;
    delete(&store, &late, 3).await;
    drop(store);

    fs::copy(directory.path().join(JOURNAL_FILE), backups.path().join(JOURNAL_FILE)).unwrap();
    let store = open(backups.path());
    assert_eq!(found(&store, &kept).await, Some(Record::Active(kept)));
    assert!(matches!(found(&store, &deleted).await, Some(Record::Deleted(_))));
    assert!(matches!(found(&store, &hidden).await, Some(Record::Hidden(_, by)) if by == takedown()));
    let Some(Record::Active(again)) = found(&store, &shown).await else { panic!() };
    assert_eq!(again.text, shown.text);
    let Some(Record::Deleted(tombstone)) = found(&store, &taken_down).await else { panic!() };
    assert_eq!((tombstone.state, tombstone.created_at), (Some(takedown()), at(0)));
    assert!(matches!(found(&store, &late).await, Some(Record::Deleted(_))));
    assert_ne!(store.put(Expected::Absent, Record::Active(Arc::clone(&late)), None).await.unwrap(), PutResult::Done);
    // What is done after the restore stays, whatever the journal said before.
    let next = edited(&again, "after the restore", 9);
    replace(&store, &again, Record::Active(Arc::clone(&next))).await;
    drop(store);
    let store = open(backups.path());
    assert_eq!(found(&store, &shown).await, Some(Record::Active(next)));
    assert!(matches!(found(&store, &deleted).await, Some(Record::Deleted(_))));
}

#[tokio::test]
async fn a_page_that_the_backup_lacks_is_deleted_if_it_was_hidden() {
    let directory = tempdir().unwrap();
    let store = open(directory.path());
    let [hidden, shown, again] = ["a", "b", "c"].map(page);
    for (page, turns) in [(&hidden, 1), (&shown, 2), (&again, 3)] {
        insert(&store, page).await;
        let mut page = Arc::clone(page);
        for turn in 1..=turns {
            let next = turned(&page, (turn % 2 == 1).then(takedown), turn);
            replace(&store, &page, next.clone()).await;
            page = Arc::clone(next.page().unwrap());
        }
    }
    drop(store);
    let backup = tempdir().unwrap();
    fs::copy(directory.path().join(JOURNAL_FILE), backup.path().join(JOURNAL_FILE)).unwrap();
    let store = SqliteStore::open(backup.path(), true).unwrap();
    for page in [&hidden, &again] {
        let Some(Record::Deleted(tombstone)) = found(&store, page).await else { panic!("it is hidden") };
        assert_eq!(tombstone.state, Some(takedown()));
    }
    assert_eq!(found(&store, &shown).await, None);
}

fn append(directory: &Path, text: &str) {
    let mut file = fs::OpenOptions::new().append(true).open(directory.join(JOURNAL_FILE)).unwrap();
    file.write_all(text.as_bytes()).unwrap();
}

fn line(kind: &str, page: &Page, version: u64, millis: i64) -> String {
    format!("{{\"kind\":\"{kind}\",\"slug\":\"{}\",\"version\":{version},\"at\":\"{}\"}}\n", page.head.slug, at(millis))
}

#[tokio::test]
async fn what_a_crash_leaves_after_the_journal_is_settled_at_start() {
    let directory = tempdir().unwrap();
    let store = open(directory.path());
    let [deleted, void, again, newer, whole] = ["a", "b", "c", "d", "e"].map(page);
    for page in [&deleted, &void, &again, &newer, &whole] {
        insert(&store, page).await;
    }
    let later = edited(&newer, "later", 5);
    replace(&store, &newer, Record::Active(Arc::clone(&later))).await;
    drop(store);
    for text in [
        line("delete", &deleted, 2, 1),
        line("delete", &void, 2, 1),
        line("void", &void, 2, 1),
        line("delete", &again, 2, 1),
        line("void", &again, 2, 1),
        line("delete", &again, 2, 1),
        "a damaged line\n".to_owned(),
        line("delete", &newer, 1, 1),
        line("delete", &whole, 2, 1).trim_end().to_owned(),
    ] {
        append(directory.path(), &text);
    }
    let store = open(directory.path());
    assert!(matches!(found(&store, &deleted).await, Some(Record::Deleted(_))));
    assert_eq!(found(&store, &void).await, Some(Record::Active(void)));
    assert!(
        matches!(found(&store, &again).await, Some(Record::Deleted(_))),
        "it was deleted after that was taken back once"
    );
    assert_eq!(found(&store, &newer).await, Some(Record::Active(later)));
    assert_eq!(found(&store, &whole).await, Some(Record::Active(Arc::clone(&whole))), "its line is not whole");
    delete(&store, &whole, 2).await;
    drop(store);
    let text = fs::read_to_string(directory.path().join(JOURNAL_FILE)).unwrap();
    assert!(text.ends_with(&line("delete", &whole, 2, 2)), "{text}");
    assert!(matches!(found(&open(directory.path()), &whole).await, Some(Record::Deleted(_))));
}

#[tokio::test]
async fn a_journal_of_another_history_is_applied_as_a_whole() {
    let directory = tempdir().unwrap();
    let store = open(directory.path());
    let [first, second] = ["a", "b"].map(page);
    insert(&store, &first).await;
    insert(&store, &second).await;
    delete(&store, &first, 1).await;
    drop(store);
    // As long as the one that was applied, and another.
    fs::write(directory.path().join(JOURNAL_FILE), line("delete", &second, 2, 1)).unwrap();
    let store = open(directory.path());
    assert!(matches!(found(&store, &second).await, Some(Record::Deleted(_))));
    drop(store);
    fs::remove_file(directory.path().join(JOURNAL_FILE)).unwrap();
    let store = open(directory.path());
    assert!(matches!(found(&store, &first).await, Some(Record::Deleted(_))));
}

#[tokio::test]
async fn a_damaged_text_is_named_and_can_be_taken_down() {
    let directory = tempdir().unwrap();
    let store = open(directory.path());
    let [damaged, whole] = ["This text will be damaged.", "whole"].map(page);
    insert(&store, &damaged).await;
    insert(&store, &whole).await;
    drop(store);
    let slug = damaged.head.slug.as_str();
    let text = raw(directory.path()).query_row("SELECT text FROM pages WHERE slug = ?1", [slug], |row| row.get(0));
    let mut text: Vec<u8> = text.unwrap();
    text[20] ^= 1;
    raw(directory.path()).execute("UPDATE pages SET text = ?2 WHERE slug = ?1", rusqlite::params![slug, text]).unwrap();

    let store = open(directory.path());
    let Err(error @ StoreError::Unreadable(_)) = store.lookup(&damaged.head.slug).await else { panic!() };
    assert!(error.causes().contains(damaged.head.slug.as_str()), "{}", error.causes());
    assert!(matches!(store.head(&damaged.head.slug).await, Err(StoreError::Unreadable(_))));
    assert_eq!(found(&store, &whole).await, Some(Record::Active(Arc::clone(&whole))));
    let (good, bad): (Vec<_>, Vec<_>) = store
        .scan(None, ScanLimit { records: 256, bytes: 4 << 20 })
        .await
        .unwrap()
        .records
        .into_iter()
        .partition(Result::is_ok);
    assert_eq!(good.into_iter().map(Result::unwrap).collect::<Vec<_>>(), [Record::Active(Arc::clone(&whole))]);
    let names: Vec<_> = bad.into_iter().map(|record| record.unwrap_err().name).collect();
    assert_eq!(names, [damaged.head.slug.to_string()]);

    let other = whole.head.taken_down(takedown(), at(1));
    assert_eq!(store.put(Expected::Unreadable, Record::Deleted(other), None).await.unwrap(), PutResult::Refused);
    let tombstone = damaged.head.taken_down(takedown(), at(1));
    assert_eq!(
        store.put(Expected::Unreadable, Record::Deleted(tombstone.clone()), None).await.unwrap(),
        PutResult::Done
    );
    assert_eq!(found(&store, &damaged).await, Some(Record::Deleted(tombstone)));
    assert_eq!(journal(directory.path()).len(), 1);
}

#[tokio::test]
async fn a_flipped_bit_in_the_file_is_never_another_text() {
    let directory = tempdir().unwrap();
    let pages: Vec<_> = (0..20).map(|number| page(&format!("text {number} ").repeat(100))).collect();
    let store = open(directory.path());
    for page in &pages {
        insert(&store, page).await;
    }
    drop(store);
    let path = directory.path().join(DATABASE_FILE);
    let bytes = fs::read(&path).unwrap();
    for place in (100..bytes.len()).step_by(997) {
        let mut flipped = bytes.clone();
        flipped[place] ^= 1;
        fs::write(&path, flipped).unwrap();
        for log in ["handbill.sqlite3-wal", "handbill.sqlite3-shm"] {
            let _ = fs::remove_file(directory.path().join(log));
        }
        let Ok(store) = SqliteStore::open(directory.path(), false) else { continue };
        for page in &pages {
            match store.lookup(&page.head.slug).await {
                Ok(Some(Record::Active(found))) => assert_eq!(&found, page, "byte {place}"),
                Ok(None) | Err(_) => {}
                Ok(other) => panic!("byte {place}: {other:?}"),
            }
        }
    }
}

/// A page with a text of which compression cannot make much, and what the files in `directory` have of its packed text, in pieces.
async fn traced(store: &SqliteStore, directory: &Path) -> (Arc<Page>, impl Fn() -> usize + use<>) {
    let words = (0..3000_u64).map(|number| format!("{:x}", number.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
    let traced = page(&words.collect::<Vec<_>>().join(" "));
    insert(store, &traced).await;
    let read = "SELECT text FROM pages WHERE slug = ?1";
    let packed: Vec<u8> = raw(directory).query_row(read, [traced.head.slug.as_str()], |row| row.get(0)).unwrap();
    let directory = directory.to_owned();
    let remains = move || {
        let files = fs::read_dir(&directory).unwrap().map(|entry| fs::read(entry.unwrap().path()).unwrap());
        let files: Vec<_> = files.collect();
        let parts = packed.chunks_exact(32).skip(1).step_by(50);
        parts.filter(|part| files.iter().any(|bytes| bytes.windows(part.len()).any(|window| window == *part))).count()
    };
    (traced, remains)
}

#[tokio::test]
async fn deleted_text_is_in_no_file_after_a_clean_stop() {
    let directory = tempdir().unwrap();
    let store = open(directory.path());
    let (gone, remains) = traced(&store, directory.path()).await;
    for number in 0..50 {
        insert(&store, &page(&format!("page {number} ").repeat(200))).await;
    }
    assert!(remains() > 10, "the search finds what is there");
    let next = edited(&gone, "short", 1);
    replace(&store, &gone, Record::Active(Arc::clone(&next))).await;
    delete(&store, &next, 2).await;
    drop(store);
    assert_eq!(remains(), 0);
}

#[tokio::test]
async fn deleted_text_leaves_the_files_of_a_running_store() {
    let directory = tempdir().unwrap();
    let store = open(directory.path());
    let (gone, remains) = traced(&store, directory.path()).await;
    drop(store);
    let mut writer = writer(directory.path(), 10_000);
    let other = raw(directory.path());
    other.execute_batch("BEGIN; SELECT count(*) FROM pages").unwrap();
    assert_eq!(commit(&mut writer, vec![deletion(&gone)]).pop().unwrap().unwrap(), PutResult::Done);
    let began = Instant::now();
    writer.clean();
    assert!(began.elapsed() < BUSY_TIMEOUT);
    assert!(remains() > 10);
    other.execute_batch("COMMIT").unwrap();
    writer.clean();
    assert_eq!(remains(), 0);
}

/// A writer without a thread, whose database has room for `pages` pages of its file.
fn writer(directory: &Path, pages: i64) -> Writer {
    let options = DatabaseOptions { path: directory.join(DATABASE_FILE), is_durable: true };
    let database = options.for_writing().unwrap();
    database.pragma_update(None, "max_page_count", pages).unwrap();
    let journal = Journal::open(&directory.join(JOURNAL_FILE)).unwrap();
    Writer::new(Arc::new(Shared::new(options)), database, journal).unwrap()
}

/// What the callers of `operations` are told, which are one batch.
fn commit(writer: &mut Writer, operations: Vec<Operation>) -> Vec<Result<PutResult, StoreError>> {
    let (batch, answers): (Vec<_>, Vec<_>) = operations
        .into_iter()
        .map(|operation| {
            let (answer, answered) = oneshot::channel();
            (Write { operation, answer, _permit: None }, answered)
        })
        .unzip();
    writer.commit(batch);
    answers.into_iter().map(|mut answered| answered.try_recv().unwrap()).collect()
}

fn insertion(page: &Arc<Page>) -> Operation {
    Operation::put(Expected::Absent, Record::Active(Arc::clone(page))).unwrap()
}

fn deletion(page: &Page) -> Operation {
    Operation::put(Expected::page(&page.head), Record::Deleted(page.head.tombstone(at(1)))).unwrap()
}

#[tokio::test]
async fn on_a_full_volume_pages_are_still_read_and_deleted() {
    let directory = tempdir().unwrap();
    drop(open(directory.path()));
    let mut writer = writer(directory.path(), 60);
    let mut stored = Vec::new();
    loop {
        let words: Vec<_> = (0..400_u64).map(|number| format!("{:x}", number * 0x9e37_79b9)).collect();
        let page = page(&words.join(" "));
        match commit(&mut writer, vec![insertion(&page)]).pop().unwrap() {
            Ok(outcome) => assert_eq!(outcome, PutResult::Done),
            Err(error) => {
                assert!(matches!(error, StoreError::Unavailable(_)), "{error}");
                break;
            }
        }
        stored.push(page);
    }
    assert!(stored.len() > 5);
    assert_eq!(commit(&mut writer, vec![deletion(&stored[0])]).pop().unwrap().unwrap(), PutResult::Done);
    drop(writer);
    let store = open(directory.path());
    assert!(matches!(found(&store, &stored[0]).await, Some(Record::Deleted(_))));
    for page in &stored[1..] {
        assert_eq!(found(&store, page).await, Some(Record::Active(Arc::clone(page))));
    }
}

#[tokio::test]
async fn a_deletion_whose_commit_fails_is_void_in_the_journal() {
    let directory = tempdir().unwrap();
    let store = open(directory.path());
    let kept = page("kept");
    insert(&store, &kept).await;
    drop(store);
    // A constraint that is looked at when the transaction is committed.
    raw(directory.path())
        .execute_batch(
            "CREATE TABLE parents (id INTEGER PRIMARY KEY);
             CREATE TABLE children (id REFERENCES parents (id) DEFERRABLE INITIALLY DEFERRED);
             CREATE TRIGGER fail AFTER INSERT ON settings WHEN NEW.name = 'fail' BEGIN INSERT INTO children VALUES (7); END;",
        )
        .unwrap();
    let mut writer = writer(directory.path(), 10_000);
    let answers = commit(&mut writer, vec![deletion(&kept), Operation::Set("fail", String::new())]);
    assert!(answers.iter().all(|answer| matches!(answer, Err(StoreError::Unavailable(_)))), "{answers:?}");
    let other_reader = raw(directory.path());
    let changes = || other_reader.pragma_query_value(None, "data_version", |row| row.get::<_, i64>(0)).unwrap();
    for _ in 0..2 {
        let before = changes();
        assert!(commit(&mut writer, vec![Operation::Set("fail", String::new())])[0].is_err());
        assert_ne!(changes(), before, "what the failed transaction left in the log is overwritten");
    }
    let kinds =
        || journal(directory.path()).iter().map(|line| line["kind"].as_str().unwrap().to_owned()).collect::<Vec<_>>();
    assert_eq!(kinds(), ["delete", "void"]);
    let other = page("the writer goes on");
    assert_eq!(commit(&mut writer, vec![insertion(&other)]).pop().unwrap().unwrap(), PutResult::Done);
    drop(writer);
    for _ in 0..2 {
        assert_eq!(found(&open(directory.path()), &kept).await, Some(Record::Active(Arc::clone(&kept))));
    }
    let mut writer = self::writer(directory.path(), 10_000);
    assert_eq!(commit(&mut writer, vec![deletion(&kept)]).pop().unwrap().unwrap(), PutResult::Done);
    assert_eq!(kinds(), ["delete", "void", "delete"]);
}

#[tokio::test]
async fn a_deletion_that_a_failed_commit_left_is_done_first() {
    let directory = tempdir().unwrap();
    let witness = Witness::in_directory(directory.path());
    let store = open(directory.path());
    let [gone, refused] = ["gone", "refused"].map(page);
    insert(&store, &gone).await;
    drop(store);
    raw(directory.path())
        .execute_batch(
            "CREATE TABLE parents (id INTEGER PRIMARY KEY);
             CREATE TABLE children (id REFERENCES parents (id) DEFERRABLE INITIALLY DEFERRED);
             CREATE TRIGGER fail AFTER INSERT ON settings WHEN NEW.name IN ('fail', 'fence') BEGIN INSERT INTO children VALUES (7); END;",
        )
        .unwrap();
    let mut writer = writer(directory.path(), 10_000);
    assert!(writer.shared.listener.set(witness.clone()).is_ok());
    let answers =
        commit(&mut writer, vec![deletion(&gone), insertion(&refused), Operation::Set("fail", String::new())]);
    assert!(answers.iter().all(|answer| matches!(answer, Err(StoreError::OutcomeUnknown(_)))), "{answers:?}");
    let late = edited(&gone, "late", 2);
    let update = Operation::put(Expected::page(&gone.head), Record::Active(late)).unwrap();
    assert_eq!(commit(&mut writer, vec![update]).pop().unwrap().unwrap(), PutResult::Refused);
    assert!(witness.seen.lock().contains(&(1, 2)), "a cache is told of it then");
    drop(writer);
    let store = open(directory.path());
    assert!(matches!(found(&store, &gone).await, Some(Record::Deleted(_))));
    assert_eq!(found(&store, &refused).await, None);
}

#[tokio::test]
async fn a_copy_is_whole_while_pages_are_written() {
    let directory = tempdir().unwrap();
    let left = directory.path().join("handbill.sqlite3.copy");
    fs::write(&left, "by a process that ended").unwrap();
    let store = open(directory.path());
    assert!(!left.exists());
    assert_eq!(store.last_backup().await.unwrap(), None);
    let pages: Vec<_> = (0..300).map(|number| page(&format!("page {number}"))).collect();
    for page in &pages[..200] {
        insert(&store, page).await;
    }
    let [one, other] = [tempdir().unwrap(), tempdir().unwrap()];
    tokio::join!(copy(&store, one.path()), copy(&store, other.path()), async {
        for page in &pages[200..] {
            insert(&store, page).await;
        }
    });
    assert!(!left.exists());
    for copied in [one, other] {
        let intact: String = raw(copied.path()).query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
        assert_eq!(intact, "ok");
        let restored = open(copied.path());
        for page in &pages[..200] {
            assert_eq!(found(&restored, page).await, Some(Record::Active(Arc::clone(page))));
        }
    }
    store.note_backup(at(1)).await.unwrap();
    drop(store);
    assert_eq!(open(directory.path()).last_backup().await.unwrap(), Some(at(1)));
}

/// Notes the version of each page that changes, as it is in the file before and after. No page changes twice at once.
struct Witness {
    directory: PathBuf,
    changing: Mutex<HashSet<String>>,
    seen: Mutex<Vec<(i64, i64)>>,
}

struct Witnessed<'a>(&'a Witness, Vec<(String, i64)>);

impl Witness {
    fn in_directory(directory: &Path) -> Arc<Self> {
        Arc::new(Self { directory: directory.to_owned(), changing: Mutex::default(), seen: Mutex::default() })
    }

    fn version(&self, slug: &str) -> i64 {
        let sql = "SELECT version FROM pages WHERE slug = ?1";
        raw(&self.directory).query_row(sql, [slug], |row| row.get(0)).unwrap()
    }
}

impl ChangeListener for Witness {
    fn change<'a>(&'a self, slugs: &[&Slug]) -> Box<dyn Send + 'a> {
        let before: Vec<_> = slugs.iter().map(|slug| (slug.to_string(), self.version(slug.as_str()))).collect();
        let slugs: HashSet<_> = before.iter().map(|(slug, _)| slug.clone()).collect();
        assert!(self.changing.lock().is_disjoint(&slugs), "a page is changed while it changes");
        self.changing.lock().extend(slugs);
        Box::new(Witnessed(self, before))
    }
}

impl Drop for Witnessed<'_> {
    fn drop(&mut self) {
        self.0.changing.lock().retain(|slug| !self.1.iter().any(|(changed, _)| changed == slug));
        let seen = self.1.iter().map(|(slug, before)| (*before, self.0.version(slug)));
        self.0.seen.lock().extend(seen);
    }
}

#[tokio::test]
async fn a_closed_store_refuses_every_call_and_its_directory_is_free() {
    let directory = tempdir().unwrap();
    let store = open(directory.path());
    let page = page("text");
    insert(&store, &page).await;
    store.close().await;
    assert!(matches!(store.lookup(&page.head.slug).await, Err(StoreError::Unavailable(_))));
    assert!(store.put(Expected::Absent, Record::Active(Arc::clone(&page)), None).await.is_err());
}

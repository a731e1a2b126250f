//! Kills a process again and again while it writes, and looks for what it had acknowledged: `cargo test -p handbill-store-sqlite
//! --test kill`, or with `-- 200` as many rounds as that. `tests/tools/power` cuts the power under the same writer.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::{collections::HashMap, path::Path, sync::Arc};

use handbill_pages::ports::page_store::{Expected, PageStore, PutResult};
use handbill_pages::ports::random::Random;
use handbill_pages::values::details::{Details, DetailsPatch};
use handbill_pages::values::slug::{Slug, SlugSuffix};
use handbill_pages::values::{
    content::Content, edit_key::EditKey, head::PageHead, markdown::render, page::Page, record::Record,
    timestamp::UnixMillis, title::Title,
};
use handbill_store_sqlite::{DATABASE_FILE, JOURNAL_FILE, SqliteStore};

/// Rounds of a usual run.
const ROUNDS: usize = 10;

/// Writers at the same time.
const WRITERS: usize = 16;

fn main() {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    match &arguments[..] {
        [word, data] if word == "write" => write(Path::new(data)),
        [word, data, told] if word == "check" => {
            let mut acknowledged = HashMap::new();
            std::fs::read_to_string(told).unwrap().lines().for_each(|line| note(&mut acknowledged, line));
            check(Path::new(data), &acknowledged);
        }
        _ => {
            let rounds = arguments.first().and_then(|rounds| rounds.parse().ok());
            kill(rounds.unwrap_or(ROUNDS));
        }
    }
}

fn random(below: usize) -> usize {
    Random::System.indices().below(below)
}

/// Writes until it is killed. Each line says what was acknowledged: `active` with a version, or `deleted`.
fn write(data: &Path) {
    let store = Arc::new(SqliteStore::open(data, false).unwrap());
    tokio::runtime::Builder::new_multi_thread().enable_time().build().unwrap().block_on(async {
        let writers = (0..WRITERS).map(|_| tokio::spawn(write_pages(Arc::clone(&store))));
        for writer in writers.collect::<Vec<_>>() {
            writer.await.unwrap();
        }
    });
}

async fn write_pages(store: Arc<SqliteStore>) {
    fn say(page: &Page, state: &str) {
        let mut out = std::io::stdout().lock();
        writeln!(out, "{} {state}", page.head.slug).and_then(|()| out.flush()).expect("the parent reads");
    }

    loop {
        let title = Title::parse("A test page").unwrap();
        let head = PageHead::first(
            Slug::derive(&title, SlugSuffix::random(random)),
            Details::with_title(title),
            EditKey::random(random).hash(),
            UnixMillis::new(1_795_235_400_123),
        );
        let text = format!("text {} ", head.slug).repeat(1 + random(100));
        let page = Page::new(head, Content::parse(text.clone()).unwrap(), render(&text));
        let page = Arc::new(page);
        assert_eq!(
            store.put(Expected::Absent, Record::Active(Arc::clone(&page)), None).await.unwrap(),
            PutResult::Done
        );
        say(&page, "active 1");
        let head = page.head.clone().updated(&DetailsPatch::default(), UnixMillis::new(0));
        let next = Arc::new(Page { head, text: page.text.clone() });
        let swapped = store.put(Expected::page(&page.head), Record::Active(Arc::clone(&next)), None).await;
        assert_eq!(swapped.unwrap(), PutResult::Done);
        say(&page, "active 2");
        let tombstone = Record::Deleted(next.head.tombstone(UnixMillis::new(0)));
        if random(2) == 0 {
            let deleted = store.put(Expected::page(&next.head), tombstone, None).await.unwrap();
            assert_eq!(deleted, PutResult::Done);
            say(&page, "deleted");
        } else {
            // It is refused, so it must never be done.
            let refused = store.put(Expected::page(&page.head), tombstone, None).await.unwrap();
            assert_eq!(refused, PutResult::Refused);
            say(&page, "kept");
        }
    }
}

fn kill(rounds: usize) {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let mut acknowledged = HashMap::new();
    for round in 1..=rounds {
        let program = std::env::current_exe().unwrap();
        let mut child = Command::new(program).arg("write").arg(&data).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let enough = 20 + random(250);
        for (number, line) in lines.map_while(Result::ok).enumerate() {
            if number == enough {
                child.kill().unwrap();
            }
            note(&mut acknowledged, &line);
        }
        child.wait().unwrap();
        check(&data, &acknowledged);
        println!("round {round}: {} pages as acknowledged", acknowledged.len());
    }
}

/// Notes what `line` of the writer says. A line that was cut off says nothing.
fn note(acknowledged: &mut HashMap<Slug, String>, line: &str) {
    if let Some((slug, state)) = line.split_once(' ')
        && let Ok(slug) = Slug::parse(slug)
        && ["active 1", "active 2", "deleted", "kept"].contains(&state)
    {
        acknowledged.insert(slug, state.to_owned());
    }
}

fn check(data: &Path, acknowledged: &HashMap<Slug, String>) {
    let store = SqliteStore::open(data, false).unwrap();
    let journal = std::fs::read_to_string(data.join(JOURNAL_FILE)).unwrap();
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
        for (slug, state) in acknowledged {
            let found = store.lookup(slug).await.unwrap();
            let version = if let Some(Record::Active(page)) = &found { page.head.version.get() } else { 0 };
            let is_there = match state.as_str() {
                "active 1" => version > 0,
                // The deletion may have been under way.
                "active 2" => version == 2 || matches!(found, Some(Record::Deleted(_))),
                "deleted" => matches!(found, Some(Record::Deleted(_))) && journal.contains(slug.as_str()),
                _ => version == 2 && !journal.contains(slug.as_str()),
            };
            assert!(is_there, "{slug}: {state} was acknowledged, and this is stored: {found:?}");
        }
    });
    drop(store);
    let database = rusqlite::Connection::open(data.join(DATABASE_FILE)).unwrap();
    let intact: String = database.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(intact, "ok");
}

//! The process is killed at random moments, and every change that it had acknowledged is there, complete.
//!
//! `SIGKILL` leaves the operating system's cache of files alone, so this test cannot show a missing fsync: `tests/power` does. This
//! test shows that no answer precedes its commit and that a
//! commit is all or nothing. It also shows that the file, the lock and the directory can be used again after an end at
//! any moment, even while they are being made.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::mpsc;
use std::thread;

use handbill_store_sqlite::{DATABASE_FILE, JOURNAL_FILE};
use rand::TryRng;
use rand::rngs::SysRng;
use rusqlite::Connection as Database;
use rustix::process::Signal;
use serde_json::{Value, json};
use tempfile::tempdir;

use super::client::{Answer, Connection, JSON, bearer, page_json};
use super::support::{Server, handbill};
use crate::environment::setting;

const KILLS: usize = 24;
const CLIENTS: usize = 4;

/// A generator that gives the same numbers for the same seed (`SplitMix64`).
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) >> 33).unwrap() % bound
    }
}

/// A page as its client knows it. Its state is `None` if it is deleted, else its title, which determines the content.
struct Known {
    slug: String,
    key: String,
    acknowledged: Option<String>,
    /// The state that an unanswered request would have left.
    attempted: Option<Option<String>>,
}

struct Writer {
    number: usize,
    chance: Chance,
    titles: usize,
    pages: Vec<Known>,
    /// Titles of creates that were not answered.
    attempted_creates: HashSet<String>,
}

/// The content that goes with `title`. The title also decides its size, up to 40 KB.
fn content_of(title: &str) -> String {
    let number = title.rsplit(' ').next().and_then(|number| number.parse::<usize>().ok()).expect("titles are ours");
    format!("{title}\n\n{}", "Some *words* of text. ".repeat(number * 7919 % 1800))
}

impl Writer {
    fn title(&mut self) -> String {
        self.titles += 1;
        format!("Client {} title {}", self.number, self.titles)
    }

    /// Changes pages until the server is gone, and reports each answer.
    fn write_until_it_ends(&mut self, address: SocketAddr, tell: &mpsc::Sender<()>) {
        let Ok(mut connection) = Connection::open(address) else { return };
        while self.write_one(&mut connection).is_some() {
            let _ = tell.send(());
        }
    }

    fn write_one(&mut self, connection: &mut Connection) -> Option<()> {
        let active: Vec<_> = (0..self.pages.len())
            .filter(|&at| self.pages[at].acknowledged.is_some() && self.pages[at].attempted.is_none())
            .collect();
        let choice = self.chance.below(10);
        if choice < 5 || active.is_empty() {
            let title = self.title();
            self.attempted_creates.insert(title.clone());
            let body = page_json(&title, &content_of(&title));
            let answer = connection.request("POST", "/api/pages", &[JSON], body.as_bytes()).ok()?;
            assert_eq!(answer.status, 201, "{}", answer.text());
            self.attempted_creates.remove(&title);
            let text = |field: &str| answer.json()[field].as_str().unwrap().to_owned();
            let (slug, key) = (text("slug"), text("edit_key"));
            self.pages.push(Known { slug, key, acknowledged: Some(title), attempted: None });
            return Some(());
        }
        let title = self.title();
        let at = active[self.chance.below(active.len())];
        let page = &mut self.pages[at];
        let (path, key) = (format!("/api/pages/{}", page.slug), bearer(&page.key));
        let next = (choice < 8).then_some(title);
        page.attempted = Some(next.clone());
        let headers = [JSON, ("Authorization", key.as_str())];
        let answer = match &next {
            Some(title) => {
                connection.request("PATCH", &path, &headers, page_json(title, &content_of(title)).as_bytes())
            }
            None => connection.request("DELETE", &path, &headers[1..], b""),
        };
        let answer = answer.ok()?;
        assert_eq!(answer.status, if next.is_some() { 200 } else { 204 }, "{}", answer.text());
        page.attempted = None;
        page.acknowledged = next;
        Some(())
    }

    /// Checks every page. From then on, the state found counts as acknowledged.
    fn check(&mut self, connection: &mut Connection) {
        for page in &mut self.pages {
            let found = whole(&connection.get(&format!("/api/pages/{}", page.slug)).unwrap());
            let attempted = page.attempted.take();
            assert!(
                found == page.acknowledged || Some(&found) == attempted.as_ref(),
                "{} was acknowledged as {:?}, attempted as {attempted:?}, found as {found:?}",
                page.slug,
                page.acknowledged,
            );
            page.acknowledged = found;
        }
    }

    fn check_keys(&self, connection: &mut Connection) {
        for page in self.pages.iter().filter(|page| page.acknowledged.is_some()) {
            let headers = [JSON, ("Authorization", &bearer(&page.key))];
            let answer = connection.request("PATCH", &format!("/api/pages/{}", page.slug), &headers, b"{}").unwrap();
            assert_eq!(answer.status, 200, "the key of {} works", page.slug);
        }
    }
}

/// The title of a page that exists, or `None` if it was deleted. The content must be the one that goes with the title.
fn whole(answer: &Answer) -> Option<String> {
    if answer.status == 410 {
        return None;
    }
    assert_eq!(answer.status, 200, "{}", answer.text());
    let page = answer.json();
    let title = page["title"].as_str().expect("no client clears a title").to_owned();
    assert!(page["content"] == json!(content_of(&title)), "title and content of {title:?} belong together");
    assert!(page["content_html"].as_str().is_some_and(|html| html.contains(&title)));
    Some(title)
}

#[test]
fn every_acknowledged_change_survives_being_killed() {
    let seed = setting("CRASH_SEED", SysRng.try_next_u64().unwrap());
    println!("CRASH_SEED={seed} makes the same choices again");
    let mut chance = Chance(seed);
    let directory = tempdir().unwrap();
    let mut writers: Vec<_> = (0..CLIENTS)
        .map(|number| Writer {
            number,
            chance: Chance(seed ^ (number as u64 + 1)),
            titles: 0,
            pages: Vec::new(),
            attempted_creates: HashSet::new(),
        })
        .collect();
    for _ in 0..KILLS {
        let mut server = Server::start(directory.path(), &[]);
        let mut connection = Connection::open(server.address).unwrap();
        for writer in &mut writers {
            writer.check(&mut connection);
        }
        let answers = 1 + chance.below(60);
        let (tell, told) = mpsc::channel();
        thread::scope(|scope| {
            for writer in &mut writers {
                let (tell, address) = (tell.clone(), server.address);
                scope.spawn(move || writer.write_until_it_ends(address, &tell));
            }
            assert_eq!(told.iter().take(answers).count(), answers);
            server.signal(Signal::KILL);
        });
        server.wait();
    }

    let server = Server::start(directory.path(), &[]);
    let mut connection = Connection::open(server.address).unwrap();
    for writer in &mut writers {
        writer.check(&mut connection);
        writer.check_keys(&mut connection);
    }
    drop(connection);
    assert!(server.stop().0.success());
    check_journal(directory.path(), &writers);
    check_the_rest(directory.path(), &writers);
}

/// Checks that the journal names every page whose deletion was acknowledged.
fn check_journal(directory: &std::path::Path, writers: &[Writer]) {
    let journal = std::fs::read_to_string(directory.join(JOURNAL_FILE)).unwrap();
    let slug = |line: &str| serde_json::from_str::<Value>(line).unwrap()["slug"].as_str().map(str::to_owned);
    let named: HashSet<String> = journal.lines().filter_map(slug).collect();
    let pages = writers.iter().flat_map(|writer| &writer.pages);
    let deleted: Vec<_> = pages.filter(|page| page.acknowledged.is_none()).map(|page| &page.slug).collect();
    assert!(deleted.iter().all(|slug| named.contains(*slug)));
    println!("{} deletions, {} in the journal", deleted.len(), named.len());
}

/// Checks that every page stored beyond the acknowledged ones was attempted, and is complete.
fn check_the_rest(directory: &std::path::Path, writers: &[Writer]) {
    let acknowledged: HashSet<&str> =
        writers.iter().flat_map(|writer| &writer.pages).map(|page| page.slug.as_str()).collect();
    let stored = slugs(directory);
    assert!(acknowledged.iter().all(|slug| stored.contains(*slug)));
    let server = Server::start(directory, &[]);
    let mut connection = Connection::open(server.address).unwrap();
    for slug in stored.iter().filter(|slug| !acknowledged.contains(slug.as_str())) {
        let title = whole(&connection.get(&format!("/api/pages/{slug}")).unwrap()).expect("nobody could delete it");
        assert!(writers.iter().any(|writer| writer.attempted_creates.contains(&title)), "{title:?} was attempted");
    }
    println!("{} pages acknowledged, {} stored", acknowledged.len(), stored.len());
}

fn slugs(directory: &std::path::Path) -> HashSet<String> {
    let database = Database::open(directory.join(DATABASE_FILE)).unwrap();
    let mut statement = database.prepare("SELECT slug FROM pages").unwrap();
    statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
}

#[test]
fn being_killed_while_it_makes_its_directory_leaves_a_good_one() {
    let directory = tempdir().unwrap();
    for round in 0..20 {
        let data = directory.path().join(round.to_string());
        let mut command = handbill(["--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--data-dir"]);
        let mut child = command.arg(&data).spawn().unwrap();
        // The first file in the directory shows that the server has begun. How far it gets is left to chance.
        let has_begun = || std::fs::read_dir(&data).is_ok_and(|mut files| files.next().is_some());
        while round % 2 == 0 && child.try_wait().unwrap().is_none() && !has_begun() {}
        child.kill().unwrap();
        child.wait().unwrap();
        let server = Server::start(&data, &[]);
        let page: Value = super::client::post(server.address, "After all", "x").unwrap().json();
        assert!(page["slug"].is_string());
    }
}

//! The process is killed at random moments. Every change that it had acknowledged is there, complete, and a create that is sent
//! again with its key makes no second page.
//!
//! `SIGKILL` leaves the operating system's cache of files alone, so this test cannot show a missing fsync: `tests/power` does.

use std::collections::HashSet;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::mpsc;
use std::thread;

use handbill_store_sqlite::{DATABASE_FILE, JOURNAL_FILE};
use rand::TryRng;
use rand::rngs::SysRng;
use rusqlite::Connection as Database;
use rustix::process::Signal;
use serde_json::json;
use tempfile::tempdir;

use super::client::{Answer, Connection, JSON, bearer, page_json, post};
use super::support::{Server, handbill};
use crate::environment::setting;
use crate::linearizability::histories::workload::Chance;
use crate::support::pages::new_key;

const KILLS: usize = 12;
const CLIENTS: u64 = 4;

/// A page as its client knows it. Its title determines its content, and `None` stands for a deleted page.
#[expect(clippy::option_option, reason = "an attempt may be to delete the page")]
struct Known {
    key: String,
    /// Empty until the create is answered.
    slug: String,
    title: Option<String>,
    /// The title that an unanswered request would have left.
    attempted: Option<Option<String>>,
}

impl Known {
    /// Publishes the page, or finds the page that an unanswered request has published.
    fn create(&mut self, connection: &mut Connection) -> Option<()> {
        let title = self.title.as_deref().expect("it is not deleted");
        let body = json!({"title": title, "content": content_of(title), "edit_key": self.key}).to_string();
        let answer = connection.request("POST", "/api/pages", &[JSON], body.as_bytes()).ok()?;
        assert_eq!(answer.status, 201, "{}", answer.text());
        answer.json()["slug"].as_str().unwrap().clone_into(&mut self.slug);
        Some(())
    }

    /// Changes the title and content, or deletes the page.
    fn change(&mut self, connection: &mut Connection, next: Option<String>) -> Option<()> {
        let (path, key) = (format!("/api/pages/{}", self.slug), bearer(&self.key));
        let headers = [JSON, ("Authorization", key.as_str())];
        self.attempted = Some(next.clone());
        let answer = match &next {
            Some(title) => {
                connection.request("PATCH", &path, &headers, page_json(title, &content_of(title)).as_bytes())
            }
            None => connection.request("DELETE", &path, &headers[1..], b""),
        };
        let answer = answer.ok()?;
        assert_eq!(answer.status, if next.is_some() { 200 } else { 204 }, "{}", answer.text());
        self.attempted = None;
        self.title = next;
        Some(())
    }

    /// Checks that the page is as acknowledged or as attempted. From then on, the page counts as acknowledged.
    fn check(&mut self, connection: &mut Connection) {
        if self.slug.is_empty() {
            self.create(connection).expect("it is answered");
        }
        let found = whole(&connection.get(&format!("/api/pages/{}", self.slug)).unwrap());
        let (known, attempted) = (&self.title, self.attempted.take());
        let is_expected = found == *known || Some(&found) == attempted.as_ref();
        assert!(is_expected, "{}: {known:?} acknowledged, {attempted:?} attempted, {found:?} found", self.slug);
        self.title = found;
    }
}

struct Writer {
    number: u64,
    chance: Chance,
    titles: usize,
    pages: Vec<Known>,
}

/// The content that goes with `title`. The title also decides its size, up to 40 KB.
fn content_of(title: &str) -> String {
    let number = title.rsplit(' ').next().and_then(|number| number.parse::<usize>().ok()).expect("titles are ours");
    format!("{title}\n\n{}", "Some *words* of text. ".repeat(number * 7919 % 1800))
}

impl Writer {
    /// Changes pages until the server is gone, and reports each answer.
    fn write_until_it_ends(&mut self, address: SocketAddr, tell: &mpsc::Sender<()>) {
        let Ok(mut connection) = Connection::open(address) else { return };
        while self.write_one(&mut connection).is_some() {
            let _ = tell.send(());
        }
    }

    fn write_one(&mut self, connection: &mut Connection) -> Option<()> {
        self.titles += 1;
        let title = format!("Client {} title {}", self.number, self.titles);
        let mut active: Vec<_> = self.pages.iter_mut().filter(|page| page.title.is_some()).collect();
        let choice = self.chance.below(10);
        if choice < 5 || active.is_empty() {
            self.pages.push(Known { key: new_key(), slug: String::new(), title: Some(title), attempted: None });
            return self.pages.last_mut()?.create(connection);
        }
        let at = usize::try_from(self.chance.below(active.len() as u64)).unwrap();
        active[at].change(connection, (choice < 8).then_some(title))
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
    let mut chance = Chance::new(seed);
    let directory = tempdir().unwrap();
    let writer = |number| Writer { number, chance: Chance::new(seed ^ (number + 1)), titles: 0, pages: Vec::new() };
    let mut writers: Vec<_> = (0..CLIENTS).map(writer).collect();
    for _ in 0..KILLS {
        let mut server = Server::start(directory.path(), &[]);
        let mut connection = Connection::open(server.address).unwrap();
        for page in writers.iter_mut().flat_map(|writer| &mut writer.pages) {
            page.check(&mut connection);
        }
        let answers = 1 + usize::try_from(chance.below(60)).unwrap();
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
    let mut pages: Vec<_> = writers.into_iter().flat_map(|writer| writer.pages).collect();
    for page in &mut pages {
        page.check(&mut connection);
        if let Some(title) = page.title.clone() {
            page.change(&mut connection, Some(title)).expect("its key opens it");
        }
    }
    drop(connection);
    assert!(server.stop().0.success());
    let known: HashSet<String> = pages.iter().map(|page| page.slug.clone()).collect();
    assert_eq!(stored(directory.path()), known, "each create made one page");
    let journal = fs::read_to_string(directory.path().join(JOURNAL_FILE)).unwrap();
    let mut deleted = pages.iter().filter(|page| page.title.is_none());
    assert!(deleted.all(|page| journal.contains(&page.slug)), "the journal names every deletion");
    println!("{} pages", pages.len());
}

fn stored(directory: &Path) -> HashSet<String> {
    let database = Database::open(directory.join(DATABASE_FILE)).unwrap();
    let mut statement = database.prepare("SELECT slug FROM pages").unwrap();
    statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
}

#[test]
fn being_killed_while_it_makes_its_directory_leaves_a_good_one() {
    let directory = tempdir().unwrap();
    for round in 0..10 {
        let data = directory.path().join(round.to_string());
        let mut command = handbill(["--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--data-dir"]);
        let mut child = command.arg(&data).spawn().unwrap();
        // The first file in the directory shows that the server has begun. How far it gets is left to chance.
        let has_begun = || fs::read_dir(&data).is_ok_and(|mut files| files.next().is_some());
        while round % 2 == 0 && child.try_wait().unwrap().is_none() && !has_begun() {}
        child.kill().unwrap();
        child.wait().unwrap();
        let server = Server::start(&data, &[]);
        assert_eq!(post(server.address, "After all", "x").unwrap().status, 201);
    }
}

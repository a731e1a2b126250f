//! Pages, and what their clients know of them.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use serde_json::Value;

use crate::client::{Connection, JSON, bearer, page_json};

/// Pages by slug: the key, and the page as the API showed it last, or `None` if it was deleted.
#[derive(Default)]
pub struct Known(pub BTreeMap<String, (String, Option<Value>)>);

impl Known {
    pub fn create(&mut self, connection: &mut Connection, title: &str, content: &str) -> String {
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

    pub fn change(&mut self, connection: &mut Connection, slug: &str, content: &str) {
        let headers = [JSON, ("Authorization", &*bearer(&self.0[slug].0))];
        let body = serde_json::json!({ "content": content }).to_string();
        let answer = connection.request("PATCH", &format!("/api/pages/{slug}"), &headers, body.as_bytes()).unwrap();
        assert_eq!(answer.status, 200, "{}", answer.text());
        self.look(connection, slug);
    }

    pub fn delete(&mut self, connection: &mut Connection, slug: &str) {
        let headers = [("Authorization", &*bearer(&self.0[slug].0))];
        let answer = connection.request("DELETE", &format!("/api/pages/{slug}"), &headers, b"").unwrap();
        assert_eq!(answer.status, 204, "{}", answer.text());
        self.0.get_mut(slug).unwrap().1 = None;
    }

    /// Creates pages, changes a third of them and deletes a third.
    pub fn load(&mut self, address: SocketAddr, pages: usize) {
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
    pub fn rename(&mut self, from: SocketAddr, to: SocketAddr) {
        for (_, page) in self.0.values_mut() {
            *page =
                page.take().map(|page| page.to_string().replace(&from.to_string(), &to.to_string()).parse().unwrap());
        }
    }

    /// Checks page by page and key by key that the service at `address` has what is known.
    pub fn check(&self, address: SocketAddr, base: SocketAddr) {
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
pub fn writing_while<T>(address: SocketAddr, during: impl FnOnce() -> T) -> (T, Known) {
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

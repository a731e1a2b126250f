//! A real document of 100 KB: published, read, edited and deleted, with the service started anew in between.

use tempfile::tempdir;

use super::client::{JSON, bearer, get, post, request};
use super::support::Server;

/// Largest content, in bytes (spec §8).
const MAX_BYTES: usize = 102_400;

/// A long read with everything that real documents have, of exactly [`MAX_BYTES`].
fn document() -> String {
    let chapter = "## On handbills\n\nA *handbill* is a **small printed sheet**, ~~sold~~ given away by hand. See [its history](https://en.wikipedia.org/wiki/Flyer_(pamphlet)), or write to <mailto:press@pages.example>.\n\n> „Flugblätter“ – листовки – 伝単 – منشورات – 📜\n\n### What one needs\n\n1. paper\n   - rag, or\n   - wood\n2. ink\n3. `hands`\n\n```rust\nfn main() {\n    println!(\"<b>&amp;</b>\");\n}\n```\n\n![A press](https://pages.example/press.png)\n\n<script>alert('text, not markup')</script>\r\n\ttabs, trailing spaces  \nand | tables | too |\n\n---\n\n";
    let mut text = chapter.repeat(MAX_BYTES / chapter.len());
    text.extend(std::iter::repeat_n('.', MAX_BYTES - text.len()));
    text
}

#[test]
fn a_document_of_100_kb_is_published_read_edited_and_deleted_across_restarts() {
    let directory = tempdir().unwrap();
    let first = document();
    let second: String = first.chars().rev().collect();
    assert_eq!((first.len(), second.len()), (MAX_BYTES, MAX_BYTES));
    // A base address of its own, so that it stays the same on every port.
    let restart = || Server::start(directory.path(), &["--base-url", "https://pages.example"]);

    let server = restart();
    let created = post(server.address, "On handbills", &first).unwrap();
    assert_eq!(created.status, 201, "{}", created.text());
    let text = |field: &str| created.json()[field].as_str().unwrap().to_owned();
    let (slug, key) = (text("slug"), text("edit_key"));
    let (api, page) = (format!("/api/pages/{slug}"), format!("/{slug}"));
    let as_published = get(server.address, &api).unwrap();
    assert!(as_published.json()["content"] == first.as_str());
    assert_eq!(as_published.json()["created_at"], created.json()["created_at"]);
    assert!(get(server.address, &format!("{page}.md")).unwrap().body == first.as_bytes());
    let for_people = get(server.address, &page).unwrap();
    assert_eq!(for_people.status, 200);
    assert!(server.stop().0.success());

    let server = restart();
    assert!(get(server.address, &api).unwrap().body == as_published.body);
    assert!(get(server.address, &page).unwrap().body == for_people.body);
    let authorization = bearer(&key);
    let headers = [JSON, ("Authorization", authorization.as_str())];
    let edit = serde_json::json!({"content": second}).to_string();
    let as_edited = request(server.address, "PATCH", &api, &headers, edit.as_bytes()).unwrap();
    assert_eq!(as_edited.status, 200, "{}", as_edited.text());
    assert!(server.stop().0.success());

    let server = restart();
    let read = get(server.address, &api).unwrap();
    assert!(read.body == as_edited.body);
    assert!(read.json()["content"] == second.as_str());
    assert_eq!(read.json()["title"], "On handbills");
    assert_eq!(request(server.address, "DELETE", &api, &headers[1..], b"").unwrap().status, 204);
    assert!(server.stop().0.success());

    let server = restart();
    assert_eq!(get(server.address, &api).unwrap().problem(), (410, "gone".to_owned()));
    assert_eq!(get(server.address, &page).unwrap().status, 410);
}

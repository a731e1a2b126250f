//! Publishes so that a lost answer loses nothing.
//!
//! The key is on disk before it is sent. Until the page's address is saved, the same text has the same key, so the
//! server finds the page.

use std::path::PathBuf;

use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use crate::api::{Answer, Api, not_handbill};
use crate::key_file::{KeyFile, SavedKey};
use crate::page::PageReference;
use crate::{ClientError, Result};
use handbill_pages::ports::random::Random;
use handbill_pages::values::{edit_key::EditKey, hex, origin::Origin};

/// Far more than a page holds. As JSON it is at most six times as long, which a server still reads to its end.
const MAX_TEXT_BYTES: usize = 512 * 1024;

pub(crate) struct Draft {
    pub(crate) title: String,
    pub(crate) content: String,
    /// What else the server is asked to store; a newer one may know more fields.
    pub(crate) others: Map<String, Value>,
    /// The file with the text.
    pub(crate) source: Option<PathBuf>,
}

pub(crate) enum Published {
    Saved(SavedKey),
    Refused(Answer),
}

pub(crate) fn publish(api: &Api<'_>, keys: &KeyFile, server: &Origin, draft: Draft) -> Result<Published> {
    let Draft { title, content, others: mut body, source } = draft;
    check_length(content.as_bytes(), "the text")?;
    body.extend([("title".to_owned(), json!(title)), ("content".to_owned(), json!(content))]);
    let (sent, edit_key, is_repeat) = begin(keys, server, &body)?;
    body.insert("edit_key".to_owned(), json!(edit_key.reveal()));
    let (answer, was_lost) = api.create(server, &body.into())?;
    if answer.status().is_success() {
        let (page, created_at) = created(&answer, server)?;
        let saved = SavedKey {
            title: Some(title),
            created_at: Some(created_at.clone()),
            source,
            updated_at: Some(created_at),
            ..SavedKey::new(&page.url(), edit_key.reveal())
        };
        save(keys, &sent, &saved)?;
        return Ok(Published::Saved(saved));
    }
    if is_refused(answer.status().as_u16(), is_repeat || was_lost) {
        keys.change(|saved| saved.retain(|saved| saved.sent.as_deref() != Some(&sent)))?;
    }
    Ok(Published::Refused(answer))
}

/// A server does not read a much longer text to its end, which looks like an answer that was lost.
pub(crate) fn check_length(text: &[u8], name: &str) -> Result<()> {
    if text.len() <= MAX_TEXT_BYTES {
        return Ok(());
    }
    Err(ClientError::Failed(format!("{name} is too long for a page: shorten it or split it")))
}

/// Makes a key, or finds the key of an earlier attempt, and saves it first. Returns the attempt's name, the key, and
/// whether the page may exist.
fn begin(keys: &KeyFile, server: &Origin, body: &Map<String, Value>) -> Result<(String, EditKey, bool)> {
    let sent = hex::encode(&Sha256::digest(json!([server.as_str(), body]).to_string()));
    keys.change(|saved| {
        let earlier = saved.iter().find(|saved| saved.sent.as_deref() == Some(&sent));
        if let Some(key) = earlier.and_then(|earlier| EditKey::parse(&earlier.edit_key).ok()) {
            return (sent, key, true);
        }
        // A server refuses one in 26 million for its few different characters; the next attempt draws another.
        let mut indices = Random::System.indices();
        let key = EditKey::random(|bound| indices.below(bound));
        saved.push(SavedKey { sent: Some(sent.clone()), ..SavedKey::new(server.as_str(), key.reveal()) });
        (sent, key, false)
    })
}

/// Whether nothing was stored. If the page may exist, only Handbill itself can say so, not a proxy.
fn is_refused(status: u16, may_exist: bool) -> bool {
    status == 400 || ((300..500).contains(&status) && !may_exist)
}

/// A server may answer anything.
fn created(answer: &Answer, server: &Origin) -> Result<(PageReference, String)> {
    let [url, created_at] = ["url", "created_at"].map(|name| answer.body()[name].as_str());
    let page = url.and_then(|url| PageReference::parse(url, server).ok());
    page.zip(created_at.map(str::to_owned)).ok_or_else(|| not_handbill(server))
}

/// If saving fails, the error shows the key.
fn save(keys: &KeyFile, sent: &str, new: &SavedKey) -> Result<()> {
    let saved = keys.change(|saved| {
        // A hostile server could otherwise replace the key of another page.
        if saved.iter().any(|old| old.page() == new.page() && old.edit_key != new.edit_key) {
            return Err(ClientError::Failed("another key of that page is saved".to_owned()));
        }
        saved.retain(|saved| saved.sent.as_deref() != Some(sent) && saved.page() != new.page());
        saved.push(new.clone());
        Ok(())
    });
    saved.flatten().map_err(|reason| {
        let SavedKey { url, edit_key, .. } = new;
        ClientError::KeyNotSaved(format!(
            "{reason}, but the page is published. Write this down now, it is shown only once:\n{url}\n{edit_key}"
        ))
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http::Response;

    use super::*;
    use crate::tests::agent;

    #[test]
    fn a_text_that_no_page_can_hold_is_not_sent_and_leaves_no_key() {
        let home = tempfile::tempdir().unwrap();
        let keys = KeyFile::in_directory(home.path().to_owned());
        let content = "a".repeat(MAX_TEXT_BYTES + 1);
        let draft = Draft { title: "T".to_owned(), content, others: Map::new(), source: None };
        let api = Api { agent: &agent(), wait: Duration::ZERO };
        let refused = publish(&api, &keys, &Origin::parse("http://127.0.0.1:1").unwrap(), draft).err().unwrap();
        assert!(matches!(refused, ClientError::Failed(_)), "{refused}");
        assert!(keys.keys().unwrap().is_empty());
    }

    #[test]
    fn a_text_has_one_key_until_its_page_is_saved() {
        fn attempt(keys: &KeyFile, server: &str, title: &str, content: &str) -> (String, String) {
            let body = Map::from_iter([("title".to_owned(), json!(title)), ("content".to_owned(), json!(content))]);
            let (sent, key, _) = begin(keys, &Origin::parse(server).unwrap(), &body).unwrap();
            (sent, key.reveal().to_owned())
        }

        let home = tempfile::tempdir().unwrap();
        let keys = KeyFile::in_directory(home.path().join("keys"));
        let (sent, key) = attempt(&keys, "https://a.example", "T", "c");
        assert!(EditKey::parse_new(&key).is_ok());
        assert_eq!(attempt(&keys, "https://a.example", "T", "c").1, key);
        for (server, title, content) in [("https://b.example", "T", "c"), ("https://a.example", "T", "d")] {
            assert_ne!(attempt(&keys, server, title, content).1, key);
        }
        save(&keys, &sent, &SavedKey::new("https://a.example/t-7k2m9xqz", &key)).unwrap();
        assert_ne!(attempt(&keys, "https://a.example", "T", "c").1, key);
    }

    #[test]
    fn a_key_is_forgotten_once_its_text_was_surely_not_stored() {
        for status in [301, 400, 403, 404, 413, 429, 431] {
            assert!(is_refused(status, false), "{status}");
            assert_eq!(is_refused(status, true), status == 400, "{status} after a lost answer");
        }
        for status in [200, 500, 503] {
            assert!(!is_refused(status, false), "{status}");
        }
    }

    #[test]
    fn a_created_page_has_an_address_or_is_not_believed() {
        fn url_in(url: &str) -> Option<String> {
            let answer = Response::new(json!({"url": url, "created_at": ""}));
            created(&answer, &Origin::parse("http://localhost").unwrap()).ok().map(|(page, _)| page.url())
        }

        let own = "https://pages.example/hello-world-7k2m9xqz";
        assert_eq!(url_in(&format!("{own}#x")).as_deref(), Some(own));
        assert_eq!(url_in(&format!("{own}\n\u{1b}[2J")), None);
        assert_eq!(url_in("https://pages.example/"), None);
    }

    #[test]
    fn a_server_cannot_take_the_key_of_a_page_away() {
        fn page(letter: &str) -> SavedKey {
            SavedKey::new("https://pages.example/hello-world-7k2m9xqz", &format!("hbk_{}", letter.repeat(43)))
        }

        let home = tempfile::tempdir().unwrap();
        let keys = KeyFile::in_directory(home.path().to_owned());
        save(&keys, "", &page("a")).unwrap();
        let refused = save(&keys, "", &page("b")).unwrap_err().to_string();
        assert!(refused.contains("another key of that page is saved"), "{refused}");
        assert!(keys.keys().unwrap() == [page("a")]);
    }
}

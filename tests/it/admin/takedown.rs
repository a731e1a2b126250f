//! Taking pages down, and looking at them.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use handbill_pages::ports::page_store::{Expected, PageStore};
use handbill_pages::values::record::Record;
use handbill_store_sqlite::{JOURNAL_FILE, SqliteStore};
use handbill_test_support::pages::{damage, page};
use serde_json::json;

use super::Operated;
use crate::in_process::app::Published;
use crate::in_process::exchange::Request;
use crate::in_process::stores::{Fault, Operation};

impl Operated {
    /// Asserts that nothing that anybody can ask tells `page` from `deleted`, whose owner deleted it.
    pub(super) async fn assert_deleted_to_everybody(&self, page: &Published, deleted: &Published) {
        for path in [page.slug.clone(), format!("{}.md", page.slug), format!("api/pages/{}", page.slug)] {
            let answer = self.app.get(&format!("/{path}")).await;
            let after_deletion = self.app.get(&format!("/{}", path.replace(&page.slug, &deleted.slug))).await;
            answer.expect_status(410);
            assert_eq!(answer.body, after_deletion.body, "nothing tells the two apart");
        }
        self.app.update(page, json!({"content": "back"})).await.expect_status(410);
        self.app.delete(page).await.expect_status(410);
        let token = format!("grant_type=client_credentials&client_id={}&client_secret={}", page.slug, page.key);
        self.app.send(Request::token(token)).await.expect_status(401);
    }

    /// Lets the owner of `page` update it between the read and the write of the next act.
    pub(super) fn let_the_owner_be_quicker(&self, page: &Published) {
        let (app, page) = (self.app.clone(), page.clone());
        let update = async move {
            app.update(&page, json!({"content": "quickly"})).await.expect_status(200);
        };
        self.app.store.next(Operation::Swap, Fault::Meanwhile(Box::pin(update)));
    }
}

#[tokio::test]
async fn a_page_that_was_taken_down_answers_410_to_everyone() {
    let operated = Operated::start();
    let (page, deleted) = (operated.app.published().await, operated.app.deleted().await);
    assert_eq!(operated.take_down(&[&page.slug]).await, ["taken_down"]);
    operated.assert_deleted_to_everybody(&page, &deleted).await;
}

#[tokio::test]
async fn a_page_that_cannot_be_read_is_inspected_or_taken_down() {
    let directory = tempfile::tempdir().unwrap();
    let damaged = page("The text of this page will be damaged.");
    let store = SqliteStore::open(directory.path(), false).unwrap();
    store.put(Expected::Absent, Record::Active(Arc::new(damaged.clone())), None).await.unwrap();
    drop(store);
    damage(directory.path(), damaged.head.slug.as_str());

    let operated = Operated::on(directory.path());
    let slug = damaged.head.slug.as_str();
    let inspected = operated.inspect(slug).await;
    assert_eq!(inspected["state"], "unreadable");
    assert!(inspected["error"].as_str().unwrap().contains("does not match its checksum"), "{inspected}");

    let act = async |path: &str, more: serde_json::Value| {
        let mut body = json!({"pages": [slug], "by": "abuse desk"});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let result = operated.results(path, body).await.remove(0);
        (result["outcome"].clone(), result["detail"].as_str().unwrap_or_default().to_owned())
    };
    for (path, more) in [("/hide", json!({"reason": "malware"})), ("/show", json!({}))] {
        let (outcome, message) = act(path, more).await;
        assert_eq!(outcome, "failed");
        assert!(message.contains("can only be taken down"), "{message}");
    }
    operated.app.get(&format!("/{slug}")).await.expect_status(500);

    assert_eq!(operated.take_down(&[slug]).await, ["taken_down"]);
    assert_eq!(operated.take_down(&[slug]).await, ["already_deleted"]);
    operated.app.get(&format!("/{slug}")).await.expect_status(410);
    let journal = fs::read_to_string(directory.path().join(JOURNAL_FILE)).unwrap();
    assert_eq!(journal.matches(slug).count(), 1, "{journal}");
}

#[tokio::test]
async fn what_was_deleted_or_never_there_is_reported() {
    let operated = Operated::start();
    let (by_owner, by_operator) = (operated.app.deleted().await, operated.app.published().await);
    operated.take_down(&[&by_operator.slug]).await;
    let slugs = [by_owner.slug.as_str(), &by_operator.slug, "a-page-22222222", "no slug"];
    let outcomes = operated.take_down(&slugs).await;
    assert_eq!(outcomes, ["already_deleted", "already_deleted", "not_found", "not_a_slug"]);
}

#[tokio::test]
async fn an_update_that_comes_between_does_not_save_the_page() {
    let (operated, page) = Operated::with_page().await;
    operated.let_the_owner_be_quicker(&page);
    assert_eq!(operated.take_down(&[&page.slug]).await, ["taken_down"]);
    operated.app.read(&page.slug).await.expect_status(410);
}

#[tokio::test]
async fn of_takedowns_at_the_same_time_one_takes_the_page_down() {
    let (operated, page) = Operated::with_page().await;
    let slugs = [page.slug.as_str()];
    let outcomes = join_all((0..10).map(|_| operated.take_down(&slugs))).await.concat();
    assert_eq!(outcomes.iter().filter(|outcome| *outcome == "taken_down").count(), 1, "{outcomes:?}");
    assert_eq!(outcomes.iter().filter(|outcome| *outcome == "already_deleted").count(), 9, "{outcomes:?}");
}

/// The act's outcome is unknown, and another ends the page before anybody looks again.
#[tokio::test]
async fn an_act_of_unknown_outcome_claims_nothing_of_a_page_that_another_ended() {
    let operated = Operated::start();
    let by_owner = async |operated: Operated, page: Published| {
        operated.app.delete(&page).await.expect_status(204);
    };
    let by_operator = async |operated: Operated, page: Published| {
        operated.app.clock.advance(Duration::from_secs(1));
        assert_eq!(operated.another().take_down(&[&page.slug]).await, ["taken_down"]);
    };
    for (act, fault, is_ended_by_owner, outcome) in [
        ("/takedown", Fault::NotDoneAndUnknown, true, "already_deleted"),
        ("/takedown", Fault::NotDoneAndUnknown, false, "already_deleted"),
        // It may have been hidden until then.
        ("/hide", Fault::DoneButUnknown, false, "failed"),
    ] {
        let page = operated.app.published().await;
        let (other, its_page) = (operated.clone(), page.clone());
        let end = async move {
            if is_ended_by_owner { by_owner(other, its_page).await } else { by_operator(other, its_page).await }
        };
        operated.app.store.next(Operation::Lookup, Fault::Slow(Duration::ZERO));
        operated.app.store.next(Operation::Swap, fault);
        operated.app.store.next(Operation::Lookup, Fault::Meanwhile(Box::pin(end)));
        let body = json!({"pages": [page.slug], "reason": "phishing", "by": "abuse desk"});
        assert_eq!(operated.results(act, body).await[0]["outcome"], outcome, "{act}");
    }
}

#[tokio::test]
async fn a_store_that_does_not_answer_fails_that_page_alone() {
    let operated = Operated::start();
    let pages: Vec<Published> = join_all((0..3).map(|_| operated.app.published())).await;
    operated.app.store.next(Operation::Swap, Fault::Unavailable);
    let slugs: Vec<&str> = pages.iter().map(|page| page.slug.as_str()).collect();
    let mut outcomes = operated.take_down(&slugs).await;
    outcomes.sort();
    assert_eq!(outcomes, ["failed", "taken_down", "taken_down"]);
    assert_eq!(operated.take_down(&slugs).await.iter().filter(|outcome| *outcome == "taken_down").count(), 1);
}

#[tokio::test]
async fn a_request_that_does_not_fit_takes_nothing_down() {
    let (operated, page) = Operated::with_page().await;
    for body in [
        json!({"pages": [page.slug], "reason": "boredom", "by": "desk"}),
        json!({"pages": [page.slug], "reason": "spam", "by": " "}),
        json!({"pages": [page.slug], "reason": "spam", "by": "a\nb"}),
        json!({"pages": [page.slug], "reason": "spam"}),
        json!({"pages": [page.slug], "reason": "spam", "by": "desk", "dryrun": true}),
        json!([]),
    ] {
        let answer = operated.ask("POST", "/takedown", &body).await.expect(400);
        assert!(!answer.text.is_empty(), "{body}");
    }
    operated.app.read(&page.slug).await.expect_status(200);
}

#[tokio::test]
async fn inspect_shows_facts_of_a_page_and_not_its_text_or_key() {
    let operated = Operated::start();
    let text =
        format!("See [a](https://a.example/x) and ![](https://b.example/i.png).\n\n{}", "hidden text ".repeat(200));
    let page = operated.app.publish("A title", &text).await;
    let found = operated.inspect(&page.slug).await;
    let text_of_it = found.to_string();
    assert_eq!((&found["state"], &found["version"]), (&json!("active"), &json!(1)));
    assert_eq!(found["details"]["title"], "A title");
    assert_eq!((&found["hosts"], &found["content_bytes"]), (&json!(["a.example", "b.example"]), &json!(text.len())));
    let Some(Record::Active(stored)) = operated.app.stored(&page.slug).await else { panic!("it can be read") };
    let hash =
        stored.head.state.key_hash.as_bytes().iter().fold(String::new(), |hash, byte| format!("{hash}{byte:02x}"));
    for hidden in [page.key.as_str(), &hash] {
        assert!(!text_of_it.contains(hidden), "{found}");
    }
    assert!(found["excerpt"].is_null(), "not even its beginning: {found}");

    operated.take_down(&[&page.slug]).await;
    let found = operated.inspect(&page.slug).await;
    assert_eq!(found["state"], "deleted");
    assert_eq!(found["takedown"], json!({"reason": "phishing", "by": "abuse desk"}));
    assert!(found["details"].is_null(), "{found}");
    let absent = operated.inspect("a-page-22222222").await;
    assert_eq!(absent, json!({"slug": "a-page-22222222", "state": "absent"}));
    operated.ask("POST", "/inspect", json!({"page": "nonsense"})).await.expect(400);
}

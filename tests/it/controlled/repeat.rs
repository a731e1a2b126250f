//! A create that is sent again after a lost answer, or whose slug another page has (contract, decision 22).

use std::sync::Arc;

use handbill_pages::ports::page_store::PageStore;
use handbill_pages::values::edit_key::EditKey;
use handbill_pages::values::page::PageHead;
use handbill_pages::values::title::Title;
use serde_json::json;

use crate::in_process::app::{Setup, TestApp};
use crate::in_process::stores::{Fault, Operation};
use crate::support::calls::new_key;
use crate::support::pages::{page, with_head};

#[tokio::test]
async fn after_a_lost_answer_the_same_create_finds_its_page() {
    for fault in [Fault::DoneButUnknown, Fault::NotDoneAndUnknown, Fault::Unavailable] {
        let app = TestApp::new();
        let other = Setup::new().over_the_store_of(&app).start();
        let body = json!({"title": "T", "content": "c", "edit_key": new_key()}).to_string();
        app.store.next(Operation::Insert, fault);
        app.create(body.clone()).await.expect_error(503, "unavailable");
        let made = other.create(body.clone()).await;
        made.expect_status(201);
        assert_eq!(app.create(body).await.expect_status(201).json(), made.json());
    }
}

#[tokio::test]
async fn a_key_whose_slug_another_page_has_gets_the_next_one() {
    let app = TestApp::new();
    let (title, key) = (Title::parse("A title").unwrap(), new_key());
    let secret = app.store.slug_secret().await.unwrap();
    let slugs = [0, 1].map(|counter| secret.slug(&title, &EditKey::parse(&key).unwrap(), counter));
    let other = with_head(&Arc::new(page("c")), |head| PageHead { slug: slugs[0].clone(), ..head });
    app.store.insert_if_absent(other, None).await.unwrap();
    let body = json!({"title": "A title", "content": "c", "edit_key": key}).to_string();
    for _ in 0..2 {
        assert_eq!(app.create(body.clone()).await.expect_status(201).field("slug"), slugs[1].as_str());
    }
}

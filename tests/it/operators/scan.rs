//! Looking for pages.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::Operated;

impl Operated {
    /// The slugs of all pages that meet `criteria`, and the number of records that were looked at.
    pub(super) async fn scan(&self, criteria: Value) -> (BTreeSet<String>, u64) {
        let (mut found, mut examined) = (BTreeSet::new(), 0);
        let mut request = criteria;
        request["by"] = json!("desk");
        loop {
            let answer = self.ask("POST", "/scan", &request).await.expect(200).json();
            examined += answer["examined"].as_u64().unwrap();
            for page in answer["pages"].as_array().unwrap() {
                assert!(found.insert(page["slug"].as_str().unwrap().to_owned()), "each page once");
            }
            if answer["cursor"].is_null() {
                return (found, examined);
            }
            request["cursor"] = answer["cursor"].clone();
        }
    }
}

#[tokio::test]
async fn a_scan_finds_each_page_that_meets_all_criteria_over_any_number_of_batches() {
    let operated = Operated::start();
    let mut spam = BTreeSet::new();
    for number in 0..300 {
        let content = if number % 10 == 0 { "Buy at https://www.spam.example/x" } else { "An honest text." };
        let page = operated.app.publish(&format!("Page {number}"), content).await;
        if number % 10 == 0 {
            spam.insert(page.slug);
        }
    }
    let deleted = operated.app.deleted().await;
    let (found, examined) = operated.scan(json!({"linking_to": "spam.example"})).await;
    assert_eq!((&found, examined), (&spam, 301));
    assert_eq!(operated.scan(json!({"matching": "(?i)BUY at"})).await.0, spam);
    assert_eq!(operated.scan(json!({"matching": "^Page 1\\d$", "linking_to": "spam.example"})).await.0.len(), 1);
    assert!(!operated.scan(json!({"created_before": "9999-01-01"})).await.0.contains(&deleted.slug));
    assert_eq!(operated.scan(json!({"created_after": "9999-01-01"})).await.0.len(), 0);
    assert_eq!(operated.scan(json!({"created_before": "1970-01-02T00:00:00Z"})).await.0.len(), 0);
}

#[tokio::test]
async fn a_scan_shows_what_is_needed_to_decide_and_changes_nothing() {
    let operated = Operated::start();
    let page = operated.app.publish("A title", "See https://a.example/ and more.").await;
    let answer = operated.ask("POST", "/scan", json!({"by": "desk", "linking_to": "a.example"})).await.expect(200);
    let found = &answer.json()["pages"][0];
    assert_eq!((&found["slug"], &found["title"]), (&json!(page.slug), &json!("A title")));
    assert_eq!(
        (&found["hosts"], &found["excerpt"]),
        (&json!(["a.example"]), &json!("See https://a.example/ and more."))
    );
    assert!(!answer.text.contains(&page.key));
    operated.app.read(&page.slug).await.expect_status(200);
    assert_eq!(operated.audit().await.len(), 1, "the scan alone");
}

/// A batch is looked at by the threads that answer requests, and has hundreds of pages.
#[tokio::test]
async fn a_scan_makes_no_fingerprints_which_take_long_and_an_inspection_does() {
    let operated = Operated::start();
    let page = operated.app.publish("A title", "A text that is long enough to be told from all others.").await;
    let found =
        operated.ask("POST", "/scan", json!({"by": "desk", "matching": "long enough"})).await.expect(200).json();
    assert_eq!((&found["pages"][0]["slug"], &found["pages"][0]["fingerprints"]), (&json!(page.slug), &Value::Null));
    let inspected = operated.ask("GET", &format!("/inspect/{}?by=desk", page.slug), "").await.expect(200).json();
    assert_eq!(inspected["fingerprints"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_scan_without_a_criterion_or_with_one_that_makes_no_sense_is_refused() {
    let operated = Operated::start();
    for wrong in [
        json!({}),
        json!({"linking_to": "https://spam.example"}),
        json!({"matching": "("}),
        json!({"created_after": "yesterday"}),
        json!({"created_before": "2026-13-01"}),
        json!({"linking_to": "a.example", "cursor": "zz"}),
        json!({"linked_to": "a.example"}),
    ] {
        let mut wrong = wrong;
        wrong["by"] = json!("desk");
        let answer = operated.ask("POST", "/scan", &wrong).await.expect(400);
        assert!(!answer.json()["message"].as_str().unwrap().is_empty(), "{wrong}");
    }
}

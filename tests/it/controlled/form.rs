//! Previews of hostile texts, which are too many for a network (contract, decision 19).

use std::collections::BTreeSet;
use std::time::Duration;

use crate::in_process::app::{Setup, TestApp};
use crate::security::{corpora, xss};
use crate::spec::form::{field, form};

/// Texts of each kind of Markdown, and attacks. The tests in browsers use them too.
const TEXTS: &str = include_str!("../../services/browser/node/previews.json");

#[tokio::test]
async fn the_preview_of_every_text_is_the_article_of_its_page() {
    let app = Setup::unlimited().start();
    let texts: Vec<String> = serde_json::from_str(TEXTS).unwrap();
    // Every example of Markdown, and of the thousands of attacks in HTML each fifth: most of them differ in a word.
    let markdown = corpora::rows(&["markdown"]);
    let html = corpora::rows(&["html", "url", "text"]).into_iter().step_by(5);
    let all: BTreeSet<String> = xss::all().chain(texts).chain(markdown).chain(html).collect();
    // A page has at least one byte and at most 100 KB.
    let fitting: Vec<_> = all.iter().filter(|text| (1..=102_400).contains(&text.len())).collect();
    assert!(fitting.len() > 150, "{}", fitting.len());
    for text in &fitting {
        // A client has 600 previews an hour.
        app.clock.advance(Duration::from_secs(6));
        check(&app, text).await;
    }
    println!("{} previews compared", fitting.len());
}

async fn check(app: &TestApp, text: &str) {
    let parts = [field("title", "T"), field("content", text), field("action", "preview")];
    let preview = app.send(form(&parts).header("accept", "application/json")).await;
    let article = preview.expect_status(200).field("article_html");
    let page = app.publish("T", &text.replace("\r\n", "\n")).await;
    let shown = app.get(&format!("/{}", page.slug)).await;
    assert!(shown.text().contains(&format!("<article dir=\"auto\">\n{article}\n</article>")), "{text:?}");
}

//! Whom readers can tell, search engines, and networks with limits of their own.

use std::time::Duration;

use handbill::http::SiteSettings;
use handbill::settings::{Contact, SiteLink};
use serde_json::json;

use crate::in_process::app::{Setup, TestApp};
use crate::in_process::exchange::Request;

fn with_contact(contact: Option<&str>) -> TestApp {
    let abuse_contact = contact.map(|text| Contact::parse(text).unwrap());
    Setup::unlimited().site(SiteSettings { abuse_contact, ..SiteSettings::default() }).start()
}

#[tokio::test]
async fn every_page_can_be_reported_with_its_address_filled_in() {
    for (contact, expected, words) in [
        (
            "abuse@example.org",
            "mailto:abuse@example.org?subject=Report%20of%20https%3A%2F%2Fpages.example%2F",
            "abuse@example.org",
        ),
        (
            "https://example.org/abuse",
            "https://example.org/abuse?url=https%3A%2F%2Fpages.example%2F",
            "Report this page",
        ),
    ] {
        let app = with_contact(Some(contact));
        let page = app.published().await;
        let html = app.get(&format!("/{}", page.slug)).await.text().to_owned();
        assert!(html.contains(&format!("<a href=\"{expected}{}\" rel=\"nofollow\">{words}</a>", page.slug)), "{html}");
        let linked = format!("[Abuse contact]({}", Contact::parse(contact).unwrap());
        assert!(app.get("/llms.txt").await.text().contains(&linked), "{linked}");
        let document = app.get("/openapi.json").await.json();
        assert!(document["info"]["contact"].to_string().contains(contact), "{document}");
    }
    let (app, page) = TestApp::with_page().await;
    assert!(!app.get(&format!("/{}", page.slug)).await.text().contains("Report"));
}

#[tokio::test]
async fn a_held_page_is_sent_again_when_the_contact_has_changed() {
    let tags = [None, Some("a@example.org"), Some("b@example.org")].map(|contact| async move {
        let app = with_contact(contact);
        let page = app.published().await;
        app.get(&format!("/{}", page.slug)).await.header("etag").split('.').next_back().unwrap().to_owned()
    });
    let tags = futures_util::future::join_all(tags).await;
    assert!(tags[0] != tags[1] && tags[1] != tags[2], "{tags:?}");
}

#[tokio::test]
async fn security_txt_names_the_contact_and_expires() {
    const PATH: &str = "/.well-known/security.txt";
    for (given, contact) in [
        ("abuse@example.org", "mailto:abuse@example.org"),
        ("https://example.org/report", "https://example.org/report"),
    ] {
        let app = with_contact(Some(given));
        let mut expiries = Vec::new();
        for _ in 0..2 {
            let answer = app.get(PATH).await;
            assert_eq!(answer.expect_status(200).header("content-type"), "text/plain; charset=utf-8");
            assert_eq!(answer.header("cache-control"), "no-cache");
            let fields: Vec<_> = answer.text().lines().filter_map(|line| line.split_once(": ")).collect();
            let [("Contact", told), ("Canonical", url), ("Expires", until)] = fields[..] else { panic!("{answer:?}") };
            assert_eq!((told, url), (contact, &*format!("https://pages.example{PATH}")));
            expiries.push(humantime::parse_rfc3339(until).unwrap());
            app.clock.advance(Duration::from_hours(24));
        }
        let passed = expiries[1].duration_since(expiries[0]).unwrap();
        assert!(passed >= Duration::from_hours(23), "it is made at each request: {passed:?}");
    }
    TestApp::new().get(PATH).await.expect_status(404);
}

#[tokio::test]
async fn with_noindex_all_no_representation_of_any_page_is_indexed() {
    let app = Setup::unlimited().site(SiteSettings { noindex_all: true, ..SiteSettings::default() }).start();
    let page = app.publish("Hello", "No link at all.").await;
    for path in [page.slug.clone(), format!("{}.md", page.slug), format!("api/pages/{}", page.slug)] {
        assert_eq!(app.get(&format!("/{path}")).await.header("x-robots-tag"), "noindex", "{path}");
    }
    let html = app.get(&format!("/{}", page.slug)).await;
    assert!(html.text().contains("<meta name=\"robots\" content=\"noindex\">"));
}

#[tokio::test]
async fn the_operators_own_documents_are_linked_everywhere() {
    let links = ["privacy=https://pages.example/privacy", "support=help@pages.example"];
    let links = links.map(|link| SiteLink::parse(link).unwrap()).to_vec();
    let (app, page) =
        Setup::unlimited().site(SiteSettings { links, ..SiteSettings::default() }).start_with_page().await;
    for path in ["/", "/help", "/pages", &format!("/{}", page.slug), &format!("/{}/edit", page.slug)] {
        let answer = app.send(Request::get(path).header("accept", "text/html")).await;
        for link in [
            r#"<a href="https://pages.example/privacy" rel="nofollow">Privacy</a>"#,
            r#"href="mailto:help@pages.example""#,
        ] {
            assert!(answer.text().contains(link), "{path}: {link}");
        }
    }
    assert!(app.get("/llms.txt").await.text().contains("[Privacy](https://pages.example/privacy)"));
}

#[tokio::test]
async fn an_icon_is_there_in_each_size_that_is_promised() {
    let app = TestApp::new();
    let icons = app.get("/mcp/server-card").await.json()["icons"].as_array().unwrap().clone();
    assert!(icons.iter().any(|icon| icon["mimeType"] == "image/png" && icon["sizes"] == json!(["512x512"])));
    for icon in icons {
        let path = icon["src"].as_str().unwrap().strip_prefix("https://pages.example").unwrap().to_owned();
        assert_eq!(app.get(&path).await.expect_status(200).header("content-type"), icon["mimeType"].as_str().unwrap());
    }
}

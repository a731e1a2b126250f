//! All documents of a service at another address (spec §4.7).

use crate::in_process::app::{Setup, TestApp};
use crate::spec::discovery::DOCUMENTS;
use crate::support::exchange::Request;

#[tokio::test]
async fn no_document_gives_an_address_of_another_origin() {
    let app = Setup::new().base_url("http://127.0.0.1:18080").start();
    for (path, _) in DOCUMENTS {
        let text = app.get(path).await.text().to_owned();
        for (at, _) in text.match_indices("://") {
            let scheme = text[..at].rfind(|c: char| !c.is_ascii_alphabetic()).map_or(0, |before| before + 1);
            let address = &text[scheme..];
            let known = [
                "http://127.0.0.1:18080",
                "https://static.modelcontextprotocol.io/schemas/",
                "https://modelcontextprotocol.io/specification/",
                // An example of an address in the OpenAPI document.
                "https://pages.example/",
            ];
            assert!(known.iter().any(|origin| address.starts_with(origin)), "{path}: {}", &address[..60]);
        }
    }
}

#[tokio::test]
async fn a_host_that_a_request_names_is_in_no_answer() {
    const HOST: &str = "poison.example";
    let app = TestApp::new();
    let (page, gone) = (app.published().await, app.deleted().await);
    let named = |request: Request| {
        let forwarded = format!("for=192.0.2.9;host={HOST};proto=https");
        let request = request.header("host", HOST).header("x-forwarded-host", HOST).header("forwarded", forwarded);
        request.header("x-original-url", format!("https://{HOST}/")).header("x-forwarded-proto", "gopher")
    };
    let mut requests: Vec<Request> = DOCUMENTS.iter().map(|(path, _)| Request::get(*path)).collect();
    for target in ["/".to_owned(), "/nowhere".to_owned(), "/favicon.ico".to_owned(), "/robots.txt".to_owned()] {
        requests.push(Request::get(target));
    }
    for slug in [&page.slug, &gone.slug] {
        for target in [format!("/{slug}"), format!("/{slug}.md"), format!("/api/pages/{slug}")] {
            requests.push(Request::get(target));
        }
    }
    requests.push(Request::update(&page.slug, "{}"));
    requests.push(Request::create(r#"{"title": "Another", "content": "Page"}"#));
    requests.push(Request::token("grant_type=client_credentials"));
    for request in requests {
        let target = request.target.clone();
        let answer = app.send(named(request)).await;
        assert!(!format!("{:?}", answer.headers).contains(HOST), "{target}: {answer:?}");
        assert!(!answer.text().contains(HOST) && !answer.text().contains("gopher"), "{target}: {answer:?}");
    }
}

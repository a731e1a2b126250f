//! The pages with the editor: they run only our scripts, and let no key into an address (contract, decision 19).

use super::form::{BROWSER, field, form};
use crate::in_process::app::{BASE_URL, TestApp};
use crate::in_process::exchange::Answer;

#[tokio::test]
async fn the_editor_runs_scripts_of_this_service_alone() {
    let (app, page) = TestApp::with_page().await;
    let preview = form(&[field("content", "c"), field("action", "preview")]).header("accept", BROWSER);
    let edit = app.get(&format!("/{}/edit", page.slug)).await;
    let answers = [app.get("/").await, edit, app.get("/pages").await, app.send(preview).await];
    for answer in answers {
        let policy = answer.expect_status(200).header("content-security-policy");
        for directive in [
            "default-src 'none'",
            "script-src 'self';",
            "connect-src 'self';",
            "form-action 'self'",
            "base-uri 'none'",
            "frame-ancestors 'none'",
            "require-trusted-types-for 'script'",
            "trusted-types preview",
        ] {
            assert!(policy.contains(directive), "{directive}: {policy}");
        }
        assert!(!policy.contains("unsafe"), "{policy}");
        // The page that opened this one can neither see nor lead it.
        assert_eq!(answer.header("cross-origin-opener-policy"), "same-origin", "{answer:?}");
        let html = answer.text();
        let (start, rest) = html.split_once("<script type=\"module\" src=\"/assets/").unwrap();
        assert!(!rest.contains("<script") && !start.contains("<script"), "{html}");
        let tags = html.split('<').filter_map(|part| part.split_once('>')).map(|(tag, _)| tag);
        assert!(tags.clone().all(|tag| !tag.contains(" on") && !tag.contains(" style=")), "{html}");
        let path = format!("/assets/{}", rest.split('"').next().unwrap());
        let script = app.get(&path).await;
        assert_eq!(script.expect_status(200).header("content-type"), "text/javascript; charset=utf-8");
        assert_eq!(script.header("cache-control"), "public, max-age=31536000, immutable");
        let (folder, name) = path.rsplit_once('/').unwrap();
        assert!(folder.len() == "/assets/".len() + 16, "{path}");
        let other = app.get(&format!("/assets/0123456789abcdef/{name}")).await;
        assert_eq!(other.expect_status(200).header("cache-control"), "no-cache", "another version's address");
        assert_eq!(other.body, script.body);
    }
    app.get("/assets/0123456789abcdef/none.js").await.expect_error(404, "not_found");
}

#[tokio::test]
async fn the_page_for_editing_lets_no_key_into_an_address() {
    let app = TestApp::new();
    let (page, deleted) = (app.published().await, app.deleted().await);
    let at = |slug: &str| format!("/{slug}/edit");
    let known = app.get(&at(&page.slug)).await;
    let text = |answer: &Answer, slug: &str| answer.expect_status(200).text().replace(slug, "SLUG");
    for slug in [deleted.slug.as_str(), "never-was-2222bbbb"] {
        assert_eq!(text(&app.get(&at(slug)).await, slug), text(&known, &page.slug));
    }
    let html = known.text();
    assert!(!html.contains(" name=\"key") && !html.contains("action="), "{html}");
    let fields =
        html.split("<input").skip(1).chain(html.split("<textarea").skip(1)).map(|rest| rest.split('>').next().unwrap());
    for tag in fields {
        assert!(!tag.contains(" name="), "a field without a name is never sent: {tag}");
    }
    assert!(html.contains("autocomplete=\"current-password\"") && html.contains("autocomplete=\"username\""), "{html}");
    assert!(html.contains("<button class=\"main\" disabled>Edit</button>"), "{html}");
    assert!(html.contains("<noscript>") && html.contains("noindex"), "{html}");
    for path in ["/no-slug/edit", "/api/edit", "/%zz/edit"] {
        app.get(path).await.expect_error(404, "not_found");
    }
    let reading = app.get(&format!("/{}", page.slug)).await;
    assert!(reading.text().contains(&format!("href=\"{BASE_URL}/{}/edit\"", page.slug)), "{reading:?}");
}

//! A host of its own for the tools (contract, decision 24).

use handbill::http::SiteSettings;
use handbill_pages::values::origin::Origin;

use crate::in_process::app::{Setup, TestApp};
use crate::in_process::exchange::{Answer, Request};

const HOST: &str = "mcp.pages.example";

pub(crate) fn start() -> TestApp {
    let site = SiteSettings {
        mcp_base_url: Some(Origin::parse("https://mcp.pages.example").unwrap()),
        ..SiteSettings::default()
    };
    Setup::unlimited().site(site).start()
}

async fn get(app: &TestApp, host: &str, path: &str) -> Answer {
    app.send(Request::get(path).without("host").header("host", host)).await
}

#[tokio::test]
async fn the_host_of_the_tools_has_them_and_their_descriptions_alone() {
    let app = start();
    let page = app.published().await;
    for host in [HOST, "MCP.pages.example:8443"] {
        for path in [
            "/.well-known/mcp/server-card.json",
            "/mcp/server-card",
            "/.well-known/ai-catalog.json",
            "/.well-known/agent-skills/index.json",
            "/.well-known/agent-skills/handbill/SKILL.md",
            "/skill.md",
            "/llms.txt",
            "/favicon.ico",
            "/apple-touch-icon.png",
            "/robots.txt",
        ] {
            get(&app, host, path).await.expect_status(200);
        }
        let absent = [
            "/",
            "/.well-known/oauth-authorization-server",
            "/.well-known/oauth-authorization-server/mcp",
            "/.well-known/oauth-protected-resource",
            "/.well-known/oauth-protected-resource/mcp",
            "/.well-known/openid-configuration",
            "/.well-known/agent-card.json",
            "/.well-known/api-catalog",
            "/register",
            "/authorize",
            "/token",
            "/oauth/token",
            "/api/pages",
            "/openapi.json",
            "/help",
            "/metrics",
        ]
        .map(str::to_owned);
        let of_page = ["", ".md", "/edit"].map(|end| format!("/{}{end}", page.slug));
        for path in absent.into_iter().chain(of_page).chain([format!("/api/pages/{}", page.slug)]) {
            for method in ["GET", "POST", "OPTIONS", "DELETE"] {
                let request = Request::new(method, &path).without("host").header("host", host);
                // The document describes the public host, where most of these exist.
                app.asked(request).await.expect_error(404, "not_found");
            }
        }
    }
    app.read(&page.slug).await.expect_status(200);
    app.get("/.well-known/oauth-authorization-server").await.expect_status(200);
}

#[tokio::test]
async fn the_authority_of_an_absolute_form_is_the_host_that_counts() {
    let app = start();
    let page = app.published().await;
    let ask = |authority: &str, host: &str| {
        let target = format!("http://{authority}/{}", page.slug);
        Request::get(&target).without("host").header("host", host)
    };
    app.send(ask(HOST, "pages.example")).await.expect_status(404);
    app.send(ask("pages.example", HOST)).await.expect_status(200);
}

#[tokio::test]
async fn every_description_of_the_service_names_the_host_of_the_tools() {
    let app = start();
    // The number of times that each gives the address of the tools.
    for (path, times) in [
        ("/", 1),
        ("/pages", 0),
        ("/help", 1),
        ("/llms.txt", 6),
        ("/openapi.json", 0),
        ("/mcp/server-card", 2),
        ("/.well-known/ai-catalog.json", 1),
        ("/.well-known/api-catalog", 0),
        ("/.well-known/agent-skills/index.json", 0),
        ("/skill.md", 1),
        ("/.well-known/mcp/server-card.json", 2),
        ("/.well-known/agent-card.json", 1),
        ("/.well-known/oauth-protected-resource", 0),
        ("/.well-known/oauth-authorization-server", 0),
    ] {
        let answer = app.get(path).await;
        let of_both = ["https://mcp.pages.example/mcp", "https://pages.example/mcp"];
        assert_eq!(of_both.map(|address| answer.text().matches(address).count()), [times, 0], "{path}");
    }
    let card = app.get("/mcp/server-card").await.json();
    assert_eq!(card["remotes"][0]["url"], card["transport"]["endpoint"]);
    assert_eq!(card["name"], "example.pages/handbill", "the name is that of the public host");
}

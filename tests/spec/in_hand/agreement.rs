//! What all documents say of a service at another address (spec §4.7).

use crate::sections::discovery::DOCUMENTS;
use crate::support::app::Setup;

#[tokio::test]
async fn no_document_gives_an_address_of_another_origin_but_those_of_standards() {
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

//! Previews of hostile texts, which are too many for a network (contract, decision 19).

use crate::in_process::app::Setup;
use crate::security::xss;
use crate::spec::form::{field, form};

#[tokio::test]
async fn the_preview_of_every_attack_is_the_article_of_its_page_byte_for_byte() {
    let app = Setup::unlimited().start();
    let mut attacks = 0;
    for attack in xss::all() {
        let parts = [field("title", "T"), field("content", &attack), field("action", "preview")];
        let preview = app.send(form(&parts).header("accept", "application/json")).await;
        let article = preview.expect_status(200).field("article_html");
        let page = app.publish("T", &attack.replace("\r\n", "\n")).await;
        let shown = app.get(&format!("/{}", page.slug)).await;
        assert!(shown.text().contains(&format!("<article dir=\"auto\">\n{article}\n</article>")), "{attack:?}");
        attacks += 1;
    }
    assert!(attacks > 100, "{attacks}");
}

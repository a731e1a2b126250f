//! Which links are external (spec §2.5; contract, decision 12).

use crate::in_process::app::Setup;

#[tokio::test]
async fn a_link_is_external_by_the_base_url_when_it_is_served() {
    let before = Setup::new().base_url("https://one.example").start();
    let after = Setup::new().base_url("https://two.example").over_the_store_of(&before).start();
    let page = before.publish("T", "[x](https://one.example/a)").await;
    assert!(!before.get(&format!("/{}", page.slug)).await.headers.contains_key("x-robots-tag"));
    assert_eq!(after.get(&format!("/{}", page.slug)).await.header("x-robots-tag"), "noindex");
}

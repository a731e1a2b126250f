//! Real browsers, Debian's Chromium and Firefox, open the pages that the real binary serves.
//!
//! `./tests/run` installs the browsers and what drives them (`tests/foreign/clients/install`). If one is missing, its tests
//! fail. The scripts in `node/` take the browser's name and the base URL as their first arguments, so that they can be run
//! against any Handbill by hand. With `SCREENSHOTS=<folder>` they save screenshots. `PICTURES=$PWD/docs ./tests/run --test
//! foreign browser::the_pictures` makes the pictures of the README again.
//!
//! Chromium runs always, and Firefox with `HANDBILL_TEST_FIREFOX`, which `./tests/run --whole` sets. A rule runs in both if an
//! engine may break it: layout, fonts and glyphs, what a policy refuses, caches, the storage of private windows, forms without
//! script, keys, history and the clipboard. A rule that the editor's own script alone decides runs in Chromium alone.

use std::path::{Path, PathBuf};

use handbill_test_support::environment;
use handbill_test_support::server::Server;
use rcgen::{CertifiedKey, generate_simple_self_signed};
use tempfile::tempdir;

use crate::clients::service::Service;
use crate::clients::tools::Client;

async fn run(script: &str, browser: &'static str) {
    run_against(Service::start(), script, browser).await;
}

async fn run_in_each(script: &str) {
    for browser in browsers() {
        run(script, browser).await;
    }
}

/// Chromium, and before a release Firefox too.
fn browsers() -> &'static [&'static str] {
    let has_firefox = environment::variable("HANDBILL_TEST_FIREFOX").is_some();
    if has_firefox { &["chromium", "firefox"] } else { &["chromium"] }
}

async fn run_against(service: Service, script: &str, browser: &'static str) {
    visit(&service.url(), script, browser).await;
    service.stop();
}

/// Runs `script` against a service that logs all that it can, and looks for keys in its log.
async fn run_with_log(script: &str) {
    for browser in browsers() {
        let data = tempdir().expect("a folder");
        let server = Server::start(data.path(), &["--log", "trace"]);
        visit(&format!("http://{}", server.address), script, browser).await;
        let (status, _, log) = server.stop();
        assert!(status.success(), "the service ended with {status}");
        assert!(log.contains("/api/pages/{slug}") && log.contains("PATCH"), "it is the log of the visit: {log}");
        assert!(!log.contains("hbk_"), "a key is in the log");
    }
}

async fn visit(url: &str, script: &str, browser: &'static str) {
    let client = Client::node_in(&scripts(), script).args([browser, url]);
    // The certificate is for a server of images, since pages load images over https only. The browsers are told to
    // trust any certificate.
    let CertifiedKey { cert, signing_key } =
        generate_simple_self_signed(["127.0.0.1".to_owned()]).expect("a certificate");
    let client = client.with_file("cert.pem", cert.pem()).with_file("key.pem", signing_key.serialize_pem());
    let client = client.with_file("own.jsonl", include_str!("../../it/security/corpora/own.jsonl"));
    let mut client = client.args(["cert.pem", "key.pem"]);
    // Clients see no other variable of the tests.
    for folder in ["PICTURES", "SCREENSHOTS"] {
        if let Some(path) = environment::variable(folder) {
            client = client.env(folder, path);
        }
    }
    client.succeeds().await;
}

fn scripts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/foreign/browser/node")
}

#[tokio::test]
async fn a_page_looks_the_same_on_every_visit() {
    run_in_each("visits.mjs").await;
}

#[tokio::test]
async fn no_page_breaks_a_rule_of_accessibility_or_scrolls_sideways() {
    run_in_each("accessible.mjs").await;
}

#[tokio::test]
async fn pages_and_their_print_are_laid_out() {
    run_in_each("reading.mjs").await;
}

#[tokio::test]
async fn marks_paint_nothing_outside_their_block() {
    run_in_each("marks.mjs").await;
}

#[tokio::test]
async fn the_editor_does_what_it_promises() {
    run_with_log("editor.mjs").await;
}

#[tokio::test]
async fn the_sheet_helps_to_write() {
    run_in_each("sheet.mjs").await;
}

#[tokio::test]
async fn a_page_is_found_again_changed_copied_and_deleted() {
    run("mine.mjs", "chromium").await;
}

#[tokio::test]
async fn the_preview_looks_like_the_page() {
    run("looks.mjs", "chromium").await;
}

#[tokio::test]
async fn no_draft_and_no_key_is_lost() {
    run("drafts.mjs", "chromium").await;
}

#[tokio::test]
async fn no_accident_loses_a_text_or_a_key() {
    run("losses.mjs", "chromium").await;
}

#[tokio::test]
async fn the_editor_works_without_script() {
    run_in_each("scriptless.mjs").await;
}

#[tokio::test]
async fn a_preview_is_the_published_page_byte_for_byte() {
    run_in_each("previews.mjs").await;
}

#[tokio::test]
async fn without_storage_no_key_is_lost_unsaid() {
    run_in_each("private.mjs").await;
}

#[tokio::test]
async fn on_a_phone_a_closed_tab_loses_no_text_and_no_key() {
    run("phone.mjs", "chromium").await;
}

#[tokio::test]
async fn a_limited_client_is_told_when_to_come_back() {
    run_against(Service::start_with(&["--create-limit", "1"]), "limited.mjs", "chromium").await;
}

#[tokio::test]
async fn a_script_planted_in_a_page_reads_no_key() {
    run_in_each("planted.mjs").await;
}

#[tokio::test]
async fn the_pictures_of_the_readme_are_made() {
    run("pictures.mjs", "chromium").await;
}

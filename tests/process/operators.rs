//! The operators' commands against a running process: acts on many pages, the lines of the log about them, the blocklist in a
//! file that changes while it runs, and the pause.

use std::collections::HashSet;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use handbill_store_sqlite::JOURNAL_FILE;
use handbill_test_support::client::{Answer, get, post};
use handbill_test_support::interruption::interrupted_takedown;
use handbill_test_support::server::{Server, handbill, run, succeeded, text};
use serde_json::Value;
use tempfile::tempdir;

use super::connections::until_metrics;
use super::moving::Service;

fn create(address: SocketAddr, content: &str) -> Answer {
    post(address, "A page", content).unwrap()
}

fn publish(address: SocketAddr, content: &str) -> String {
    let answer = create(address, content);
    assert_eq!(answer.status, 201, "{answer:?}");
    answer.json()["slug"].as_str().unwrap().to_owned()
}

fn status(address: SocketAddr, path: &str) -> u16 {
    get(address, path).unwrap().status
}

fn acts(log: &str) -> Vec<Value> {
    let lines = log.lines().filter_map(|line| serde_json::from_str(line).ok());
    lines.filter(|line: &Value| line["audit"] == true).collect()
}

/// Replaces the file as a whole, as operators should: the process must not read half of it.
fn replace(path: &Path, content: &str) {
    let next = path.with_extension("next");
    fs::write(&next, content).unwrap();
    fs::rename(&next, path).unwrap();
}

#[test]
fn a_list_that_names_no_page_is_a_mistake_that_is_said() {
    let operated = Service::start();
    let by = ["--by", "desk"];
    let acts = [&["takedown", "--reason", "spam"][..], &["hide", "--reason", "spam"], &["show"]]
        .map(|act| [act, &by].concat());
    for named in acts.iter().chain([&vec!["inspect"]]) {
        let refused = operated.given("# nothing was reported today\n\n", [&named[..], &["-"]].concat());
        assert_eq!(refused.status.code(), Some(2), "{named:?}: {refused:?}");
        assert_eq!(text(&refused.stderr), "handbill: no pages on standard input; nothing was changed\n", "{named:?}");
        let refused = operated.command([&named[..], &[""]].concat());
        let words = "handbill: an argument is empty: give slugs or addresses of pages\n";
        assert_eq!((refused.status.code(), text(&refused.stderr)), (Some(2), words), "{named:?}");
    }
}

#[test]
fn no_filter_hides_an_act_and_its_line_has_no_text_or_key() {
    let operated = Service::start_in(tempdir().unwrap(), &["--log", "off"]);
    let slug = publish(operated.server.address, "Secret text.");
    for act in [
        &["hide", "--reason", "legal-order", "--by", "ana, ticket 7", &*slug][..],
        &["show", "--by", "ana", &slug],
        &["pause", "--by", "ana"],
        &["resume", "--by", "ana"],
    ] {
        operated.done(act);
    }
    let (.., log) = operated.server.stop();
    assert!(!log.contains("Secret") && !log.contains("hbk_"), "{log}");
    let facts = |act: &Value| {
        ["action", "slug", "reason", "by", "outcome"].map(|field| act[field].as_str().unwrap_or("-").to_owned())
    };
    let expected = [
        ["hide", &*slug, "legal-order", "ana, ticket 7", "hidden"],
        ["show", &slug, "-", "ana", "shown"],
        ["pause", "-", "-", "ana", "done"],
        ["resume", "-", "-", "ana", "done"],
    ];
    assert_eq!(acts(&log).iter().map(facts).collect::<Vec<_>>(), expected.map(|act| act.map(str::to_owned)));
}

#[test]
fn an_act_whose_command_is_interrupted_is_done_logged_counted_and_in_the_journal() {
    const MOMENTS: usize = 50;
    const AT_ONCE: usize = 8;
    let operated = Service::start();
    let (address, admin) = (operated.server.address, operated.server.admin);
    let data = operated.path("data");
    let pages: Vec<_> = (0..MOMENTS * AT_ONCE).map(|_| publish(address, "Buy now")).collect();
    for (moment, pages) in pages.chunks(AT_ONCE).enumerate() {
        // Each answer takes the process a little longer.
        let later = || (0..moment).for_each(|_| drop(get(admin, "/livez").unwrap()));
        interrupted_takedown(&data.join("admin.sock"), pages, later);
    }
    let counted = format!("{{action=\"takedown\",outcome=\"taken_down\"}} {}\n", pages.len());
    until_metrics(&operated.server, |metrics| metrics.contains(&counted));
    let Service { server, folder, .. } = operated;
    let (.., log) = server.stop();
    let server = Server::start(&data, &[]);
    let gone: HashSet<_> = pages.iter().filter(|slug| status(server.address, &format!("/{slug}")) == 410).collect();
    let logged = acts(&log);
    let slugs: HashSet<_> = logged.iter().filter_map(|act| act["slug"].as_str()).collect();
    assert_eq!(slugs, gone.iter().map(|slug| &***slug).collect());
    let journal = fs::read_to_string(data.join(JOURNAL_FILE)).unwrap();
    assert_eq!((logged.len(), journal.lines().count()), (gone.len(), gone.len()));
    assert_eq!(gone.len(), pages.len());
    drop((server, folder));
}

#[test]
fn the_journal_is_exported_as_it_is_beside_the_database() {
    let operated = Service::start();
    assert_eq!(operated.done(["export", "--journal"]), "");
    let slug = publish(operated.server.address, "Text.");
    operated.done(["hide", "--reason", "spam", "--by", "desk", &slug]);
    operated.done(["show", "--by", "chief", &slug]);
    operated.done(["takedown", "--reason", "spam", "--by", "desk", &slug]);
    let exported = operated.done(["export", "--journal"]);
    assert_eq!(exported, fs::read_to_string(operated.path("data").join(JOURNAL_FILE)).unwrap());
    assert_eq!(exported.lines().count(), 3, "{exported}");
    assert!(exported.lines().nth(1).unwrap().ends_with(r#""by":"chief"}"#), "{exported}");
    assert_eq!(operated.done(["export", "--journal", "--since", "2026-01-01"]), exported);
    assert_eq!(operated.done(["export", "--journal", "--since", "9998-01-01"]), "");
}

#[test]
fn more_than_a_hundred_pages_are_acted_on_only_as_expected() {
    let operated = Service::start();
    let address = operated.server.address;
    let spam: Vec<_> = (0..101).map(|number| publish(address, &format!("Buy now {number}"))).collect();
    let list = spam.join("\t2026\tBuy\n") + "\n";
    let all_are = |expected: u16| {
        for slug in &spam {
            assert_eq!(status(address, &format!("/{slug}")), expected);
        }
    };
    let hide = ["hide", "--reason", "spam", "--by", "desk", "-"];
    for unexpected in [vec![], vec!["--expect", "100"]] {
        let refused = operated.given(&list, [&hide[..], &unexpected].concat());
        assert_eq!(refused.status.code(), Some(2), "{refused:?}");
        assert!(text(&refused.stderr).contains("101 pages"), "{refused:?}");
    }
    all_are(200);
    let hidden = operated.given(&list, [&hide[..], &["--expect", "101"]].concat());
    let hidden = succeeded(&hidden);
    assert_eq!(hidden.lines().filter(|line| line.contains("\thidden\t20")).count(), 101, "{hidden}");
    all_are(410);
    let inspected = operated.done(["inspect", &spam[0]]);
    assert!(inspected.contains(r#""state":"hidden""#) && inspected.contains(r#""by":"desk""#), "{inspected}");
    succeeded(&operated.given(hidden, ["show", "--by", "chief", "--expect", "101", "-"]));
    all_are(200);
    let gone = operated.command(["show", "--by", "chief", "a-page-22222222", &spam[0]]);
    assert_eq!(gone.status.code(), Some(1), "{gone:?}");
    assert_eq!(text(&gone.stdout), format!("a-page-22222222\tnot_found\n{}\talready_shown\n", spam[0]));
}

#[test]
fn a_takedown_that_the_journal_cannot_have_is_not_done() {
    let folder = tempdir().unwrap();
    let data = folder.path().join("data");
    fs::create_dir(&data).unwrap();
    std::os::unix::fs::symlink("/dev/full", data.join(JOURNAL_FILE)).unwrap();
    let operated = Service::start_in(folder, &[]);
    let slug = publish(operated.server.address, "Text.");
    let taken = operated.command(["takedown", "--reason", "spam", "--by", "desk", &slug]);
    assert_eq!(taken.status.code(), Some(1), "{taken:?}");
    let line = text(&taken.stdout);
    assert!(line.starts_with(&format!("{slug}\tfailed\t")), "{line}");
    assert_eq!(status(operated.server.address, &format!("/{slug}")), 200);
    let (.., log) = operated.server.stop();
    assert!(log.contains("No space left on device"), "{log}");
}

#[test]
fn a_changed_blocklist_is_read_and_a_bad_one_changes_nothing() {
    let directory = tempdir().unwrap();
    let list = directory.path().join("blocklist");
    let option = ["--blocklist-file", list.to_str().unwrap()];
    replace(&list, "no host\n");
    let checked = run(handbill([&["serve", "--check-config"][..], &option].concat()), b"");
    assert_eq!(checked.status.code(), Some(2), "{checked:?}");
    let message = text(&checked.stderr);
    assert!(message.contains("--blocklist-file") && message.contains("line 1 is no host"), "{message}");

    let server = Server::start(&directory.path().join("data"), &option);
    server.wait_for_log("cannot read the blocklist: nothing is published until it can be read");
    assert_eq!(create(server.address, "A text.").problem(), (503, "unavailable".to_owned()));
    replace(&list, "spam.example\n");
    server.wait_for_log("the blocklist was read");
    let page = publish(server.address, "A text.");
    assert_eq!(create(server.address, "http://spam.example/").problem(), (400, "content_refused".to_owned()));
    replace(&list, "no host\n");
    server.wait_for_log("line 1 is no host");
    assert_eq!(create(server.address, "http://spam.example/").status, 400, "the list that was read last stays");
    assert_eq!(status(server.address, &format!("/{page}")), 200);
}

#[test]
fn creates_are_paused_and_a_pause_survives_a_restart() {
    let operated = Service::start();
    let data = operated.path("data");
    for _ in 0..2 {
        assert_eq!(operated.done(["pause", "--by", "desk"]), "Publishing is paused.\n");
        assert_eq!(create(operated.server.address, "Text.").problem(), (503, "unavailable".to_owned()));
        assert_eq!(operated.done(["resume", "--by", "desk"]), "Publishing is open.\n");
        assert_eq!(create(operated.server.address, "Text.").status, 201);
    }
    operated.done(["pause", "--by", "desk"]);
    let Service { server, folder, .. } = operated;
    server.stop();
    let server = Server::start(&data, &[]);
    assert_eq!(create(server.address, "Text.").status, 503);
    drop((server, folder));
}

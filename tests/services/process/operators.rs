//! The operators' commands against a running process: takedown of many pages under load, the audit, the blocklist and
//! the pause, in files that change while it runs.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use serde_json::Value;
use tempfile::{TempDir, tempdir};

use super::client::Connection;
use super::support::{Server, handbill, run, text};
use super::takedowns::{
    Load, assert_audited, assert_gone, assert_taken_down, create, entries, publish, publish_some, status,
};

const TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// A running server whose operators have a token.
struct Operated {
    server: Server,
    token: PathBuf,
    directory: TempDir,
}

impl Operated {
    fn start(args: impl FnOnce(&Path) -> Vec<String>) -> Self {
        let directory = tempdir().unwrap();
        let token = directory.path().join("token");
        fs::write(&token, TOKEN).unwrap();
        let mut all = vec!["--admin-token-file".to_owned(), token.display().to_string()];
        all.extend(args(directory.path()));
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        let server = Server::start(&directory.path().join("data"), &all);
        Self { server, token, directory }
    }

    /// Runs an operators' command.
    fn command(&self, args: &[&str], input: &str) -> Output {
        let mut command = handbill(args.iter().copied());
        command.arg("--admin-listen").arg(self.server.admin.to_string());
        command.arg("--admin-token-file").arg(&self.token);
        run(command, input.as_bytes())
    }

    /// Standard output of a command that must succeed.
    fn done(&self, args: &[&str], input: &str) -> String {
        let output = self.command(args, input);
        assert!(output.status.success(), "{args:?}: {output:?}");
        text(&output.stdout).to_owned()
    }

    fn audit(&self) -> Vec<Value> {
        entries(&self.done(&["audit"], ""))
    }
}

/// Replaces the file as a whole, as operators should: the process must not read half of it.
fn replace(path: &Path, content: &str) {
    let next = path.with_extension("next");
    fs::write(&next, content).unwrap();
    fs::rename(&next, path).unwrap();
}

#[test]
fn a_list_that_names_no_page_is_a_mistake_that_is_said() {
    let operated = Operated::start(|_| Vec::new());
    for named in [["takedown", "--reason", "spam"].as_slice(), &["hide", "--reason", "spam"], &["show"], &["inspect"]] {
        let refused = operated.command(&[named, &["--by", "desk"]].concat(), "# nothing was reported today\n\n");
        assert_eq!(refused.status.code(), Some(2), "{named:?}: {refused:?}");
        assert_eq!(text(&refused.stderr), "handbill: standard input names no page, so nothing was done\n", "{named:?}");
        let refused = operated.command(&[named, &["--by", "desk", ""]].concat(), "");
        let words = "handbill: an argument is empty: give slugs or addresses of pages\n";
        assert_eq!((refused.status.code(), text(&refused.stderr)), (Some(2), words), "{named:?}");
    }
}

#[test]
fn a_command_that_asks_where_clients_are_served_is_told_so() {
    let operated = Operated::start(|_| Vec::new());
    let slug = publish(operated.server.address, "Text.");
    for named in
        [&["inspect", &slug][..], &["takedown", "--reason", "spam", "--by", "desk", &slug], &["pause", "--by", "desk"]]
    {
        let mut command = handbill(named.iter().copied());
        command.arg("--admin-listen").arg(operated.server.address.to_string());
        command.arg("--admin-token-file").arg(&operated.token);
        let refused = run(command, b"");
        let words = "is where clients are served: give the operators' listener to --admin-listen";
        assert!(refused.status.code() == Some(2) && text(&refused.stderr).contains(words), "{named:?}: {refused:?}");
    }
    let found = operated.command(&["takedown", "--dry-run", "--linking-to", "nobody.example"], "");
    assert!(found.status.success() && text(&found.stderr).contains("the criteria find no page"), "{found:?}");
}

#[test]
fn a_command_that_reads_is_in_the_audit_under_the_name_of_who_called_sudo() {
    let operated = Operated::start(|_| Vec::new());
    let slug = publish(operated.server.address, "Text.");
    let mut inspect = handbill(["inspect", &slug]);
    inspect.arg("--admin-listen").arg(operated.server.admin.to_string());
    inspect.arg("--admin-token-file").arg(&operated.token).env("SUDO_USER", "alice");
    assert!(run(inspect, b"").status.success());
    let audit = operated.done(&["audit"], "");
    assert!(audit.contains(r#""by":"user alice""#), "{audit}");
}

#[test]
fn a_hundred_pages_are_taken_down_by_one_command_under_load_and_each_is_410_at_once_and_audited() {
    let operated = Operated::start(|_| Vec::new());
    let address = operated.server.address;
    let slugs = publish_some(&[address], "Unwanted", 100);
    let others = publish_some(&[address], "Wanted", 20);
    let load = Load::begin(&[address], &slugs);

    let list = slugs.iter().fold(String::new(), |list, slug| format!("{list}http://{address}/{slug}\n"));
    let list = format!("# reported today\n\n{list}");
    let printed = operated.done(&["takedown", "--reason", "spam", "--by", "desk"], &list);
    assert_gone(&[address], &slugs);
    load.stop();
    assert_taken_down(&printed, &slugs);
    assert_audited(&operated.audit(), &slugs);
    for slug in &others {
        assert_eq!(status(address, &format!("/{slug}")), 200);
    }

    let again = operated.done(&["takedown", "--reason", "spam", "--by", "desk", &slugs[0]], "");
    assert!(again.starts_with(&format!("{}\talready_deleted\t", slugs[0])), "{again}");
    let printed = operated.done(&["takedown", "--json", "--dry-run", &others[0], "never-was-22222222"], "");
    assert!(printed.contains("would_take_down") && printed.contains("not_found"), "{printed}");
    let failed = operated.command(&["takedown", "--reason", "spam", "--by", "desk", "nonsense"], "");
    assert_eq!(failed.status.code(), Some(1), "{failed:?}");
    assert_eq!(operated.audit().len(), 100);

    let found = operated.done(&["inspect", &slugs[0]], "");
    assert!(found.contains("deleted") && found.contains("spam, by desk"), "{found}");
    let (exit, _, log) = operated.server.stop();
    assert!(exit.success(), "{log}");
    assert_eq!(log.matches("an operator took a page down").count(), 100);
}

#[test]
fn pages_are_found_by_their_links_or_text_and_taken_down_only_after_a_yes() {
    let operated = Operated::start(|_| Vec::new());
    let address = operated.server.address;
    let spam: BTreeSet<String> = (0..30).map(|_| publish(address, "Buy at https://www.spam.example/x")).collect();
    let fine: Vec<String> = (0..30).map(|_| publish(address, "An honest text.")).collect();
    let criteria =
        ["takedown", "--linking-to", "spam.example", "--matching", "(?i)buy", "--created-after", "2020-01-01"];
    let preview = operated.done(&[&criteria[..], &["--dry-run"]].concat(), "");
    let found: BTreeSet<_> = preview.lines().map(|line| line.split('\t').next().unwrap().to_owned()).collect();
    assert_eq!(found, spam);

    let for_real = [&criteria[..], &["--reason", "spam", "--by", "desk"]].concat();
    let unasked = operated.command(&for_real, "yes\n");
    assert_eq!(unasked.status.code(), Some(2), "nobody can be asked here: {unasked:?}");
    assert!(text(&unasked.stderr).contains("--yes"));
    for slug in &spam {
        assert_eq!(status(address, &format!("/{slug}")), 200);
    }
    operated.done(&[&for_real[..], &["--yes"]].concat(), "");
    for slug in &spam {
        assert_eq!(status(address, &format!("/{slug}")), 410);
    }
    for slug in &fine {
        assert_eq!(status(address, &format!("/{slug}")), 200);
    }
    assert_eq!(operated.audit().len(), 30);
}

#[test]
fn pages_are_hidden_by_their_links_and_shown_again_and_more_than_a_hundred_only_as_expected() {
    let operated = Operated::start(|_| Vec::new());
    let address = operated.server.address;
    let spam = publish_some(&[address], "Buy at https://www.spam.example/x", 101);
    let fine = publish(address, "An honest text.");
    let all_are = |expected: u16| {
        for slug in &spam {
            assert_eq!(status(address, &format!("/{slug}")), expected);
        }
    };
    let hide =
        ["hide", "--linking-to", "spam.example", "--reason", "spam", "--by", "desk", "--hidden-for", "1h", "--yes"];
    for unexpected in [vec![], vec!["--expect", "100"]] {
        let refused = operated.command(&[&hide[..], &unexpected].concat(), "");
        assert_eq!(refused.status.code(), Some(2), "{refused:?}");
        assert!(text(&refused.stderr).contains("--expect 101"), "{refused:?}");
    }
    all_are(200);
    let hidden = operated.done(&[&hide[..], &["--expect", "101"]].concat(), "");
    assert_eq!(hidden.lines().filter(|line| line.contains("\thidden\t20")).count(), 101, "{hidden}");
    all_are(410);
    assert_eq!(operated.done(&[&hide[..], &["--dry-run"]].concat(), ""), "", "what is hidden is not found again");
    let inspected = operated.done(&["inspect", &spam[0]], "");
    assert!(inspected.contains("  state       hidden\n") && inspected.contains("  hidden      spam, by desk\n"));

    let again = operated.done(&["show", "--by", "chief"], &format!("{}\n", spam[0]));
    assert_eq!(again, format!("{}\tshown\n", spam[0]));
    let show = ["show", "--linking-to", "spam.example", "--by", "chief", "--yes"];
    operated.done(&show, "");
    all_are(200);
    let gone = operated.command(&["show", "--by", "chief", "a-page-22222222", &fine], "");
    assert_eq!(gone.status.code(), Some(1), "{gone:?}");
    assert_eq!(text(&gone.stdout), format!("a-page-22222222\tnot_found\n{fine}\talready_shown\n"));
    let actions: Vec<_> = operated.audit().iter().map(|entry| entry["action"].clone()).collect();
    assert_eq!((actions.len(), &actions[0], &actions[201]), (202, &"hide".into(), &"show".into()));
}

#[test]
fn a_takedown_of_what_is_hidden_spares_what_was_shown_again() {
    let operated = Operated::start(|_| Vec::new());
    let address = operated.server.address;
    let spam = publish_some(&[address], "Buy at https://spam.example/x", 3);
    let found = ["--linking-to", "spam.example", "--reason", "spam", "--by", "desk", "--yes"];
    let act = |named: &[&str]| operated.command(&[named, &found[..]].concat(), "");
    assert!(act(&["hide"]).status.success());
    operated.done(&["show", "--by", "chief", &spam[0]], "");
    let refused = act(&["hide", "--hidden"]);
    assert!(refused.status.code() == Some(2) && text(&refused.stderr).contains("leave --hidden out"), "{refused:?}");
    let taken = act(&["takedown", "--hidden", "--expect", "2"]);
    assert!(taken.status.success(), "{taken:?}");
    assert_eq!(spam.iter().map(|slug| status(address, &format!("/{slug}"))).collect::<Vec<_>>(), [200, 410, 410]);
    let nothing = act(&["takedown", "--hidden", "--expect", "2"]);
    assert_eq!(nothing.status.code(), Some(2), "a wrong word in a criterion looks like success otherwise: {nothing:?}");
    assert!(text(&nothing.stderr).contains("the criteria find 0 pages"), "{nothing:?}");
}

#[test]
fn a_command_without_the_right_token_changes_nothing_and_says_what_to_do() {
    let operated = Operated::start(|_| Vec::new());
    let slug = publish(operated.server.address, "Text.");
    let wrong = operated.directory.path().join("wrong");
    fs::write(&wrong, "x".repeat(40)).unwrap();
    let admin = operated.server.admin.to_string();
    let takedown = ["takedown", "--reason", "spam", "--by", "desk", &slug, "--admin-listen", &admin];
    for (more, message) in [
        (vec!["--admin-token-file", wrong.to_str().unwrap()], "Authorization: Bearer"),
        (vec!["--admin-token-file", "/nowhere"], "/nowhere cannot be read"),
        (vec![], "give --admin-token-file"),
    ] {
        let refused = run(handbill(takedown.iter().copied().chain(more)), b"");
        assert_eq!(refused.status.code(), Some(2), "{refused:?}");
        assert!(text(&refused.stderr).contains(message) && text(&refused.stderr).lines().count() == 1, "{refused:?}");
    }
    assert_eq!(status(operated.server.address, &format!("/{slug}")), 200);
    let short = operated.directory.path().join("short");
    fs::write(&short, "short").unwrap();
    let start = run(handbill(["--data-dir", "/nowhere", "--admin-token-file", short.to_str().unwrap()]), b"");
    assert_eq!(start.status.code(), Some(2), "{start:?}");
    assert!(text(&start.stderr).contains("fewer than 32 characters"), "{start:?}");
}

#[test]
fn a_blocklist_that_is_emptied_is_a_warning_with_the_number_of_entries_it_had() {
    let operated = Operated::start(|directory| {
        let list = directory.join("blocklist");
        fs::write(&list, "spam.example\nother.example\n").unwrap();
        vec!["--blocklist-file".to_owned(), list.display().to_string()]
    });
    replace(&operated.directory.path().join("blocklist"), "# to be filled\n");
    operated.server.wait_for_log("is empty now");
    let (.., log) = operated.server.stop();
    let line = log.lines().find(|line| line.contains("is empty now")).unwrap();
    assert!(line.contains(r#""level":"WARN""#) && line.contains(r#""before":2"#), "{line}");
}

#[test]
fn a_blocklist_that_was_emptied_between_two_starts_is_a_warning_too_and_one_that_was_empty_is_none() {
    let directory = tempdir().unwrap();
    let (data, list) = (directory.path().join("data"), directory.path().join("blocklist"));
    // The log of a process that has read `text`.
    let read = |text: &str| {
        replace(&list, text);
        let (.., log) = Server::start(&data, &["--blocklist-file", list.to_str().unwrap()]).stop();
        log
    };
    assert!(!read("# to be filled\n").contains("is empty now"));
    assert!(!read("spam.example\nother.example\n").contains("is empty now"));
    let log = read("");
    let line = log.lines().find(|line| line.contains("is empty now")).unwrap();
    assert!(line.contains(r#""level":"WARN""#) && line.contains(r#""before":2"#), "{line}");
    assert!(!read("").contains("is empty now"));
}

#[test]
fn a_blocklist_is_read_again_when_it_changes_and_a_bad_one_changes_nothing() {
    let list = |directory: &Path| directory.join("blocklist").display().to_string();
    let operated = Operated::start(|directory| {
        fs::write(list(directory), "spam.example\n").unwrap();
        vec!["--blocklist-file".to_owned(), list(directory)]
    });
    let (address, list) = (operated.server.address, list(operated.directory.path()));
    assert_eq!(create(address, "http://spam.example/").problem(), (400, "content_refused".to_owned()));
    assert_eq!(create(address, "http://later.example/").status, 201);

    replace(Path::new(&list), "later.example\nno host\n");
    operated.server.wait_for_log("line 2 is no host");
    assert_eq!(create(address, "http://spam.example/").status, 400, "the list that was read last stays");
    assert_eq!(create(address, "http://later.example/").status, 201);

    replace(Path::new(&list), "later.example\n");
    operated.server.wait_for_log("the blocklist can be read again");
    assert_eq!(create(address, "http://later.example/").status, 400);
    assert_eq!(create(address, "http://spam.example/").status, 201);

    replace(Path::new(&list), "no host\n");
    let checked = run(handbill(["serve", "--check-config", "--blocklist-file", &list]), b"");
    assert_eq!(checked.status.code(), Some(2), "{checked:?}");
    let message = text(&checked.stderr);
    assert!(
        message.contains("--blocklist-file") && message.contains("line 1") && message.lines().count() == 1,
        "{message}"
    );
}

#[test]
fn a_start_with_a_bad_blocklist_keeps_the_last_good_one_and_without_one_publishes_nothing_until_it_is_corrected() {
    let directory = tempdir().unwrap();
    let (data, list) = (directory.path().join("data"), directory.path().join("blocklist"));
    let start = || Server::start(&data, &["--blocklist-file", list.to_str().unwrap()]);
    replace(&list, "spam.example\n");
    let server = start();
    let page = publish(server.address, "A text.");
    replace(&list, "later.example\n");
    server.wait_for_log("\"entries\":1");
    while !fs::read_to_string(data.join("blocklist.last")).is_ok_and(|text| text.contains("later")) {
        std::thread::yield_now();
    }
    server.stop();

    replace(&list, "no host\n");
    let server = start();
    server.wait_for_log("the blocklist cannot be read; what was read last stays in force");
    assert_eq!(create(server.address, "http://later.example/").problem(), (400, "content_refused".to_owned()));
    assert_eq!(create(server.address, "http://spam.example/").status, 201);
    server.stop();

    fs::remove_file(data.join("blocklist.last")).unwrap();
    let server = start();
    server.wait_for_log("no earlier one is known: nothing is published until it can be read");
    assert_eq!(create(server.address, "http://later.example/").problem(), (503, "unavailable".to_owned()));
    assert_eq!(status(server.address, &format!("/{page}")), 200, "reads go on");
    replace(&list, "later.example\n");
    server.wait_for_log("the blocklist can be read again");
    assert_eq!(create(server.address, "A text.").status, 201);
}

#[test]
fn pages_that_the_list_refuses_since_they_were_published_are_found_for_hide_to_read() {
    let list = |directory: &Path| directory.join("blocklist").display().to_string();
    let operated = Operated::start(|directory| {
        fs::write(list(directory), "spam.example\n").unwrap();
        vec!["--blocklist-file".to_owned(), list(directory)]
    });
    let (address, list) = (operated.server.address, list(operated.directory.path()));
    let refused = publish(address, "See http://docs.example/forms/x?y=1");
    let fine = publish(address, "See http://docs.example/forms/y");
    let recheck = ["blocklist", "recheck", "--since", "1h"];
    assert_eq!(operated.done(&recheck, ""), "");
    replace(Path::new(&list), "0.0.0.0 spam.example\nhttps://docs.example/forms/x\n");
    operated.server.wait_for_log("\"entries\":2");
    let found = operated.done(&recheck, "");
    assert!(found.starts_with(&format!("{refused}\t")) && found.lines().count() == 1, "{found}");
    operated.done(&["hide", "--reason", "spam", "--by", "desk"], &found);
    assert_eq!(status(address, &format!("/{refused}")), 410);
    assert_eq!(status(address, &format!("/{fine}")), 200);
    assert_eq!(operated.done(&recheck, ""), "");
}

#[test]
fn a_text_that_is_taken_down_with_block_is_refused_once_the_list_is_read_again() {
    let operated = Operated::start(|directory| {
        fs::write(directory.join("blocklist"), "other.example").unwrap();
        vec!["--blocklist-file".to_owned(), directory.join("blocklist").display().to_string()]
    });
    let (address, list) = (operated.server.address, operated.directory.path().join("blocklist"));
    let file = list.to_str().unwrap();
    let text = "Buy cheap watches today, the best prices in town: https://www.spam.example/x";
    let [first, second, third, fourth] = [(); 4].map(|()| publish(address, text));
    let short = publish(address, "Short.");
    let named = ["takedown", "--reason", "spam", "--by", "desk"];
    let block = [&named[..], &["--block", "--blocklist-file", file]].concat();

    let preview = operated.done(&[&block[..], &["--dry-run", &first]].concat(), "");
    assert_eq!(fs::read_to_string(&list).unwrap(), "other.example", "a dry run only prints");
    let printed = operated.done(&[&block[..], &[&first, &second]].concat(), "");
    let lines: Vec<&str> = printed.lines().filter(|line| line.contains(':')).collect();
    assert!(lines.len() == 4 && lines[0].starts_with("links:") != lines[1].starts_with("links:"), "{printed}");
    assert!(lines[..2] == lines[2..] && lines[..2].iter().all(|line| preview.contains(line)), "{printed}");
    let listed = fs::read_to_string(&list).unwrap();
    let expected = format!("other.example\n{} # {first}\n{} # {first}\n", lines[0], lines[1]);
    assert_eq!(listed, expected, "each entry once, on a line of its own");
    operated.server.wait_for_log("\"entries\":3");
    assert_eq!(create(address, text).problem(), (400, "content_refused".to_owned()));
    assert_eq!(create(address, "Mоre: https://www.spam.example/").status, 400);
    assert_eq!(create(address, "More: https://www.fine.example/").status, 201);

    let again = operated.command(&[&block[..], &[&first, &short]].concat(), "");
    assert!(again.status.success(), "{again:?}");
    let notes = self::text(&again.stderr);
    for slug in [&first, &short] {
        assert!(notes.contains(&format!("{slug} has no text or links that could be blocked")), "{notes}");
    }
    assert_eq!(fs::read_to_string(&list).unwrap(), expected);

    // A list that cannot be written: the page is taken down, and the lines are there to be added.
    let nowhere = [&named[..], &["--block=text", "--blocklist-file", "/nowhere/blocklist", &third]].concat();
    let failed = operated.command(&nowhere, "");
    assert_eq!(failed.status.code(), Some(1), "{failed:?}");
    assert!(self::text(&failed.stderr).contains("cannot be written"), "{failed:?}");
    let printed = self::text(&failed.stdout);
    assert!(printed.contains("text:") && !printed.contains("links:"), "{printed}");
    assert_eq!(status(address, &format!("/{third}")), 410);
    // Nothing is written to a list if nothing was asked to be blocked, so the user need not be able to.
    operated.done(&[&named[..], &["--blocklist-file", "/nowhere/blocklist", &fourth]].concat(), "");
}

#[test]
fn creates_are_paused_and_resumed_by_commands_or_by_the_file_and_a_pause_survives_a_restart() {
    let operated = Operated::start(|_| Vec::new());
    let address = operated.server.address;
    let data = operated.directory.path().join("data");
    assert_eq!(operated.done(&["pause", "--by", "desk"], ""), "Creates are paused; any number of pages in any hour.\n");
    assert_eq!(create(address, "Text.").problem(), (503, "unavailable".to_owned()));
    operated.done(&["resume", "--by", "desk"], "");
    assert_eq!(create(address, "Text.").status, 201);
    assert_eq!(operated.done(&["budget", "1", "--by", "desk"], ""), "Creates are open; at most 1 page in any hour.\n");
    assert_eq!(create(address, "Text.").status, 201);
    assert_eq!(create(address, "Text.").status, 503);
    operated.done(&["budget", "off", "--by", "desk"], "");
    assert_eq!(operated.audit().len(), 4);

    replace(&data.join("creates.json"), "{\"paused\": true, \"hourly_budget\": 7}");
    operated.server.wait_for_log("\"hourly_budget\":7");
    assert_eq!(create(address, "Text.").status, 503);
    let Operated { server, directory, .. } = operated;
    server.stop();
    let server = Server::start(&data, &[]);
    assert_eq!(create(server.address, "Text.").status, 503);
    replace(&data.join("creates.json"), "paused");
    server.wait_for_log("the switch of creates cannot be read");
    assert_eq!(create(server.address, "Text.").status, 503, "what was read last stays in force");
    server.stop();
    let server = Server::start(&data, &[]);
    server.wait_for_log("the switch of creates cannot be read");
    assert_eq!(create(server.address, "Text.").status, 503, "it was a pause");
    fs::remove_file(data.join("creates.json")).unwrap();
    server.wait_for_log("the switch of creates can be read again");
    assert_eq!(create(server.address, "Text.").status, 201);
    replace(&data.join("creates.json"), "open");
    server.stop();
    let server = Server::start(&data, &[]);
    server.wait_for_log("the switch of creates cannot be read");
    assert_eq!(create(server.address, "Text.").status, 201, "creates were open");
    server.stop();
    fs::remove_file(data.join("creates.last")).unwrap();
    let server = Server::start(&data, &[]);
    assert_eq!(create(server.address, "Text.").status, 503, "nobody knows whether it was a pause");
    drop((server, directory));
}

#[test]
fn a_takedown_that_is_not_in_the_ledger_ends_with_1_and_says_what_to_do() {
    // Nobody can write a ledger where a directory has its name.
    let operated = Operated::start(|directory| {
        fs::create_dir_all(directory.join("data/handbill.ledger")).unwrap();
        Vec::new()
    });
    let slug = publish(operated.server.address, "Text.");
    let taken = operated.command(&["takedown", "--reason", "spam", "--by", "desk", &slug], "");
    assert_eq!(taken.status.code(), Some(1), "{taken:?}");
    let line = text(&taken.stdout);
    assert!(line.starts_with(&format!("{slug}\tnot_in_ledger\t")) && line.contains("a restore could"), "{line}");
    assert_eq!(status(operated.server.address, &format!("/{slug}")), 410);
    let (.., log) = operated.server.stop();
    assert!(log.contains("a deletion is not in the ledger of deletions"), "{log}");
}

#[test]
fn the_operators_listener_answers_no_name_that_it_does_not_know() {
    let operated = Operated::start(|_| vec!["--allowed-hosts".to_owned(), "metrics.example,other.example".to_owned()]);
    let status = |path: &str, host: &str| {
        let mut connection = Connection::open(operated.server.admin).unwrap();
        connection.send(format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n")).unwrap();
        connection.answer().unwrap().status
    };
    let address = operated.server.admin.to_string();
    for path in ["/metrics", "/audit"] {
        assert_eq!(status(path, "evil.example"), 403, "{path}");
    }
    for host in [&*address, "localhost", "metrics.example:9090", "other.example"] {
        assert_eq!(status("/metrics", host), 200, "{host}");
    }
    assert_eq!([status("/livez", "evil.example"), status("/readyz", "evil.example")], [200, 200]);
    operated.done(&["audit"], "");
}

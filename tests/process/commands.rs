//! The commands for people who write: what they print, which exit code they end with, and that no key is ever lost.

use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use handbill_test_support::client::{Connection, get, tool_call};
use handbill_test_support::port::Port;
use handbill_test_support::server::{Server, handbill, program, run, text};
use serde_json::{Value, json};
use tempfile::{TempDir, tempdir};

pub(super) struct User {
    pub(super) server: Server,
    home: TempDir,
    data: TempDir,
}

impl User {
    pub(super) fn new() -> Self {
        Self::of_server_with(&[])
    }

    pub(super) fn of_server_with(args: &[&str]) -> Self {
        let (data, home) = (tempdir().unwrap(), tempdir().unwrap());
        let server = match args {
            [] => Server::start(data.path(), &[]),
            limits => Server::start_as(handbill(limits), data.path(), &[]),
        };
        Self { server, home, data }
    }

    fn origin(&self) -> String {
        format!("http://{}", self.server.address)
    }

    /// The output of a terminal in which this user runs `command` and types `input`.
    fn in_terminal(&self, command: &str, input: &str) -> String {
        let mut script = Command::new("/usr/bin/script");
        let binary = program();
        script.args(["-qec", &format!("'{binary}' {command}"), "/dev/null"]).env_clear();
        script.env("HOME", self.home.path()).env("HANDBILL_SERVER", self.origin());
        script.stdout(Stdio::piped()).stderr(Stdio::piped());
        text(&run(script, input.as_bytes()).stdout).to_owned()
    }

    pub(super) fn command(&self, args: &[&str]) -> Command {
        let mut command = handbill(args);
        command.env("HOME", self.home.path()).env("HANDBILL_SERVER", self.origin()).env("PATH", "/usr/bin:/bin");
        command
    }

    pub(super) fn run(&self, args: &[&str], input: &str) -> Output {
        run(self.command(args), input.as_bytes())
    }

    #[track_caller]
    pub(super) fn done(&self, args: &[&str], input: &str) -> String {
        let output = self.run(args, input);
        assert!(output.status.success(), "{args:?}: {}", text(&output.stderr));
        assert_eq!(text(&output.stderr), "", "hints are for terminals");
        text(&output.stdout).to_owned()
    }

    #[track_caller]
    fn fails(&self, args: &[&str], input: &str, code: i32) -> String {
        let output = self.run(args, input);
        let message = text(&output.stderr).to_owned();
        assert_eq!((output.status.code(), text(&output.stdout)), (Some(code), ""), "{args:?}: {message}");
        assert!(message.starts_with("handbill: "), "{message}");
        message
    }

    fn edit(&self, slug: &str, editor: &str) -> Output {
        let mut command = self.command(&["edit", slug]);
        command.env("EDITOR", editor).env("TMPDIR", self.home.path());
        command.env("PATH", format!("{}:/usr/bin:/bin", self.home.path().display()));
        run(command, b"")
    }

    fn file(&self, name: &str, content: &str) -> String {
        let path = self.home.path().join(name);
        fs::write(&path, content).unwrap();
        path.to_str().unwrap().to_owned()
    }

    pub(super) fn published(&self, content: &str) -> String {
        let url = self.done(&["publish", "--title", "T"], content);
        url.trim_end().rsplit('/').next().unwrap().to_owned()
    }

    fn title(&self, page: &str) -> Value {
        let page: Value = serde_json::from_str(&self.done(&["get", page, "--json"], "")).unwrap();
        page["title"].clone()
    }

    fn key_file(&self) -> std::path::PathBuf {
        self.home.path().join(".local/share/handbill/keys.jsonl")
    }
}

#[test]
fn a_page_is_published_changed_and_deleted_with_the_kept_key() {
    let user = User::new();
    let file = user.file("note.md", "# A note\n\nOne *two*.\r\n");
    let url = user.done(&["publish", &file], "");
    let slug = url.trim_end().strip_prefix(&format!("{}/", user.origin())).unwrap();
    assert!(slug.starts_with("a-note-") && url.ends_with('\n'), "{url}");
    assert_eq!(user.done(&["get", slug], ""), "# A note\n\nOne *two*.\r\n");
    assert!(user.done(&["get", slug, "--html"], "").contains("<em>two</em>"));
    let page: Value = serde_json::from_str(&user.done(&["get", slug, "--json"], "")).unwrap();
    assert_eq!(page["title"], "A note");

    let mode = fs::metadata(user.key_file()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let key = user.done(&["key", slug], "");
    assert!(key.starts_with("hbk_") && key.len() == 48);
    let day = page["created_at"].as_str().unwrap().split('T').next().unwrap();
    let link = user.done(&["key", "--link", slug], "");
    assert_eq!(link, format!("{}/edit#{key}", url.trim_end()));
    let path = fs::canonicalize(&file).unwrap().display().to_string();
    assert_eq!(user.done(&["list"], ""), format!("{}\t{day}\tA note\t{path}\n", url.trim_end()));

    fs::write(&file, "Changed.").unwrap();
    assert_eq!(user.done(&["update", slug], ""), "", "the file that it was published from is read again");
    assert_eq!(user.done(&["get", slug], ""), "Changed.");
    fs::write(&file, "Changed again.").unwrap();
    assert_eq!(user.done(&["update", &file], ""), "", "the file names its page");
    assert_eq!(user.done(&["get", slug], ""), "Changed again.");
    user.done(&["update", url.trim_end(), "-", "--title", "New"], "From a pipe.");
    assert_eq!(user.done(&["get", &format!("{slug}.md")], ""), "From a pipe.");
    assert_eq!(user.done(&["list"], ""), format!("{}\t{day}\tNew\t{path}\n", url.trim_end()));
    let listed: Value = serde_json::from_str(&user.done(&["list", "--json"], "")).unwrap();
    let created_at = &page["created_at"];
    assert_eq!(listed, json!({"url": url.trim_end(), "title": "New", "created_at": created_at, "source": path}));

    assert_eq!(user.done(&["get", &file], ""), "From a pipe.");
    assert_eq!(user.done(&["key", &file], ""), key);
    let refused = user.fails(&["delete", slug], "", 2);
    assert!(refused.contains("--yes"), "{refused}");
    user.done(&["delete", &file, "--yes"], "");
    user.fails(&["get", slug], "", 3);
    assert_eq!(user.done(&["list"], ""), "");
    let message = user.fails(&["publish", &user.file("empty.md", "")], "", 1);
    assert!(message.contains("empty.md is empty"), "{message}");
}

#[test]
fn a_title_is_the_first_heading_else_the_file_s_name() {
    let user = User::new();
    let title = |url: String| user.title(url.trim_end());
    assert_eq!(title(user.done(&["publish"], "## Second\n\n# *First*\n")), "First");
    assert_eq!(title(user.done(&["publish"], "---\ntitle: \"In front\"\n---\n\n# Heading\n")), "In front");
    assert_eq!(title(user.done(&["publish", "-", "--title=-x"], "# Heading\n")), "-x");
    let file = user.file("Shopping list.md", "no heading");
    assert_eq!(title(user.done(&["publish", &file], "")), "Shopping list");
    let message = user.fails(&["publish"], "no heading", 2);
    assert!(message.contains("--title"), "{message}");
    let message = user.fails(&["publish", "/does/not/exist.md"], "", 1);
    assert!(message.ends_with("(No such file or directory)\n"), "{message}");
}

#[test]
fn each_kind_of_failure_has_its_exit_code_and_says_what_to_do() {
    let user = User::of_server_with(&["--create-limit", "3"]);
    let slug = user.published("a page");
    let other = user.published("another page");

    let nowhere = Port::hold();
    let origin = format!("http://{}", nowhere.address);
    let message = user.fails(&["publish", "--title", "T", "--server", &origin], "text", 7);
    assert!(message.contains("cannot reach http://") && message.contains("--server"), "{message}");

    let message = user.fails(&["publish", "--title", "T"], &"a".repeat(102_401), 1);
    assert!(message.contains("102401 bytes; the limit is 102400"), "{message}");
    // A server ends the connection before the end of such a text, which would look like an answer that was lost.
    let message = user.fails(&["publish", "--title", "T"], &"é".repeat(8 * 1024 * 1024), 1);
    assert!(message.contains("standard input is too long"), "{message}");
    user.fails(&["get", "a-page-22222222"], "", 3);
    user.fails(&["get", "no page"], "", 2);
    assert_eq!(user.fails(&["key"], "", 2), "handbill: <PAGE> is missing; see --help\n");
    user.fails(&["update", "a-page-22222222", "--title", "T"], "", 4);

    // The two keys change places, so each is wrong.
    let kept = fs::read_to_string(user.key_file()).unwrap();
    let swapped = kept.replace(&slug, "SLUG").replace(&other, &slug).replace("SLUG", &other);
    fs::write(user.key_file(), swapped).unwrap();
    let message = user.fails(&["update", &slug, "--title", "T"], "", 4);
    assert!(message.contains("key"), "{message}");

    user.published("the last");
    let message = user.fails(&["publish", "--title", "T"], "text", 6);
    assert!(message.contains("--wait 1h"), "{message}");
}

/// Takes one request at `listener`, and answers it with what `answer` makes of it. Returns when the request came.
fn answer_one(listener: &TcpListener, answer: impl FnOnce(&[u8]) -> Vec<u8>) -> Instant {
    let mut client = Connection::over(listener.accept().unwrap().0);
    let request = client.message().unwrap();
    let came = Instant::now();
    client.send(answer(&request)).unwrap();
    came
}

fn passed_on(server: SocketAddr, request: &[u8]) -> Vec<u8> {
    let mut connection = Connection::open(server).unwrap();
    connection.send(request).unwrap();
    connection.message().unwrap()
}

#[test]
fn a_command_waits_for_the_limit_when_it_is_told_to() {
    let user = User::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let proxy = format!("http://{}", listener.local_addr().unwrap());
    let server = user.server.address;
    let requests = thread::spawn(move || {
        let refusal = b"HTTP/1.1 429 Later\r\nRetry-After: 1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
        let refused = answer_one(&listener, |_| refusal.to_vec());
        answer_one(&listener, |request| passed_on(server, request)) - refused
    });
    user.done(&["publish", "--title", "T", "--wait", "18446744073709551615s", "--server", &proxy], "text");
    let waited = requests.join().unwrap();
    assert!(waited >= Duration::from_secs(1), "it waited for {waited:?}");
}

#[test]
fn a_page_whose_answer_was_lost_is_found_and_not_made_again() {
    let user = User::new();
    let server = user.server.address;
    let losing_one_answer = || {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let proxy = format!("http://{}", listener.local_addr().unwrap());
        thread::spawn(move || {
            answer_one(&listener, |request| {
                passed_on(server, request);
                Vec::new()
            });
            answer_one(&listener, |request| passed_on(server, request));
        });
        proxy
    };
    let published = user.done(&["publish", "--title", "T", "--server", &losing_one_answer()], "text");
    let call = tool_call("create_page", &json!({"title": "By an agent", "content": "One."}));
    let output = user.run(&["mcp", "--server", &losing_one_answer()], &format!("{call}\n"));
    let answer: Value = serde_json::from_str(text(&output.stdout)).unwrap();
    let created = answer["result"]["structuredContent"]["url"].as_str().unwrap_or_else(|| panic!("{answer}"));
    let listed = user.done(&["list"], "");
    let names_both = listed.contains(published.trim_end()) && listed.contains(created);
    assert!(listed.lines().count() == 2 && names_both, "{listed}");
    let User { server, data, .. } = user;
    server.stop();
    let server = Server::start(data.path(), &[]);
    assert!(server.announcement[2].ends_with("(2 pages, 0 deletions)"), "{:?}", server.announcement);
}

/// A server for one request of `user`, whose key file cannot be written any more when the answer comes.
pub(super) fn with_a_disk_that_fills(user: &User) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (server, keys) = (user.server.address, user.key_file());
    thread::spawn(move || {
        answer_one(&listener, |request| {
            fs::remove_file(&keys).unwrap();
            fs::create_dir(keys).unwrap();
            passed_on(server, request)
        })
    });
    format!("http://{address}")
}

#[test]
fn when_the_disk_fills_the_key_is_shown() {
    let user = User::new();
    let server = with_a_disk_that_fills(&user);
    let message = user.fails(&["publish", "--title", "T", "--server", &server], "text", 8);
    let key = message.split_whitespace().find(|word| word.starts_with("hbk_")).expect("the key is shown");
    let url = message.split_whitespace().find(|word| word.starts_with(&user.origin())).expect("so is the address");

    // With room again, the two lines can be saved as they were shown.
    fs::remove_dir(user.key_file()).unwrap();
    assert!(message.ends_with(&format!("\n{url}\n{key}\n")), "{message}");
    user.done(&["key", "--import", "-"], &format!("{url}\n{key}"));
    user.done(&["update", url, "--title", "New"], "");
}

#[test]
fn an_import_leaves_a_key_that_is_kept_and_says_so() {
    let user = User::new();
    let slug = user.published("text");
    let kept = user.done(&["key", &slug], "");
    let other = format!("{}/{slug}\nhbk_{}\n", user.origin(), "x".repeat(43));
    let output = user.run(&["key", "--import", "-"], &other);
    assert!(output.status.success() && text(&output.stderr).contains("another key of"), "{output:?}");
    assert!(!text(&output.stderr).contains("hbk_"), "{output:?}");
    assert_eq!(user.done(&["key", &slug], ""), kept);
    user.done(&["key", "--forget", &slug], "");
    user.done(&["key", "--import", "-"], &other);
    assert_ne!(user.done(&["key", &slug], ""), kept);
}

#[test]
fn nothing_is_published_when_there_is_no_place_for_the_key() {
    let user = User::new();
    let file = user.file("file", "");
    let message = user.fails(&["publish", "--title", "T", "--keys-dir", &file], "text", 1);
    assert!(message.contains("key file"), "{message}");
    let metrics = get(user.server.admin, "/metrics").unwrap();
    assert!(!metrics.text().contains("method=\"POST\""), "a request was sent");
}

#[test]
fn a_command_that_cannot_print_has_kept_the_key() {
    let user = User::new();
    let mut command = user.command(&["publish", "--title", "T"]);
    command.stdout(fs::File::create("/dev/full").unwrap());
    assert!(!run(command, b"text").status.success());
    let url = user.done(&["list"], "");
    user.done(&["update", url.split('\t').next().unwrap(), "--title", "Mine"], "");
}

fn script(directory: &Path, name: &str, body: &str) {
    let path = directory.join(name);
    fs::write(&path, format!("#!/bin/sh\n{body}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn a_page_is_edited_in_the_user_s_editor() {
    let user = User::new();
    let slug = user.published("old text\n");
    let output = user.edit(&slug, "sed -i s/old/new/");
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(user.done(&["get", &slug], ""), "new text\n");
    let output = user.edit(&slug, "true");
    assert!(output.status.success() && text(&output.stderr).contains("nothing was changed"));
    let left = || {
        let paths = fs::read_dir(user.home.path()).unwrap().map(|entry| entry.unwrap().path());
        paths.filter(|path| path.to_str().unwrap().contains("/handbill-")).collect::<Vec<_>>()
    };
    assert!(left().is_empty(), "no file is left");

    let meanwhile = format!(
        "echo mine > \"$1\" && HOME='{home}' HANDBILL_SERVER={origin} '{binary}' update {slug} - < '{theirs}'",
        home = user.home.path().display(),
        origin = user.origin(),
        binary = program(),
        theirs = user.file("theirs", "theirs"),
    );
    script(user.home.path(), "editor", &meanwhile);
    let output = user.edit(&slug, "editor");
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(5), "{message}");
    assert!(message.contains("was changed meanwhile") && !message.contains('`'), "{message}");
    let [kept] = &left()[..] else { panic!("one file is left") };
    assert!(message.contains(kept.to_str().unwrap()), "it says where the text is: {message}");
    assert_eq!(fs::read_to_string(kept).unwrap(), "mine\n");
    assert_eq!(user.done(&["get", &slug], ""), "theirs");

    // Neither a failed editor nor a missing one leaves a file of text that nobody typed.
    fs::remove_file(kept).unwrap();
    for (editor, path) in [("false", "/usr/bin:/bin"), ("", "/nowhere")] {
        let mut command = user.command(&["edit", &slug]);
        command.env("EDITOR", editor).env("TMPDIR", user.home.path()).env("PATH", path);
        let output = run(command, b"");
        assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
        assert!(!text(&output.stderr).contains("your text is saved"), "{}", text(&output.stderr));
    }
    assert!(left().is_empty(), "no file is left");
}

#[test]
fn the_title_can_be_edited_above_the_text() {
    let user = User::new();
    let slug = user.published("one\n");
    for (editor, title, content) in [
        ("sed -i 1s/T$/New/", json!("New"), "one\n"),
        ("sed -i 1,2d;s/one/two/", json!("New"), "two\n"),
        ("sed -i 1s/New//", Value::Null, "two\n"),
    ] {
        let output = user.edit(&slug, editor);
        assert!(output.status.success(), "{}", text(&output.stderr));
        assert_eq!((user.title(&slug), user.done(&["get", &slug], "")), (title, content.to_owned()), "{editor}");
    }
}

#[test]
fn several_files_are_published_up_to_the_first_failure() {
    let user = User::new();
    let (one, two) = (user.file("one.md", "# One\n"), user.file("two.md", "# Two\n"));
    let missing = user.home.path().join("missing.md").to_str().unwrap().to_owned();
    user.fails(&["publish", &one, &two, "--title", "T"], "", 2);
    let output = user.run(&["publish", &one, &missing, &two], "");
    assert_eq!((output.status.code(), text(&output.stdout).lines().count()), (Some(1), 1));
    assert!(text(&output.stderr).contains("cannot read"), "{}", text(&output.stderr));
    let printed = user.done(&["publish", &two], "");
    let listed = user.done(&["list"], "");
    assert_eq!(listed.lines().count(), 2);
    assert!(listed.starts_with(printed.trim_end()), "{listed}");
}

#[test]
fn a_file_that_several_pages_came_from_means_the_newest() {
    let user = User::new();
    let file = user.file("note.md", "# One\n");
    let message = user.fails(&["update", &file], "", 2);
    assert!(message.contains("hasn't been published from here"), "{message}");
    let first = user.done(&["publish", &file], "");
    // A person who repeats the command means `update`. A script is told, and gets its page.
    let shown = user.in_terminal(&format!("publish '{file}'"), "");
    assert!(shown.contains("is already at") && shown.contains("handbill update"), "{shown}");
    assert_eq!(user.done(&["list"], "").lines().count(), 1);
    let output = user.run(&["publish", &file], "");
    assert!(output.status.success() && text(&output.stderr).contains("is already at"), "{output:?}");
    let second = text(&output.stdout).to_owned();
    assert_ne!(first, second);
    let output = user.run(&["key", &file], "");
    assert!(text(&output.stderr).contains("was published 2 times"), "{output:?}");
    assert_eq!(text(&output.stdout), user.done(&["key", second.trim_end()], ""));
    assert!(user.in_terminal(&format!("publish --again '{file}'"), "").contains("http://"));
}

#[test]
fn a_damaged_line_of_the_key_file_is_named_and_kept_and_stops_nothing() {
    let user = User::new();
    let slug = user.published("text");
    let damaged = b"{\"damaged\xff";
    let kept = [damaged, &b"\n"[..], &fs::read(user.key_file()).unwrap()].concat();
    fs::write(user.key_file(), &kept).unwrap();
    let backup = user.home.path().join("backup");
    fs::write(&backup, [&kept[..], b"words\n"].concat()).unwrap();
    let new = ["--keys-dir", user.home.path().to_str().unwrap()];
    for (args, input) in [
        (&["list"][..], ""),
        (&["publish", "--title", "T"], "another"),
        (&["update", &slug, "-"], "changed"),
        (&["key", &slug], ""),
        (&[&["key", "--import", backup.to_str().unwrap()], &new[..]].concat(), ""),
        (&["delete", &slug, "--yes"], ""),
    ] {
        let output = user.run(args, input);
        let message = text(&output.stderr);
        assert!(output.status.success() && message.contains("handbill: line "), "{args:?}: {message}");
        assert!(!message.contains("hbk_") && !message.contains("damaged"), "{args:?}: {message}");
    }
    let after = fs::read(user.key_file()).unwrap();
    assert!(after.windows(damaged.len() + 1).any(|bytes| bytes == [damaged, &b"\n"[..]].concat()), "{after:?}");
    assert_eq!(user.done(&[&["list"], &new[..]].concat(), "").lines().count(), 1);
}

#[test]
fn an_update_replaces_nothing_that_was_changed_elsewhere() {
    let user = User::new();
    let file = user.file("note.md", "# One\n\nMine.\n");
    let url = user.done(&["publish", &file], "");
    let url = url.trim_end();
    let elsewhere = || user.home.path().join("elsewhere").to_str().unwrap().to_owned();
    user.done(&["key", "--import", "-", "--keys-dir", &elsewhere()], &user.done(&["key", "--link", url], ""));
    // The heading was the title, so it stays the title.
    fs::write(&file, "# Two\n\nMine.\n").unwrap();
    user.done(&["update", &file], "");
    user.done(&["update", &file, "--title", "Two"], "");
    fs::write(&file, "# Three\n\nMine.\n").unwrap();
    user.done(&["update", &file], "");
    assert_eq!(user.title(url), "Three");
    assert!(user.done(&["list"], "").contains("\tThree\t"));

    user.done(&["update", url, "-", "--keys-dir", &elsewhere()], "# Three\n\nTheirs.\n");
    let message = user.fails(&["update", &file], "", 5);
    assert!(message.contains("handbill get") && message.contains("--force"), "{message}");
    assert_eq!(user.done(&["get", url], ""), "# Three\n\nTheirs.\n");
    // A title says itself what it replaces, and the text stays as it is.
    user.done(&["update", url, "--title", "Own"], "");
    user.fails(&["update", &file], "", 5);
    user.done(&["update", "--force", &file], "");
    user.done(&["update", &file], "");
    assert_eq!((user.done(&["get", url], ""), user.title(url)), ("# Three\n\nMine.\n".to_owned(), json!("Own")));
    // What the page has already is no loss, as after an answer that was lost.
    fs::write(&file, "Same.\n").unwrap();
    user.done(&["update", url, "-", "--keys-dir", &elsewhere(), "--force"], "Same.\n");
    user.done(&["update", &file], "");
    let output = user.edit(url.rsplit('/').next().unwrap(), "sed -i s/Same/Edited/");
    assert!(output.status.success(), "{output:?}");
    user.fails(&["update", &file], "", 5);
}

#[test]
fn the_server_is_in_the_users_configuration() {
    let user = User::new();
    let configuration = user.home.path().join(".config/handbill");
    fs::create_dir_all(&configuration).unwrap();
    let publish = || {
        let mut command = user.command(&["publish", "--title", "T"]);
        command.env_remove("HANDBILL_SERVER");
        run(command, b"text")
    };
    let server = configuration.join("server");
    fs::write(&server, format!("{}\n", user.origin())).unwrap();
    let output = publish();
    assert!(text(&output.stdout).starts_with(&user.origin()), "{output:?}");
    fs::write(&server, "no server").unwrap();
    assert!(text(&publish().stderr).contains(&format!("{} names no server", server.display())));
    fs::remove_file(&server).unwrap();
    fs::create_dir(&server).unwrap();
    let output = publish();
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains(&format!("cannot read {} (", server.display())), "{output:?}");
    user.published("the variable comes first");
}

#[test]
fn a_published_page_is_opened_or_described_in_json() {
    let user = User::new();
    let opened = user.home.path().join("opened");
    let place = opened.display();
    script(user.home.path(), "xdg-open", &format!("echo \"$1\" > '{place}.new'; mv '{place}.new' '{place}'"));
    let with_path = |path: &str| {
        let mut command = user.command(&["publish", "--open", "--json", "--title", "T"]);
        command.env("PATH", path);
        run(command, b"text")
    };
    let output = with_path(&format!("{}:/bin", user.home.path().display()));
    let page: Value = serde_json::from_str(text(&output.stdout)).unwrap();
    assert_eq!((&page["title"], &page["source"], page.get("edit_key")), (&json!("T"), &Value::Null, None));
    while !opened.exists() {
        thread::yield_now();
    }
    assert_eq!(format!("{}\n", page["url"].as_str().unwrap()), fs::read_to_string(opened).unwrap());
    let output = with_path("/nowhere");
    assert!(output.status.success() && text(&output.stderr).contains("open http://"), "{output:?}");
}

#[test]
fn several_pages_are_deleted_at_once_or_none() {
    let user = User::new();
    let slugs = [user.published("one"), user.published("two")];
    user.fails(&["delete", "--yes", &slugs[0], "a-page-22222222"], "", 4);
    let shown = user.in_terminal(&format!("delete {} {}", slugs[0], slugs[1]), "y\n");
    assert!(shown.contains(&format!("{} and http", slugs[0])), "{shown}");
    for slug in &slugs {
        user.fails(&["get", slug], "", 3);
    }
}

#[test]
fn a_page_that_was_only_hidden_keeps_its_key_and_others_are_deleted_beside_it() {
    let user = User::new();
    let (slug, other) = (user.published("one"), user.published("two"));
    let data = user.data.path().to_str().unwrap();
    user.done(&["hide", "--reason", "spam", "--by", "desk", &slug, "--data-dir", data], "");
    let message = user.fails(&["delete", "--yes", &slug, &other], "", 3);
    assert!(message.contains("handbill key --forget") && message.contains(&slug), "{message}");
    user.fails(&["get", &other], "", 3);
    user.done(&["show", "--by", "desk", &slug, "--data-dir", data], "");
    user.done(&["delete", "--yes", &slug], "");
}

#[test]
fn without_certificates_only_http_servers_are_asked() {
    let user = User::new();
    let slug = user.published("text");
    let get = |page: &str| {
        let mut command = user.command(&["get", page]);
        command.env("SSL_CERT_FILE", "/nowhere").env("SSL_CERT_DIR", "/nowhere");
        run(command, b"")
    };
    assert_eq!(text(&get(&slug).stdout), "text");
    let refused = get(&format!("https://{}/a-page-22222222", user.server.address));
    assert_eq!(refused.status.code(), Some(7));
    assert!(text(&refused.stderr).contains("no ca certificates were loaded"), "{}", text(&refused.stderr));
}

#[test]
fn a_proxy_is_asked_for_other_machines_and_never_for_this_one() {
    let user = User::new();
    let slug = user.published("text");
    let proxy = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", proxy.local_addr().unwrap());
    let with_proxy = |args: &[&str]| {
        let mut command = user.command(args);
        command.envs(["http_proxy", "HTTPS_PROXY", "ALL_PROXY"].map(|variable| (variable, &address)));
        run(command, b"")
    };
    assert_eq!(text(&with_proxy(&["get", &slug]).stdout), "text");
    let admin = user.server.admin.to_string();
    assert!(with_proxy(&["healthcheck", "--admin-listen", &admin]).status.success());
    let asked = thread::spawn(move || Connection::over(proxy.accept().unwrap().0).message().unwrap());
    assert_eq!(with_proxy(&["get", "http://pages.example/a-page-22222222"]).status.code(), Some(7));
    assert!(asked.join().unwrap().starts_with(b"CONNECT pages.example:80 "));
}

#[test]
fn a_reader_that_ends_early_is_no_error() {
    let user = User::new();
    let long = "a line\n".repeat(10_000);
    let slug = user.published(&long);
    for args in [&["get", &slug][..], &["list"], &["--help"], &["render"]] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = user.command(args);
        command.stdout(writer);
        let output = run(command, long.as_bytes());
        assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), ""), "{args:?}");
    }
}

#[test]
fn a_bare_slug_names_a_saved_page_else_one_on_the_server() {
    let (user, other) = (User::new(), User::new());
    let slug = user.published("One.");
    let elsewhere = |args: &[&str]| {
        let output = run(user.command(&[args, &["--server", &other.origin()]].concat()), b"");
        (output.status.code(), text(&output.stdout).to_owned())
    };
    assert_eq!(elsewhere(&["get", &slug]), (Some(0), "One.".to_owned()));
    assert_eq!(elsewhere(&["get", &format!("{}/{slug}", other.origin())]).0, Some(3));
    assert_eq!(elsewhere(&["update", &slug, "--title", "New"]).0, Some(0));
    assert_eq!(user.title(&slug), "New");
    user.done(&["key", "--forget", &slug], "");
    assert_eq!(elsewhere(&["get", &slug]).0, Some(3));
    assert_eq!(user.done(&["get", &slug], ""), "One.");
}

#[test]
fn a_text_for_the_host_of_the_tools_is_refused() {
    let user = User::of_server_with(&["--mcp-base-url", "http://localhost", "--create-limit", "1"]);
    let tools = format!("http://localhost:{}", user.server.address.port());
    let waiting = || fs::read_to_string(user.key_file()).unwrap().matches("\"sent\"").count();
    let message = user.fails(&["publish", "--title", "T", "--server", &tools], "One.", 3);
    assert!(message.contains("serves the tools alone") && message.contains(&user.origin()), "{message}");
    assert_eq!(waiting(), 0, "nothing was stored");
    user.done(&["publish", "--title", "T"], "One.");
    user.fails(&["publish", "--title", "T"], "Two.", 6);
    assert_eq!(waiting(), 0, "the limit stored nothing either");
}

#[test]
fn keys_move_to_another_machine_and_are_forgotten_one_by_one() {
    let user = User::new();
    let slugs = [user.published("one"), user.published("two")];
    let other = user.home.path().join("other machine");
    let other = ["--keys-dir", other.to_str().unwrap()];
    for _ in 0..2 {
        user.done(&[&["key", "--import", user.key_file().to_str().unwrap()], &other[..]].concat(), "");
        assert_eq!(user.done(&[&["list"], &other[..]].concat(), "").lines().count(), 2);
    }
    user.done(&["key", "--forget", &slugs[0]], "");
    user.fails(&["key", "--forget", &slugs[0]], "", 4);
    user.fails(&["key", &slugs[0]], "", 4);
    user.done(&["key", &slugs[1]], "");
    user.done(&[&["update", &slugs[0], "--title", "New"], &other[..]].concat(), "");
    let message = user.fails(&["key", "--import", "-"], "{}\n", 1);
    assert!(message.contains("line 1 of standard input") && message.contains("nothing was imported"), "{message}");
}

#[test]
fn on_a_terminal_the_user_is_asked_and_told_where_the_key_is() {
    let user = User::new();
    let in_terminal = |command: &str, input: &str| user.in_terminal(command, input);
    let file = user.file("note.md", "text");
    let shown = in_terminal(&format!("publish '{file}'"), "");
    assert!(shown.contains("The edit key is saved in") && !shown.contains("hbk_"), "{shown}");
    let url = user.done(&["list"], "").split('\t').next().unwrap().to_owned();
    assert!(in_terminal(&format!("update '{file}'"), "").contains("Updated."));
    assert!(in_terminal(&format!("delete {url}"), "n\n").contains("nothing was deleted"));
    user.done(&["get", &url], "");
    let shown = in_terminal(&format!("delete {url}"), "y\n");
    assert!(shown.contains("can't be undone.") && shown.contains(&format!("Deleted {url}.")), "{shown}");
    user.fails(&["get", &url], "", 3);
}

#[test]
fn a_terminal_gets_no_escape_sequence_of_a_page() {
    let user = User::new();
    let slug = user.published("a\u{9b}2J\u{7f}b");
    for options in ["", "--json", "--html"] {
        let shown = user.in_terminal(&format!("get {slug} {options}"), "");
        assert!(shown.contains("a\u{fffd}2J\u{fffd}b"), "{options}: {shown:?}");
    }
    let json = user.done(&["get", &slug, "--json"], "");
    assert!(json.contains("a\u{9b}2J\u{7f}b"), "{json:?}");
}

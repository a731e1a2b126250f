//! The commands for shells in the README and on the help page, run as they are written, except for the address.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use handbill_test_support::client::get;
use handbill_test_support::server::{Server, run, text};
use tempfile::tempdir;

const ADDRESS: &str = "http://127.0.0.1:8080";

/// A note whose title is its first heading, and whose line breaks must survive.
const NOTE: &str = "# A note\n\nFirst line.\n\n* an item\n";

fn print(commands: &str) -> Vec<String> {
    let folder = tempdir().unwrap();
    fs::write(folder.path().join("note.md"), NOTE).unwrap();
    let printed = |line: &str| {
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", line]).current_dir(folder.path()).env("no_proxy", "127.0.0.1");
        shell.stdout(Stdio::piped()).stderr(Stdio::piped());
        let output = run(shell, b"");
        assert!(output.status.success(), "{line}: {}", text(&output.stderr));
        text(&output.stdout).to_owned()
    };
    commands.lines().map(printed).collect()
}

fn address(printed: &str) -> &str {
    let lines: Vec<_> = printed.lines().collect();
    let [address, key, link] = lines[..] else { panic!("three lines: {printed}") };
    let key = key.strip_prefix("Edit key (shown this once): ").unwrap_or_else(|| panic!("{printed}"));
    assert!(key.starts_with("hbk_") && link == format!("Edit link (secret): {address}/edit#{key}"), "{printed}");
    address
}

/// Fails unless `commands` publish the note twice and the time once.
fn publish_three(server: &Server, commands: &str) {
    let printed = print(commands);
    let [raw, form, piped] = printed.as_slice() else { panic!("three commands: {commands}") };
    let base = format!("http://{}/", server.address);
    let source = |printed: &str, words: &str| {
        let slug = address(printed).strip_prefix(&base).unwrap_or_else(|| panic!("{printed}"));
        assert!(slug.starts_with(words), "{printed}");
        get(server.address, &format!("/{slug}.md")).unwrap().text().to_owned()
    };
    assert_eq!(source(raw, "a-note-"), NOTE);
    assert_eq!(source(form, "a-note-"), NOTE);
    assert!(source(piped, "the-time-").contains(':'), "{piped}");
}

#[test]
fn the_readmes_shell_lines_publish() {
    let server = Server::temporary(&[]);
    let readme = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md")).unwrap();
    let (_, rest) = readme.split_once("<!-- shell: run by a test -->\n```sh\n").expect("the README has the lines");
    let (commands, _) = rest.split_once("\n```\n").unwrap();
    assert!(commands.contains(ADDRESS), "{commands}");
    publish_three(&server, &commands.replace(ADDRESS, &format!("http://{}", server.address)));
}

#[test]
fn the_shell_lines_of_the_help_page_publish() {
    let server = Server::temporary(&[]);
    let help = get(server.address, "/help").unwrap();
    let (_, rest) = help.text().split_once("<pre tabindex=\"0\"><code>").unwrap();
    let (commands, _) = rest.split_once("</code>").unwrap();
    publish_three(&server, &commands.replace("&lt;", "<"));
}

//! `handbill edit`: a page's title and Markdown in the user's editor.
//!
//! The file is private. If the update fails, a changed file stays.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Command;

use http::Method;
use http::header::{ETAG, IF_MATCH};
use serde_json::{Value, json};
use tempfile::Builder;

use super::api::{Api, authorized, not_handbill};
use super::args::PageArgs;
use super::commands::retitle;
use super::error::ClientError;
use super::output::hint;

/// Begins the first line; an empty line and the text follow.
const TITLE: &str = "Title:";

pub(super) fn run(args: &PageArgs) -> Result<(), ClientError> {
    let (page, key, _) = args.find_own()?;
    let api = Api::new(args.connection.wait);
    let read = api.read(&page)?;
    let texts: Value = serde_json::from_str(read.body()).map_err(|_| not_handbill(&page.server))?;
    let [title, content] = ["title", "content"].map(|name| texts[name].as_str().unwrap_or_default());
    let before = format!("{TITLE} {title}\n\n{content}");
    let prefix = format!("handbill-{}-", page.slug);
    let file = Builder::new().prefix(&prefix).suffix(".md").tempfile().and_then(|mut file| {
        file.write_all(before.as_bytes())?;
        Ok(file)
    });
    let file = file.map_err(|error| ClientError::cannot("write a file for the editor", &error))?.into_temp_path();
    let saved = open_editor(&file).and_then(|after| {
        if after == before {
            eprintln!("handbill: nothing was changed");
            return Ok(());
        }
        let (typed, after) = title_and_text(&after);
        let new = typed.filter(|typed| *typed != title);
        let mut change = json!({"content": after});
        if let Some(new) = new {
            change["title"] = new.into();
        }
        let mut headers = authorized(&key);
        headers.extend(read.headers().get(ETAG).map(|tag| (IF_MATCH, tag.clone())));
        api.call(&Method::PATCH, &page, &headers, Some(&change))?;
        hint("Updated.");
        retitle(args, &page, new)
    });
    // The text stays until the server has it.
    if saved.is_err()
        && fs::read(&file).is_ok_and(|left| left != before.as_bytes())
        && let Ok(file) = file.keep()
    {
        eprintln!("handbill: your text is saved in {}", file.display());
    }
    saved
}

/// Without a title line, all is text.
fn title_and_text(file: &str) -> (Option<&str>, &str) {
    let parts = file.strip_prefix(TITLE).and_then(|rest| {
        let (title, rest) = rest.split_once('\n')?;
        Some((title.trim(), rest.strip_prefix("\r\n").or_else(|| rest.strip_prefix('\n'))?))
    });
    parts.map_or((None, file), |(title, text)| (Some(title), text))
}

/// The variable may have arguments, so a shell splits it.
fn open_editor(file: &Path) -> Result<String, ClientError> {
    let status = Command::new("sh").args(["-c", "exec ${VISUAL:-${EDITOR:-vi}} \"$0\""]).arg(file).status();
    let status = status.map_err(|error| ClientError::cannot("start the editor", &error))?;
    if !status.success() {
        return Err(ClientError::Failed(format!("the editor ended with {status}, so nothing was changed")));
    }
    fs::read_to_string(file).map_err(|error| ClientError::cannot(&format!("read {}", file.display()), &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_the_line_of_the_title_is_all_text() {
        for (file, parts) in [
            ("Title: A\n\nTitle: B\n\nc", (Some("A"), "Title: B\n\nc")),
            ("Title:\r\n\r\nc\n", (Some(""), "c\n")),
            ("Title: A\n\n", (Some("A"), "")),
            ("Title: A\nc", (None, "Title: A\nc")),
            ("# A\n", (None, "# A\n")),
        ] {
            assert_eq!(title_and_text(file), parts);
        }
    }
}

//! `handbill fingerprint`: prints what `--blocklist-file` recognises a text by.

use std::fs;
use std::io::{self, Read};
use std::path::Path;
use std::process::ExitCode;

use handbill_core::domain::content::Content;
use handbill_core::domain::fingerprint::{Fingerprint, MIN_TEXT_CHARS};
use handbill_core::domain::link_hosts::link_hosts;
use handbill_core::domain::markdown::render;

use super::lines::print_line;

/// Prints the fingerprints of the Markdown in `file`, or on standard input. It is an error if there are none.
pub(super) fn run(file: Option<&Path>) -> Result<ExitCode, String> {
    let mut text = String::new();
    let read = match file {
        Some(path) => fs::read_to_string(path).map(|read| text = read),
        None => io::stdin().read_to_string(&mut text).map(drop),
    };
    let name = file.map_or("standard input".to_owned(), |path| path.display().to_string());
    read.map_err(|error| format!("{name} cannot be read: {error}"))?;
    let content = Content::parse(text).map_err(|error| format!("{name} is no page: {error}"))?;
    let html = render(content.as_str()).html;
    let prints = Fingerprint::of_page(&html, &link_hosts(&html));
    for print in &prints {
        print_line(&print.to_string())?;
    }
    if prints.is_empty() {
        return Err(format!(
            "{name} has fewer than {MIN_TEXT_CHARS} letters and digits and no links, so nothing tells it apart"
        ));
    }
    Ok(ExitCode::SUCCESS)
}

//! Input, output and progress in a terminal.

use std::fmt::Display;
use std::io::{self, BufRead, Write};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::CommandError;
use crate::stdout::written;

/// For `-`, reads lines from standard input up to their first tab, so that one command reads another's output. Ignores
/// empty lines and comments. An empty list is an error: the previous command has failed.
pub(super) fn given_or_read(given: &[String]) -> Result<Vec<String>, String> {
    if given.iter().any(|page| page.trim().is_empty()) {
        return Err("an argument is empty: give slugs or addresses of pages".to_owned());
    }
    if given != ["-"] {
        return Ok(given.to_vec());
    }
    let lines = io::stdin().lock().lines().collect::<Result<Vec<_>, _>>();
    let lines = lines.map_err(|error| format!("standard input cannot be read: {error}"))?;
    let lines = lines.into_iter().map(|line| line.split('\t').next().unwrap_or_default().trim().to_owned());
    let lines: Vec<_> = lines.filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
    if lines.is_empty() {
        return Err("no pages on standard input; nothing was changed".to_owned());
    }
    Ok(lines)
}

pub(super) fn print_line(line: &str) -> Result<(), CommandError> {
    print(&format!("{line}\n"))
}

pub(super) fn print(text: &str) -> Result<(), CommandError> {
    written(io::stdout().write_all(text.as_bytes())).map_err(|error| unwritable("the output", &error))
}

/// The error of a command that could not write `what`, which may have been written in part.
pub(super) fn unwritable(what: impl Display, error: &io::Error) -> CommandError {
    CommandError::on_its_way(format!("cannot write {what}: {error}; make room, and run the command again"))
}

/// Control characters cannot move a terminal's cursor.
pub(super) fn shown(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

/// On standard error, if it is a terminal.
pub(super) fn progress(total: Option<u64>) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(total, ProgressDrawTarget::stderr());
    if let Ok(style) = ProgressStyle::with_template("{bar:40} {pos}/{len} {msg} (about {eta} left)") {
        bar.set_style(style);
    }
    bar
}

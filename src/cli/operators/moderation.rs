//! `handbill takedown`, `hide`, `show`, `inspect`, `pause` and `resume`.

use std::io::{self, BufRead};
use std::process::ExitCode;

use clap::Args;
use serde_json::Value;

use super::super::error::{CommandError, print_line};
use super::{client::Client, progress};
use crate::admin::acts::{ActRequest, ActResult};
use crate::admin::{pause::CreatesChange, records::InspectRequest};
use crate::settings::SocketAccess;
use handbill_client::terminal::one_line;
use handbill_pages::values::counted::counted;
use handbill_pages::values::takedown::{TakedownReason, operator_name};

/// Pages in one request: few enough for visible progress, and enough to share the store's commits.
const CHUNK: usize = 25;

/// Most pages without `--expect`, since one wrong filter makes a list of thousands.
const UNEXPECTED: usize = 100;

#[derive(Args, Debug)]
pub(in crate::cli) struct Chosen {
    /// Slugs or addresses of pages; `-` reads them from standard input, one a line
    #[arg(required = true, value_name = "PAGE")]
    pages: Vec<String>,
    /// Who is acting, such as a name or the number of a ticket; recorded permanently
    #[arg(long, value_name = "WHO", value_parser = operator_name)]
    by: String,
    /// Number of pages; required for more than 100
    #[arg(long, value_name = "PAGES")]
    expect: Option<usize>,
    #[command(flatten)]
    access: SocketAccess,
}

#[derive(Args, Debug)]
pub(in crate::cli) struct WithReason {
    #[command(flatten)]
    pub(super) chosen: Chosen,
    /// Reason: spam, phishing, malware, child-abuse, terrorism, harassment, personal-data, copyright, legal-order, illegal, terms or intimate-imagery
    #[arg(long, value_name = "CODE")]
    pub(super) reason: TakedownReason,
}

impl Chosen {
    /// Exit code 1 if a page is not as wanted.
    pub(super) async fn act(self, path: &str, reason: Option<TakedownReason>) -> Result<ExitCode, CommandError> {
        let pages = given_or_read(&self.pages).map_err(CommandError::refused)?;
        if self.expect.map_or(pages.len() > UNEXPECTED, |expected| expected != pages.len()) {
            let count = counted(pages.len(), "page");
            return Err(CommandError::refused(format!(
                "cannot act on {count}: check the list, and give its length with --expect"
            )));
        }
        let client = Client::new(&self.access);
        let bar = progress(Some(pages.len() as u64));
        let mut exit_code = ExitCode::SUCCESS;
        for (number, chunk) in pages.chunks(CHUNK).enumerate() {
            let request = ActRequest { pages: chunk.to_vec(), reason, by: self.by.clone() };
            let results = client.ask(path, &request).await;
            let results: Vec<ActResult> =
                results.map_err(|error| if number > 0 { error.on_its_way() } else { error })?;
            for ActResult { page, outcome, is_as_wanted, detail } in results {
                if !is_as_wanted {
                    exit_code = ExitCode::FAILURE;
                }
                let line = format!("{}\t{outcome}\t{}", one_line(&page), one_line(&detail.unwrap_or_default()));
                bar.suspend(|| print_line(line.trim_end()))?;
            }
            bar.inc(chunk.len() as u64);
        }
        bar.finish_and_clear();
        Ok(exit_code)
    }
}

#[derive(Args, Debug)]
pub(in crate::cli) struct Inspect {
    /// Slugs or addresses of pages; `-` reads them from standard input, one a line
    #[arg(required = true, value_name = "PAGE")]
    pages: Vec<String>,
    #[command(flatten)]
    access: SocketAccess,
}

impl Inspect {
    /// One JSON object for each page. Exit code 1 if a slug was never used.
    pub(super) async fn run(&self) -> Result<ExitCode, CommandError> {
        let client = Client::new(&self.access);
        let mut exit_code = ExitCode::SUCCESS;
        let pages = given_or_read(&self.pages).map_err(CommandError::refused)?;
        for (number, page) in pages.into_iter().enumerate() {
            let found = client.ask("/inspect", &InspectRequest { page }).await;
            let found: Value = found.map_err(|error| if number > 0 { error.on_its_way() } else { error })?;
            if found["state"] == "absent" {
                exit_code = ExitCode::FAILURE;
            }
            print_line(&found.to_string())?;
        }
        Ok(exit_code)
    }
}

#[derive(Args, Debug)]
pub(in crate::cli) struct Pause {
    /// Who is acting, such as a name or the number of a ticket
    #[arg(long, value_name = "WHO", value_parser = operator_name)]
    by: String,
    #[command(flatten)]
    access: SocketAccess,
}

impl Pause {
    pub(super) async fn run(self, paused: bool) -> Result<ExitCode, CommandError> {
        Client::new(&self.access).ask::<()>("/creates", &CreatesChange { paused, by: self.by }).await?;
        print_line(if paused { "Publishing is paused." } else { "Publishing is open." })?;
        Ok(ExitCode::SUCCESS)
    }
}

/// For `-`, reads lines from standard input up to their first tab, so that one command reads another's output. Ignores
/// empty lines and comments. An empty list is an error: the previous command has failed.
fn given_or_read(given: &[String]) -> Result<Vec<String>, String> {
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

//! `handbill takedown`: takes pages down.

use std::fs::OpenOptions;
use std::io::{self, Read, Write};
use std::path::Path;
use std::process::ExitCode;

use clap::Args;
use http::Method;

use super::client::Client;
use super::criteria::CriteriaArgs;
use super::lines::{confirmed, given_or_read, print_json, print_line, progress, shown};
use super::stores::Stores;
use crate::config::{BlocklistSettings, OperatedSettings};
use crate::operators::api::types::{TakedownAnswer, TakedownCode, TakedownRequest, TakedownResult};
use handbill_core::domain::takedown::{TakedownReason, operator_name};

/// Pages in one request: few enough for the progress to move, and enough to share the store's commits.
const CHUNK: usize = 25;

/// The arguments of `handbill takedown`.
#[derive(Args, Debug)]
pub struct Takedown {
    /// Slugs or addresses of pages; without any and without a criterion, one a line on standard input
    slugs: Vec<String>,
    /// Reason: spam, phishing, malware, child-abuse, terrorism, harassment, personal-data, copyright, legal-order, illegal or terms
    #[arg(long, value_name = "CODE", required_unless_present = "dry_run")]
    reason: Option<TakedownReason>,
    /// Name of who takes the pages down: a person, an address or a ticket; kept for ever
    #[arg(long, value_name = "NAME", required_unless_present = "dry_run", value_parser = operator_name)]
    by: Option<String>,
    #[command(flatten)]
    criteria: CriteriaArgs,
    /// Only show what would be taken down
    #[arg(long)]
    dry_run: bool,
    /// Take down what the criteria find without asking
    #[arg(long)]
    yes: bool,
    /// Print one JSON object a line
    #[arg(long)]
    json: bool,
    /// Print the fingerprints of the pages, and append them to --blocklist-file if it is given; one of links refuses each page that links to exactly the same hosts
    #[arg(long, value_name = "KIND", num_args = 0..=1, require_equals = true, default_missing_values = ["text", "links"], value_parser = ["text", "links"])]
    block: Vec<String>,
    #[command(flatten, next_help_heading = "Moderation")]
    blocklist: BlocklistSettings,
    #[command(flatten)]
    settings: OperatedSettings,
}

impl Takedown {
    /// Exit code 1 if a page may still be readable.
    pub(super) async fn run(&self, stores: &Stores<'_>) -> Result<ExitCode, String> {
        if self.criteria.is_empty() {
            let slugs = given_or_read(&self.slugs)?;
            return self.take_down(&Client::new(&self.settings, stores).await?, &slugs).await;
        }
        if !self.slugs.is_empty() {
            return Err("give slugs or criteria, not both".to_owned());
        }
        let client = Client::new(&self.settings, stores).await?;
        let found = self.criteria.find(&client, self.json).await?;
        if self.dry_run || found.is_empty() {
            return Ok(ExitCode::SUCCESS);
        }
        if !self.yes && !confirmed(&format!("Take down {} pages for ever? Type yes: ", found.len()))? {
            return Err("nothing was taken down".to_owned());
        }
        self.take_down(&client, &found).await
    }

    async fn take_down(&self, client: &Client, slugs: &[String]) -> Result<ExitCode, String> {
        let bar = progress(Some(slugs.len() as u64));
        let mut all_fine = true;
        let mut list = self.blocklist.blocklist_file.as_deref().filter(|_| !self.dry_run);
        for chunk in slugs.chunks(CHUNK) {
            let request = TakedownRequest {
                slugs: chunk.to_vec(),
                // A dry run keeps neither.
                reason: self.reason.unwrap_or(TakedownReason::Terms),
                by: self.by.clone().unwrap_or_else(|| "dry run".to_owned()),
                dry_run: self.dry_run,
            };
            let TakedownAnswer { results } = client.send(Method::POST, "/takedown", &request).await?;
            if results.len() != chunk.len() {
                return Err(
                    "the answer has not one result for each page: is --admin-listen a Handbill of this version?"
                        .to_owned(),
                );
            }
            for mut result in results {
                all_fine &= result.outcome.is_fine();
                result.fingerprints.retain(|line| self.block.iter().any(|kind| line.starts_with(kind)));
                bar.suspend(|| self.print(&result))?;
                if let Some(Err(error)) = list.map(|list| append(list, &result)) {
                    eprintln!("handbill: --blocklist-file cannot be written ({error}): add the printed lines yourself");
                    (list, all_fine) = (None, false);
                }
            }
            bar.inc(chunk.len() as u64);
        }
        bar.finish_and_clear();
        Ok(if all_fine { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    fn print(&self, result: &TakedownResult) -> Result<(), String> {
        if self.json {
            return print_json(result);
        }
        let detail = match result.outcome {
            TakedownCode::WouldTakeDown => result.title.as_deref().unwrap_or("(no title)"),
            TakedownCode::AlreadyDeleted => result.deleted_at.as_deref().unwrap_or_default(),
            _ => result.message.as_deref().unwrap_or_default(),
        };
        let line = format!("{}\t{}\t{}", shown(&result.slug), result.outcome.as_str(), shown(detail));
        print_line(line.trim_end())?;
        if !self.block.is_empty() && result.fingerprints.is_empty() {
            eprintln!("handbill: {} has no text or links that could be blocked", shown(&result.slug));
        }
        result.fingerprints.iter().try_for_each(|line| print_line(line))
    }
}

/// Appends the fingerprints that the blocklist at `path` lacks, each with the slug of its page.
fn append(path: &Path, result: &TakedownResult) -> io::Result<()> {
    // The process reads no list that was not there when it started, so none is created here.
    let mut file = OpenOptions::new().read(true).append(true).open(path)?;
    let mut list = String::new();
    file.read_to_string(&mut list)?;
    let note = format!(" # {}\n", shown(&result.slug));
    let new = result.fingerprints.iter().filter(|line| !list.contains(line.as_str()));
    let lines: String = new.flat_map(|line| [line, note.as_str()]).collect();
    let end = if list.is_empty() || list.ends_with('\n') || lines.is_empty() { "" } else { "\n" };
    // One write, so that the process never reads half a line.
    file.write_all(format!("{end}{lines}").as_bytes())
}

//! `handbill takedown`, `hide` and `show`: take pages down, hide them for a time, and show them again.

use std::fs::OpenOptions;
use std::io::{self, Read, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use http::Method;

use super::client::Client;
use super::criteria::CriteriaArgs;
use super::lines::{confirmed, given_or_read, print_json, print_line, progress, shown};
use super::reader::user;
use super::stores::Stores;
use crate::config::{BlocklistSettings, OperatedSettings};
use crate::operators::api::types::{ShowRequest, TakedownAnswer, TakedownCode, TakedownRequest, TakedownResult};
use handbill_core::domain::counted::counted;
use handbill_core::domain::takedown::{TakedownReason, operator_name};

/// Pages in one request: few enough for the progress to move, and enough to share the store's commits.
const CHUNK: usize = 25;

/// Pages that criteria may find without `--expect`: one wrong character of a pattern finds thousands.
const UNEXPECTED: usize = 100;

/// The pages that a command works on, and how.
#[derive(Args, Debug)]
struct Chosen {
    /// Slugs or addresses of pages; without any and without a criterion, one a line on standard input
    slugs: Vec<String>,
    /// Name of who does it: a person, an address or a ticket; kept for ever
    #[arg(long, value_name = "NAME", required_unless_present = "dry_run", value_parser = operator_name)]
    by: Option<String>,
    #[command(flatten)]
    criteria: CriteriaArgs,
    /// Number of pages that the criteria find; needed for more than 100
    #[arg(long, value_name = "PAGES")]
    expect: Option<usize>,
    /// Only show what would be done
    #[arg(long)]
    dry_run: bool,
    /// Do it to what the criteria find without asking
    #[arg(long)]
    yes: bool,
    /// Print one JSON object a line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    settings: OperatedSettings,
}

#[derive(Args, Debug)]
pub struct Takedown {
    #[command(flatten)]
    chosen: Chosen,
    /// Only those pages that are hidden, so that one that was shown again stays
    #[arg(long)]
    hidden: bool,
    /// Reason: spam, phishing, malware, child-abuse, terrorism, harassment, personal-data, copyright, legal-order, illegal, terms or intimate-imagery
    #[arg(long, value_name = "CODE", required_unless_present = "dry_run")]
    reason: Option<TakedownReason>,
    /// Print the fingerprints of the pages, and append them to --blocklist-file if it is given; one of links refuses each page that links to exactly the same hosts
    #[arg(long, value_name = "KIND", num_args = 0..=1, require_equals = true, default_missing_values = ["text", "links"], value_parser = ["text", "links"])]
    block: Vec<String>,
    #[command(flatten, next_help_heading = "Moderation")]
    blocklist: BlocklistSettings,
}

#[derive(Args, Debug)]
pub struct Hide {
    #[command(flatten)]
    takedown: Takedown,
    /// Time in which the pages can be shown again; after it they are deleted
    #[arg(long, value_name = "DURATION", default_value = "30d", value_parser = hidden_for)]
    hidden_for: Duration,
}

#[derive(Args, Debug)]
pub struct Show {
    #[command(flatten)]
    chosen: Chosen,
}

/// A time in whole seconds, as the API takes it.
fn hidden_for(text: &str) -> Result<Duration, String> {
    let time = humantime::parse_duration(text).map_err(|error| error.to_string())?;
    let fits = u32::try_from(time.as_secs()).is_ok_and(|seconds| seconds > 0);
    if fits { Ok(time) } else { Err("give between 1s and 49710d".to_owned()) }
}

impl Chosen {
    /// The name of who does it. Only a dry run needs none.
    fn by(&self) -> String {
        self.by.clone().unwrap_or_else(user)
    }

    /// The pages, if there are any to work on. Criteria find hidden pages only if `wants` says so, and ask `question`.
    async fn pages(
        &self,
        client: &Client,
        wants: impl Fn(bool) -> bool,
        question: impl Fn(usize) -> String,
    ) -> Result<Vec<String>, String> {
        if self.criteria.is_empty() {
            return given_or_read(&self.slugs);
        }
        if !self.slugs.is_empty() {
            return Err("give slugs or criteria, not both".to_owned());
        }
        let found = self.criteria.find(client, self.by(), self.json, wants).await?;
        let count = found.len();
        if count == 0 && self.expect.is_none_or(|expected| expected == 0) {
            eprintln!("handbill: the criteria find no page");
            return Ok(found);
        }
        if self.dry_run {
            return Ok(Vec::new());
        }
        if self.expect.map_or(count > UNEXPECTED, |expected| expected != count) {
            return Err(format!(
                "the criteria find {}: see whether that is right, and give --expect {count} to mean it",
                counted(count, "page")
            ));
        }
        if !self.yes && !confirmed(&question(count))? {
            return Err("nothing was done".to_owned());
        }
        Ok(found)
    }

    /// The results for `slugs`, of which `ask` gets some at a time. Returns whether `each` approves of all.
    async fn act(
        &self,
        slugs: &[String],
        ask: impl AsyncFn(Vec<String>, String) -> Result<TakedownAnswer, String>,
        mut each: impl FnMut(TakedownResult) -> Result<bool, String>,
    ) -> Result<ExitCode, String> {
        let bar = progress(Some(slugs.len() as u64));
        let mut all_fine = true;
        for chunk in slugs.chunks(CHUNK) {
            let TakedownAnswer { results } = ask(chunk.to_vec(), self.by()).await?;
            if results.len() != chunk.len() {
                return Err(
                    "the answer has not one result for each page: is --admin-listen a Handbill of this version?"
                        .to_owned(),
                );
            }
            for result in results {
                all_fine &= bar.suspend(|| each(result))?;
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
            TakedownCode::WouldTakeDown | TakedownCode::WouldHide | TakedownCode::WouldShow => {
                result.title.as_deref().unwrap_or("(no title)")
            }
            TakedownCode::AlreadyDeleted => result.deleted_at.as_deref().unwrap_or_default(),
            TakedownCode::Hidden | TakedownCode::AlreadyHidden => result.hidden_until.as_deref().unwrap_or_default(),
            _ => result.message.as_deref().unwrap_or_default(),
        };
        let line = format!("{}\t{}\t{}", shown(&result.slug), result.outcome.as_str(), shown(detail));
        print_line(line.trim_end())
    }
}

impl Takedown {
    /// Exit code 1 if a page may still be readable.
    pub(super) async fn run(&self, stores: &Stores<'_>) -> Result<ExitCode, String> {
        let question = |count| format!("Take down {} permanently? Type yes: ", counted(count, "page"));
        self.run_for(None, |is_hidden| is_hidden || !self.hidden, question, stores).await
    }

    async fn run_for(
        &self,
        hidden_for: Option<Duration>,
        wants: impl Fn(bool) -> bool,
        question: impl Fn(usize) -> String,
        stores: &Stores<'_>,
    ) -> Result<ExitCode, String> {
        let client = Client::new(&self.chosen.settings, stores).await?;
        let slugs = self.chosen.pages(&client, wants, question).await?;
        let ask = async |slugs, by| {
            let request = TakedownRequest {
                slugs,
                // A dry run keeps none.
                reason: self.reason.unwrap_or(TakedownReason::Terms),
                by,
                dry_run: self.chosen.dry_run,
                hidden_for_seconds: hidden_for.map(|time| u32::try_from(time.as_secs()).unwrap_or(u32::MAX)),
            };
            client.send(Method::POST, "/takedown", &request).await
        };
        let mut list = self.blocklist.blocklist_file.as_deref().filter(|_| !self.chosen.dry_run);
        self.chosen.act(&slugs, ask, |result| self.print(result, &mut list)).await
    }

    /// Prints `result` and adds its fingerprints to `list`. Returns whether all went well.
    fn print(&self, mut result: TakedownResult, list: &mut Option<&Path>) -> Result<bool, String> {
        let is_fine = result.outcome.is_gone();
        result.fingerprints.retain(|line| self.block.iter().any(|kind| line.starts_with(kind)));
        self.chosen.print(&result)?;
        if !self.chosen.json {
            if !self.block.is_empty() && result.fingerprints.is_empty() {
                eprintln!("handbill: {} has no text or links that could be blocked", shown(&result.slug));
            }
            result.fingerprints.iter().try_for_each(|line| print_line(line))?;
        }
        let wanted = list.filter(|_| !result.fingerprints.is_empty());
        if let Some(Err(error)) = wanted.map(|list| append(list, &result)) {
            eprintln!("handbill: --blocklist-file cannot be written ({error}): add the printed lines yourself");
            *list = None;
            return Ok(false);
        }
        Ok(is_fine)
    }
}

impl Hide {
    /// Exit code 1 if a page may still be readable.
    pub(super) async fn run(&self, stores: &Stores<'_>) -> Result<ExitCode, String> {
        if self.takedown.hidden {
            return Err("hide finds pages that are not hidden: leave --hidden out".to_owned());
        }
        let time = humantime::format_duration(self.hidden_for).to_string();
        let question = |count| format!("Hide {}, and delete them after {time}? Type yes: ", counted(count, "page"));
        self.takedown.run_for(Some(self.hidden_for), |is_hidden| !is_hidden, question, stores).await
    }
}

impl Show {
    /// Exit code 1 if a page cannot be read again.
    pub(super) async fn run(&self, stores: &Stores<'_>) -> Result<ExitCode, String> {
        let client = Client::new(&self.chosen.settings, stores).await?;
        let question = |count| format!("Show {} again? Type yes: ", counted(count, "page"));
        let slugs = self.chosen.pages(&client, |is_hidden| is_hidden, question).await?;
        let ask = async |slugs, by| {
            let request = ShowRequest { slugs, by, dry_run: self.chosen.dry_run };
            client.send(Method::POST, "/show", &request).await
        };
        let each = |result: TakedownResult| self.chosen.print(&result).map(|()| result.outcome.is_shown());
        self.chosen.act(&slugs, ask, each).await
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

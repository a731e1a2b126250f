//! `handbill takedown`, `hide` and `show`: take pages down, hide them, and show them again.

use std::process::ExitCode;

use clap::Args;
use http::Method;

use super::client::Client;
use super::lines::{given_or_read, print_json, print_line, progress, shown};
use crate::config::OperatorAccess;
use crate::operators::api::types::{ShowRequest, TakedownAnswer, TakedownCode, TakedownRequest, TakedownResult};
use handbill_core::domain::counted::counted;
use handbill_core::domain::takedown::{TakedownReason, operator_name};

/// Pages in one request: few enough for the progress to move, and enough to share the store's commits.
const CHUNK: usize = 25;

/// Pages that a command works on without `--expect`: one wrong filter makes a list of thousands.
const UNEXPECTED: usize = 100;

/// The pages that a command works on, and who does it.
#[derive(Args, Debug)]
struct Chosen {
    /// Slugs or addresses of pages; `-` reads them from standard input, one a line
    #[arg(required = true)]
    slugs: Vec<String>,
    /// Who is acting, such as a name or the number of a ticket; recorded permanently
    #[arg(long, value_name = "NAME", value_parser = operator_name)]
    by: String,
    /// Number of pages; needed for more than 100
    #[arg(long, value_name = "PAGES")]
    expect: Option<usize>,
    /// Print one JSON object a line
    #[arg(long)]
    json: bool,
    #[command(flatten, next_help_heading = "Operators' listener")]
    access: OperatorAccess,
}

#[derive(Args, Debug)]
pub struct Takedown {
    #[command(flatten)]
    chosen: Chosen,
    /// Reason: spam, phishing, malware, child-abuse, terrorism, harassment, personal-data, copyright, legal-order, illegal, terms or intimate-imagery
    #[arg(long, value_name = "CODE")]
    reason: TakedownReason,
}

#[derive(Args, Debug)]
pub struct Hide {
    #[command(flatten)]
    takedown: Takedown,
}

#[derive(Args, Debug)]
pub struct Show {
    #[command(flatten)]
    chosen: Chosen,
}

impl Chosen {
    /// The pages, if there are as many as expected.
    fn pages(&self) -> Result<Vec<String>, String> {
        let pages = given_or_read(&self.slugs)?;
        let count = pages.len();
        if self.expect.map_or(count > UNEXPECTED, |expected| expected != count) {
            let count = counted(count, "page");
            return Err(format!(
                "cannot act on {count}: see whether the list is right, and give --expect with its length"
            ));
        }
        Ok(pages)
    }

    /// Asks for all pages, some at a time, and prints the results. Exit code 1 unless all of them are `fine`.
    async fn act(
        &self,
        ask: impl AsyncFn(&Client, Vec<String>) -> Result<TakedownAnswer, String>,
        fine: impl Fn(TakedownCode) -> bool,
    ) -> Result<ExitCode, String> {
        let pages = self.pages()?;
        let client = Client::new(&self.access)?;
        let bar = progress(Some(pages.len() as u64));
        let mut all_fine = true;
        for chunk in pages.chunks(CHUNK) {
            let TakedownAnswer { results } = ask(&client, chunk.to_vec()).await?;
            if results.len() != chunk.len() {
                return Err(
                    "the answer has not one result for each page: is --admin-listen a Handbill of this version?"
                        .to_owned(),
                );
            }
            for result in results {
                all_fine &= fine(result.outcome);
                bar.suspend(|| self.print(&result))?;
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
            TakedownCode::AlreadyDeleted => result.deleted_at.as_deref().unwrap_or_default(),
            TakedownCode::Hidden | TakedownCode::AlreadyHidden => result.hidden_at.as_deref().unwrap_or_default(),
            _ => result.message.as_deref().unwrap_or_default(),
        };
        let line = format!("{}\t{}\t{}", shown(&result.slug), result.outcome.as_str(), shown(detail));
        print_line(line.trim_end())
    }
}

impl Takedown {
    /// Exit code 1 if a page may still be readable.
    pub(super) async fn run(&self) -> Result<ExitCode, String> {
        self.ask("/takedown").await
    }

    async fn ask(&self, path: &str) -> Result<ExitCode, String> {
        let ask = async |client: &Client, slugs| {
            let request = TakedownRequest { slugs, reason: self.reason, by: self.chosen.by.clone() };
            client.send(Method::POST, path, &request).await
        };
        self.chosen.act(ask, TakedownCode::is_gone).await
    }
}

impl Hide {
    /// Exit code 1 if a page may still be readable.
    pub(super) async fn run(&self) -> Result<ExitCode, String> {
        self.takedown.ask("/hide").await
    }
}

impl Show {
    /// Exit code 1 if a page cannot be read again.
    pub(super) async fn run(&self) -> Result<ExitCode, String> {
        let ask = async |client: &Client, slugs| {
            client.send(Method::POST, "/show", &ShowRequest { slugs, by: self.chosen.by.clone() }).await
        };
        self.chosen.act(ask, TakedownCode::is_shown).await
    }
}

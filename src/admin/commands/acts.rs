//! `handbill takedown`, `hide` and `show`.

use std::process::ExitCode;

use clap::Args;

use super::client::Client;
use super::terminal::{given_or_read, print_line, progress, shown};
use crate::admin::acts::{ActRequest, ActResult, Outcome};
use crate::settings::SocketAccess;
use handbill_pages::values::counted::counted;
use handbill_pages::values::takedown::{TakedownReason, operator_name};

/// Few enough for visible progress, and enough to share the store's commits.
const CHUNK: usize = 25;

/// One wrong filter makes a list of thousands.
const UNEXPECTED: usize = 100;

#[derive(Args, Debug)]
pub struct Chosen {
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
pub struct WithReason {
    #[command(flatten)]
    chosen: Chosen,
    /// Reason: spam, phishing, malware, child-abuse, terrorism, harassment, personal-data, copyright, legal-order, illegal, terms or intimate-imagery
    #[arg(long, value_name = "CODE")]
    reason: TakedownReason,
}

impl WithReason {
    /// Exit code 1 if a page may still be readable.
    pub(super) async fn run(self, path: &str) -> Result<ExitCode, String> {
        self.chosen.act(path, Some(self.reason), Outcome::is_gone).await
    }
}

impl Chosen {
    /// Exit code 1 if a page is not readable.
    pub(super) async fn show(self) -> Result<ExitCode, String> {
        self.act("/show", None, Outcome::is_shown).await
    }

    /// Exit code 1 unless all results are `fine`.
    async fn act(
        &self,
        path: &str,
        reason: Option<TakedownReason>,
        fine: fn(Outcome) -> bool,
    ) -> Result<ExitCode, String> {
        let pages = given_or_read(&self.pages)?;
        if self.expect.map_or(pages.len() > UNEXPECTED, |expected| expected != pages.len()) {
            let count = counted(pages.len(), "page");
            return Err(format!("cannot act on {count}: check the list, and give its length with --expect"));
        }
        let (client, bar) = (Client::new(&self.access), progress(Some(pages.len() as u64)));
        let mut exit_code = ExitCode::SUCCESS;
        for chunk in pages.chunks(CHUNK) {
            let request = ActRequest { pages: chunk.to_vec(), reason, by: self.by.clone() };
            let results: Vec<ActResult> = client.ask(path, &request).await?;
            for ActResult { page, outcome, detail } in results {
                if !fine(outcome) {
                    exit_code = ExitCode::FAILURE;
                }
                let line = format!("{}\t{}\t{}", shown(&page), outcome.as_str(), shown(&detail.unwrap_or_default()));
                bar.suspend(|| print_line(line.trim_end()))?;
            }
            bar.inc(chunk.len() as u64);
        }
        bar.finish_and_clear();
        Ok(exit_code)
    }
}

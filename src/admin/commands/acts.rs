//! `handbill takedown`, `hide` and `show`.

use std::process::ExitCode;

use clap::Args;

use super::CommandError;
use super::client::Client;
use super::terminal::{given_or_read, print_line, progress, shown};
use crate::admin::acts::{ActRequest, ActResult};
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
    pub(super) chosen: Chosen,
    /// Reason: spam, phishing, malware, child-abuse, terrorism, harassment, personal-data, copyright, legal-order, illegal, terms or intimate-imagery
    #[arg(long, value_name = "CODE")]
    pub(super) reason: TakedownReason,
}

impl Chosen {
    /// Exit code 1 if a page is not as wanted.
    pub(super) async fn act(self, path: &str, reason: Option<TakedownReason>) -> Result<ExitCode, CommandError> {
        let pages = given_or_read(&self.pages)?;
        if self.expect.map_or(pages.len() > UNEXPECTED, |expected| expected != pages.len()) {
            let count = counted(pages.len(), "page");
            return Err(format!("cannot act on {count}: check the list, and give its length with --expect").into());
        }
        let (client, bar) = (Client::new(&self.access), progress(Some(pages.len() as u64)));
        let mut exit_code = ExitCode::SUCCESS;
        for chunk in pages.chunks(CHUNK) {
            let request = ActRequest { pages: chunk.to_vec(), reason, by: self.by.clone() };
            let results: Vec<ActResult> = client.ask(path, &request).await?;
            for ActResult { page, outcome, is_as_wanted, detail } in results {
                if !is_as_wanted {
                    exit_code = ExitCode::FAILURE;
                }
                let line = format!("{}\t{outcome}\t{}", shown(&page), shown(&detail.unwrap_or_default()));
                bar.suspend(|| print_line(line.trim_end()))?;
            }
            bar.inc(chunk.len() as u64);
        }
        bar.finish_and_clear();
        Ok(exit_code)
    }
}

//! `handbill inspect`.

use std::process::ExitCode;

use clap::Args;
use serde_json::Value;

use super::CommandError;
use super::client::Client;
use super::terminal::{given_or_read, print_line};
use crate::admin::inspect::InspectRequest;
use crate::settings::SocketAccess;

#[derive(Args, Debug)]
pub struct Inspect {
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
        for page in given_or_read(&self.pages)? {
            let found: Value = client.ask("/inspect", &InspectRequest { page }).await?;
            if found["state"] == "absent" {
                exit_code = ExitCode::FAILURE;
            }
            print_line(&found.to_string())?;
        }
        Ok(exit_code)
    }
}

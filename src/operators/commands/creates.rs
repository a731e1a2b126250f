//! `handbill pause` and `resume`: whether pages may be created.

use std::process::ExitCode;

use clap::Args;
use http::Method;

use super::client::Client;
use super::lines::print_line;
use crate::config::OperatorAccess;
use crate::operators::api::types::{CreatesBody, CreatesChange};
use handbill_core::domain::takedown::operator_name;

#[derive(Args, Debug)]
pub struct Switch {
    /// Who is acting, such as a name or the number of a ticket
    #[arg(long, value_name = "NAME", value_parser = operator_name)]
    by: String,
    #[command(flatten, next_help_heading = "Operators' listener")]
    access: OperatorAccess,
}

impl Switch {
    pub(super) async fn run(self, paused: bool) -> Result<ExitCode, String> {
        let change = CreatesChange { paused, by: self.by };
        let now: CreatesBody = Client::new(&self.access)?.send(Method::PUT, "/creates", &change).await?;
        print_line(if now.paused { "Creates are paused." } else { "Creates are open." })?;
        Ok(ExitCode::SUCCESS)
    }
}

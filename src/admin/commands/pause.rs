//! `handbill pause` and `resume`.

use std::process::ExitCode;

use clap::Args;

use super::CommandError;
use super::client::Client;
use super::terminal::print_line;
use crate::admin::pause::CreatesChange;
use crate::settings::SocketAccess;
use handbill_pages::values::takedown::operator_name;

#[derive(Args, Debug)]
pub struct Pause {
    /// Who is acting, such as a name or the number of a ticket
    #[arg(long, value_name = "WHO", value_parser = operator_name)]
    by: String,
    #[command(flatten)]
    access: SocketAccess,
}

impl Pause {
    pub(super) async fn run(self, paused: bool) -> Result<ExitCode, CommandError> {
        Client::new(&self.access).ask::<()>("/creates", &CreatesChange { paused, by: self.by }).await?;
        print_line(if paused { "Creates are paused." } else { "Creates are open." })?;
        Ok(ExitCode::SUCCESS)
    }
}

//! The name under which a command that only reads is in the audit.

use clap::Args;

use handbill_core::domain::takedown::operator_name;

#[derive(Args, Debug)]
pub(super) struct Reader {
    /// Name of who does it, which the audit keeps for ever [default: user and the number of the user who runs the command]
    #[arg(long, value_name = "NAME", value_parser = operator_name)]
    by: Option<String>,
}

impl Reader {
    pub(super) fn name(&self) -> String {
        self.by.clone().unwrap_or_else(user)
    }
}

/// The user who runs the command.
pub(super) fn user() -> String {
    format!("user {}", rustix::process::getuid().as_raw())
}

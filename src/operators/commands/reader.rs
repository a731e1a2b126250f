//! The name under which a command that only reads is in the audit.

use std::env;

use clap::Args;

use handbill_core::domain::takedown::operator_name;

#[derive(Args, Debug)]
pub(super) struct Reader {
    /// Name of who does it, which the audit keeps for ever [default: who runs the command, by sudo's name or the number of the user]
    #[arg(long, value_name = "NAME", value_parser = operator_name)]
    by: Option<String>,
}

impl Reader {
    pub(super) fn name(&self) -> String {
        self.by.clone().unwrap_or_else(user)
    }
}

/// The user who runs the command, also through `sudo`.
#[expect(clippy::disallowed_methods, reason = "sudo sets it, so it is no setting of ours")]
pub(super) fn user() -> String {
    let through_sudo = env::var("SUDO_USER").ok().and_then(|name| operator_name(&format!("user {name}")).ok());
    through_sudo.unwrap_or_else(|| format!("user {}", rustix::process::getuid().as_raw()))
}

//! `handbill audit`: prints what operators did.

use std::process::ExitCode;

use clap::Args;

use super::client::{Client, parse};
use super::lines::print;
use super::stores::Stores;
use crate::config::OperatedSettings;
use crate::operators::api::audit::AuditLine;

#[derive(Args, Debug)]
pub struct Audit {
    /// Begin after the entry with this number
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    after: u64,
    #[command(flatten)]
    settings: OperatedSettings,
}

impl Audit {
    pub(super) async fn run(&self, stores: &Stores<'_>) -> Result<ExitCode, String> {
        let client = Client::new(&self.settings, stores).await?;
        let mut after = self.after;
        loop {
            let lines = client.get(&format!("/audit?after={after}")).await?;
            let Some(last) = lines.split(|&byte| byte == b'\n').rfind(|line| !line.is_empty()) else { break };
            after = parse::<AuditLine>(last)?.number;
            print(&String::from_utf8_lossy(&lines))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

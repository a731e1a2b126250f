//! `handbill pause`, `resume` and `budget`: whether pages may be created, and how many.

use std::process::ExitCode;

use clap::Args;
use http::Method;

use super::client::Client;
use super::lines::print_line;
use super::stores::Stores;
use crate::config::OperatedSettings;
use crate::operators::api::types::CreatesChange;
use handbill_core::domain::counted::counted;
use handbill_core::domain::creates::{Creates, MAX_HOURLY_BUDGET};
use handbill_core::domain::takedown::operator_name;

#[derive(Args, Debug)]
pub struct Switch {
    /// Name of who does it: a person, an address or a ticket; kept for ever
    #[arg(long, value_name = "NAME", value_parser = operator_name)]
    by: String,
    #[command(flatten)]
    settings: OperatedSettings,
}

#[derive(Args, Debug)]
pub struct Budget {
    /// Pages that all clients together may create within any hour, or off
    #[arg(value_name = "PAGES|off", value_parser = budget)]
    budget: Limit,
    #[command(flatten)]
    switch: Switch,
}

/// A budget, or none.
#[derive(Clone, Copy, Debug)]
struct Limit(Option<u32>);

impl Switch {
    pub(super) async fn run(self, paused: bool, stores: &Stores<'_>) -> Result<ExitCode, String> {
        let change = CreatesChange { paused: Some(paused), hourly_budget: None, by: self.by };
        send(&change, &self.settings, stores).await
    }
}

impl Budget {
    pub(super) async fn run(self, stores: &Stores<'_>) -> Result<ExitCode, String> {
        let Self { budget: Limit(budget), switch: Switch { by, settings } } = self;
        send(&CreatesChange { paused: None, hourly_budget: Some(budget), by }, &settings, stores).await
    }
}

async fn send(change: &CreatesChange, settings: &OperatedSettings, stores: &Stores<'_>) -> Result<ExitCode, String> {
    let client = Client::new(settings, stores).await?;
    let creates: Creates = client.send(Method::PATCH, "/creates", change).await?;
    let state = if creates.paused { "paused" } else { "open" };
    let budget = creates
        .hourly_budget
        .map_or("any number of pages".to_owned(), |pages| format!("at most {}", counted(pages, "page")));
    print_line(&format!("Creates are {state}; {budget} in any hour."))?;
    Ok(ExitCode::SUCCESS)
}

fn budget(text: &str) -> Result<Limit, String> {
    match text.parse() {
        _ if text == "off" => Ok(Limit(None)),
        Ok(pages) if (1..=MAX_HOURLY_BUDGET).contains(&pages) => Ok(Limit(Some(pages))),
        _ => Err(format!("give 1 to {MAX_HOURLY_BUDGET}, or off")),
    }
}

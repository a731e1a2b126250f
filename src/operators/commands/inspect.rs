//! `handbill inspect`: shows what is known of pages, without their text and without anything of their keys.

use std::fmt::Write;
use std::process::ExitCode;

use clap::Args;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use super::client::{Client, parse};
use super::lines::{given_or_read, print, print_json, shown};
use super::reader::Reader;
use super::stores::Stores;
use crate::config::OperatedSettings;
use crate::operators::api::types::Inspection;

#[derive(Args, Debug)]
pub struct Inspect {
    /// Slugs or addresses of pages; without any, one a line on standard input
    slugs: Vec<String>,
    /// Print one JSON object a line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    reader: Reader,
    #[command(flatten)]
    settings: OperatedSettings,
}

impl Inspect {
    /// Exit code 1 if no page ever had one of the slugs.
    pub(super) async fn run(&self, stores: &Stores<'_>) -> Result<ExitCode, String> {
        let slugs = given_or_read(&self.slugs)?;
        let client = Client::new(&self.settings, stores).await?;
        let mut all_found = true;
        for slug in slugs {
            let path = format!("/inspect/{}", utf8_percent_encode(&slug, NON_ALPHANUMERIC));
            let found: Inspection = parse(&client.read(&path, &self.reader.name(), None).await?)?;
            all_found &= found.state != "absent";
            if self.json { print_json(&found)? } else { print(&as_text(&found))? }
        }
        Ok(if all_found { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

fn as_text(found: &Inspection) -> String {
    let mut text = format!("{}\n", found.slug);
    let mut line = |name: &str, value: &str| {
        // Writing to a string does not fail.
        let _ = writeln!(text, "  {name:<11} {}", shown(value));
    };
    line("state", &found.state);
    if let Some(error) = &found.error {
        line("error", error);
    }
    if let Some(page) = &found.page {
        line("title", page.title.as_deref().unwrap_or("(none)"));
        line("begins", &page.excerpt);
    }
    for (name, time) in
        [("created", &found.created_at), ("deleted", &found.deleted_at), ("hidden until", &found.hidden_until)]
    {
        if let Some(time) = time {
            line(name, time);
        }
    }
    if let Some(page) = &found.page {
        line("updated", &page.updated_at);
        line("version", &page.version.to_string());
        line("Markdown", &format!("{} bytes", page.content_bytes));
        line("HTML", &format!("{} bytes", page.html_bytes));
        line("links to", &if page.hosts.is_empty() { "nowhere".to_owned() } else { page.hosts.join(", ") });
    }
    for print in found.page.iter().flat_map(|page| &page.fingerprints).flatten() {
        line("fingerprint", print);
    }
    if let Some(takedown) = &found.takedown {
        let name = if found.hidden_until.is_some() { "hidden" } else { "taken down" };
        line(name, &format!("{}, by {}", takedown.reason, takedown.by));
    }
    text
}

//! `handbill inspect`: shows what is known of pages, without their text and without anything of their keys.

use std::fmt::Write;
use std::process::ExitCode;

use clap::Args;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use super::client::{Client, parse};
use super::lines::{given_or_read, print, print_json, shown};
use crate::config::OperatorAccess;
use crate::operators::api::types::Inspection;

#[derive(Args, Debug)]
pub struct Inspect {
    /// Slugs or addresses of pages; `-` reads them from standard input, one a line
    #[arg(required = true)]
    slugs: Vec<String>,
    /// Print one JSON object a line
    #[arg(long)]
    json: bool,
    #[command(flatten, next_help_heading = "Operators' listener")]
    access: OperatorAccess,
}

impl Inspect {
    /// Exit code 1 if no page ever had one of the slugs.
    pub(super) async fn run(&self) -> Result<ExitCode, String> {
        let slugs = given_or_read(&self.slugs)?;
        let client = Client::new(&self.access)?;
        let mut all_found = true;
        for slug in slugs {
            let path = format!("/inspect/{}", utf8_percent_encode(&slug, NON_ALPHANUMERIC));
            let found: Inspection = parse(&client.get(&path).await?)?;
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
    for (name, time) in [("created", &found.created_at), ("deleted", &found.deleted_at), ("hidden", &found.hidden_at)] {
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
    if let Some(page) = &found.page {
        line("fingerprint", &page.fingerprint);
    }
    if let Some(takedown) = &found.takedown {
        let name = if found.hidden_at.is_some() { "because of" } else { "taken down" };
        line(name, &format!("{}, by {}", takedown.reason, takedown.by));
    }
    text
}

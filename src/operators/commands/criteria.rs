//! Finds the pages that meet criteria, and shows them.

use clap::Args;
use http::Method;

use super::client::Client;
use super::lines::{print_json, print_line, progress, shown};
use crate::operators::api::types::{Inspection, ScanAnswer, ScanRequest};

/// Criteria for pages. A page must meet all that are given.
#[derive(Args, Debug)]
pub(super) struct CriteriaArgs {
    /// Pages with a link or image at this host or a subdomain of it
    #[arg(long, value_name = "HOST")]
    linking_to: Option<String>,
    /// Pages whose title or Markdown has a match of this regular expression
    #[arg(long, value_name = "REGEX")]
    matching: Option<String>,
    /// Pages that were created at this time or later, for example 2026-11-21 or 2026-11-21T04:30:00Z
    #[arg(long, value_name = "TIME")]
    created_after: Option<String>,
    /// Pages that were created before this time
    #[arg(long, value_name = "TIME")]
    created_before: Option<String>,
    /// Pages with this fingerprint, as handbill fingerprint or handbill inspect prints it
    #[arg(long, value_name = "KIND:HEX")]
    fingerprint: Option<String>,
    /// Pages that show the image at this address, or one below it
    #[arg(long, value_name = "URL")]
    image: Option<String>,
}

impl CriteriaArgs {
    pub(super) fn is_empty(&self) -> bool {
        let Self { linking_to, matching, created_after, created_before, fingerprint, image } = self;
        [linking_to, matching, created_after, created_before, fingerprint, image].into_iter().all(Option::is_none)
    }

    /// The slugs of the pages that meet the criteria, as [`find`] does.
    pub(super) async fn find(
        &self,
        client: &Client,
        by: String,
        as_json: bool,
        wants: impl Fn(bool) -> bool,
    ) -> Result<Vec<String>, String> {
        let request = ScanRequest {
            by,
            linking_to: self.linking_to.clone(),
            matching: self.matching.clone(),
            created_after: self.created_after.clone(),
            created_before: self.created_before.clone(),
            fingerprint: self.fingerprint.clone(),
            image: self.image.clone(),
            ..ScanRequest::default()
        };
        find(client, request, as_json, wants).await
    }
}

/// The slugs of the pages that `request` finds, and of which `wants` wants the hidden or the others. Each is printed when it is
/// found.
pub(super) async fn find(
    client: &Client,
    mut request: ScanRequest,
    as_json: bool,
    wants: impl Fn(bool) -> bool,
) -> Result<Vec<String>, String> {
    let (bar, mut found) = (progress(None), Vec::new());
    bar.set_message("records looked at");
    loop {
        let answer: ScanAnswer = client.send(Method::POST, "/scan", &request).await?;
        if let Some(total) = answer.total {
            bar.set_length(total);
        }
        bar.inc(answer.examined as u64);
        for page in answer.pages.into_iter().filter(|page| wants(page.hidden_until.is_some())) {
            bar.suspend(|| show(&page, as_json))?;
            found.push(page.slug);
        }
        for name in answer.unreadable {
            bar.suspend(|| eprintln!("handbill: the record of {} cannot be read", shown(&name)));
        }
        request.cursor = answer.cursor;
        if request.cursor.is_none() {
            break;
        }
    }
    bar.finish_and_clear();
    Ok(found)
}

fn show(found: &Inspection, as_json: bool) -> Result<(), String> {
    if as_json {
        return print_json(found);
    }
    let facts = found.page.as_ref();
    let title = facts.and_then(|facts| facts.title.as_deref()).unwrap_or("(no title)");
    let hosts = facts.map(|facts| facts.hosts.join(" ")).unwrap_or_default();
    let created_at = found.created_at.as_deref().unwrap_or_default();
    print_line(&format!("{}\t{created_at}\t{}\t{hosts}", found.slug, shown(title)))
}

//! The commands, from arguments to output.

use std::fs;
use std::io::{self, ErrorKind, IsTerminal, Read, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use http::Method;
use http::header::{ETAG, IF_MATCH};
use serde_json::{Map, Value, json};
use tempfile::Builder;

use super::api::{Api, authorized, explain, not_handbill};
use super::args::{ClientCommand, ConnectionArgs, DeleteArgs, GetArgs, KeyArgs, PageArgs, PublishArgs, UpdateArgs};
use super::key_file::{self, KeyFile, SavedKey};
use super::page::{PageReference, published_from};
use super::publish::{Draft, publish};
use super::{ClientError, hint, mcp, print_line, print_text};
use crate::terminal::one_line;
use handbill_pages::values::content::MAX_BYTES;
use handbill_pages::values::counted::counted;
use handbill_pages::values::markdown::render;
use handbill_pages::values::origin::Origin;
use handbill_pages::values::title::{MAX_CHARS, Title};

/// Means standard input.
const STANDARD: &str = "-";

/// Far more than a page holds.
const MAX_FILE_BYTES: u64 = 16 * 1024 * 1024;

/// Begins the first line of the file in the editor; an empty line and the text follow.
const TITLE: &str = "Title:";

pub(super) fn run(command: ClientCommand) -> Result<(), ClientError> {
    match command {
        ClientCommand::Publish(args) => publish_all(&args),
        ClientCommand::Update(args) => update(args),
        ClientCommand::Edit(args) => edit(&args),
        ClientCommand::Get(args) => get(&args),
        ClientCommand::List(connection) => list(&connection),
        ClientCommand::Delete(args) => delete(&args),
        ClientCommand::Key(args) => key(args),
        ClientCommand::Mcp(connection) => mcp::run(connection),
    }
}

fn publish_all(PublishArgs { files, title, again, connection }: &PublishArgs) -> Result<(), ClientError> {
    if files.len() > 1 && title.is_some() {
        return Err(ClientError::Usage("--title works with one file only".to_owned()));
    }
    let server = &connection.server;
    let keys = connection.keys()?;
    let api = Api::new(connection.wait);
    let standard = [PathBuf::from(STANDARD)];
    for file in if files.is_empty() { &standard[..] } else { files } {
        let draft = draft(file, title.as_deref())?;
        if !again && let Some(source) = &draft.source {
            expect_new(&name_of(file), source, server, &keys.keys()?)?;
        }
        let page = publish(&api, &keys, server, draft)?.map_err(|refusal| explain(&refusal, server))?;
        print_line(&page.page.url())?;
    }
    hint(&format!("The edit key is saved in {}.", keys.path().display()));
    Ok(())
}

/// The title is the given one, the first heading or the file's name.
fn draft(file: &Path, title: Option<&str>) -> Result<Draft, ClientError> {
    let content = page_text(file)?;
    if content.is_empty() {
        return Err(ClientError::Failed(format!("nothing to publish: {} is empty", name_of(file))));
    }
    let source = (!is_standard(file)).then(|| fs::canonicalize(file).unwrap_or_else(|_| file.to_owned()));
    // A heading may be longer than a title.
    let heading = || Some(render(&content).first_heading?.chars().take(MAX_CHARS).collect::<String>());
    let stem = || Some(source.as_ref()?.file_stem()?.to_str()?.to_owned());
    let is_title = |text: &String| Title::parse(text).is_ok();
    let title = title.map(str::to_owned).or_else(|| heading().filter(is_title)).or_else(|| stem().filter(is_title));
    let title = title
        .ok_or_else(|| ClientError::Usage("no title: start the text with \"# Title\" or use --title".to_owned()))?;
    Ok(Draft { title, content, others: Map::new(), source })
}

/// A person who publishes an edited file again means `update`; a script is only told.
fn expect_new(name: &str, source: &Path, server: &Origin, saved: &[SavedKey]) -> Result<(), ClientError> {
    let Some(page) = published_from(source, saved).filter(|page| page.server == *server).last() else { return Ok(()) };
    let url = page.url();
    let advice = format!(
        "{name} is already at {url}. Change it with `handbill update {name}`, or publish a second page with --again"
    );
    if io::stdin().is_terminal() && io::stderr().is_terminal() {
        return Err(ClientError::Usage(advice));
    }
    eprintln!("handbill: {advice}");
    Ok(())
}

fn update(UpdateArgs { target, file, title }: UpdateArgs) -> Result<(), ClientError> {
    let (page, key, saved) = target.find_own()?;
    let file = file.or(saved.source.filter(|_| title.is_none()));
    if file.is_none() && title.is_none() {
        return Err(ClientError::Usage(
            "give the Markdown file or --title: the page wasn't published from a file here".to_owned(),
        ));
    }
    let mut change = json!({});
    if let Some(file) = file {
        change["content"] = page_text(&file)?.into();
    }
    if let Some(title) = &title {
        change["title"] = title.as_str().into();
    }
    Api::new(target.connection.wait).call(&Method::PATCH, &page, &authorized(&key), Some(&change))?;
    retitle(&target, &page, title.as_deref())?;
    hint("Updated.");
    Ok(())
}

/// Opens the title and Markdown of a page in the user's editor. The file is private, and stays if the update fails.
fn edit(args: &PageArgs) -> Result<(), ClientError> {
    let (page, key, _) = args.find_own()?;
    let api = Api::new(args.connection.wait);
    let read = api.read(&page)?;
    let texts: Value = serde_json::from_str(read.body()).map_err(|_| not_handbill(&page.server))?;
    let [title, content] = ["title", "content"].map(|name| texts[name].as_str().unwrap_or_default());
    let before = format!("{TITLE} {title}\n\n{content}");
    let prefix = format!("handbill-{}-", page.slug);
    let file = Builder::new().prefix(&prefix).suffix(".md").tempfile().and_then(|mut file| {
        file.write_all(before.as_bytes())?;
        Ok(file)
    });
    let file = file.map_err(|error| ClientError::cannot("write a file for the editor", &error))?.into_temp_path();
    let saved = open_editor(&file).and_then(|after| {
        if after == before {
            eprintln!("handbill: nothing was changed");
            return Ok(());
        }
        let (typed, after) = title_and_text(&after);
        let new = typed.filter(|typed| *typed != title);
        let mut change = json!({"content": after});
        if let Some(new) = new {
            change["title"] = new.into();
        }
        let mut headers = authorized(&key);
        headers.extend(read.headers().get(ETAG).map(|tag| (IF_MATCH, tag.clone())));
        api.call(&Method::PATCH, &page, &headers, Some(&change))?;
        hint("Updated.");
        retitle(args, &page, new)
    });
    // The text stays until the server has it.
    if saved.is_err()
        && fs::read(&file).is_ok_and(|left| left != before.as_bytes())
        && let Ok(file) = file.keep()
    {
        eprintln!("handbill: your text is saved in {}", file.display());
    }
    saved
}

/// Without a title line, all is text.
fn title_and_text(file: &str) -> (Option<&str>, &str) {
    let parts = file.strip_prefix(TITLE).and_then(|rest| {
        let (title, rest) = rest.split_once('\n')?;
        Some((title.trim(), rest.strip_prefix("\r\n").or_else(|| rest.strip_prefix('\n'))?))
    });
    parts.map_or((None, file), |(title, text)| (Some(title), text))
}

/// The variable may have arguments, so a shell splits it.
fn open_editor(file: &Path) -> Result<String, ClientError> {
    let status = Command::new("sh").args(["-c", "exec ${VISUAL:-${EDITOR:-vi}} \"$0\""]).arg(file).status();
    let status = status.map_err(|error| ClientError::cannot("start the editor", &error))?;
    if !status.success() {
        return Err(ClientError::Failed(format!("the editor ended with {status}, so nothing was changed")));
    }
    fs::read_to_string(file).map_err(|error| ClientError::cannot(&format!("read {}", file.display()), &error))
}

/// Saves the new title, which `list` shows.
fn retitle(args: &PageArgs, page: &PageReference, title: Option<&str>) -> Result<(), ClientError> {
    let Some(title) = title else { return Ok(()) };
    args.connection.keys()?.change(|keys| {
        for saved in keys.iter_mut().filter(|saved| saved.is_of(page)) {
            saved.title = Some(title.to_owned()).filter(|title| !title.trim().is_empty());
        }
    })
}

fn get(GetArgs { target, json, html }: &GetArgs) -> Result<(), ClientError> {
    let page = target.find()?;
    let answer = Api::new(target.connection.wait).read(&page)?;
    if *json {
        return print_line(answer.body());
    }
    let texts: Value = serde_json::from_str(answer.body()).map_err(|_| not_handbill(&page.server))?;
    print_text(texts[if *html { "content_html" } else { "content" }].as_str().unwrap_or_default())
}

fn list(connection: &ConnectionArgs) -> Result<(), ClientError> {
    let keys = connection.keys()?;
    let mut pages: Vec<_> = keys.keys()?.into_iter().filter(|saved| saved.page().is_some()).collect();
    if pages.is_empty() {
        hint(&format!("No pages yet: no key is saved in {}.", keys.path().display()));
    }
    pages.reverse();
    // Newest first; pages without a date last.
    pages.sort_by(|one, other| other.created_at.cmp(&one.created_at));
    for SavedKey { url, title, created_at, .. } in &pages {
        let day = created_at.as_deref().and_then(|time| time.split('T').next()).unwrap_or_default();
        let title = title.as_deref().unwrap_or_default();
        print_line(&[url, day, title].map(one_line).join("\t"))?;
    }
    Ok(())
}

fn delete(DeleteArgs { target, yes }: &DeleteArgs) -> Result<(), ClientError> {
    let (page, key, _) = target.find_own()?;
    if !yes && !confirmed(&format!("Delete {} for everyone? This can't be undone.", page.url()))? {
        return Err(ClientError::Failed("nothing was deleted".to_owned()));
    }
    match Api::new(target.connection.wait).call(&Method::DELETE, &page, &authorized(&key), None) {
        // The page is deleted already, so its key is useless.
        Ok(_) | Err(ClientError::NoPage(_)) => {}
        Err(error) => return Err(error),
    }
    target.connection.keys()?.forget(&page)?;
    hint("Deleted.");
    Ok(())
}

fn key(KeyArgs { page, import, forget, connection }: KeyArgs) -> Result<(), ClientError> {
    let keys = connection.keys()?;
    if let Some(file) = import {
        return import_keys(&file, &keys);
    }
    let args = PageArgs { page: page.unwrap_or_default(), connection };
    let (page, key, _) = args.find_own()?;
    if forget { keys.forget(&page) } else { print_line(key.reveal()) }
}

fn import_keys(file: &Path, keys: &KeyFile) -> Result<(), ClientError> {
    let imported = key_file::parse(&read_text(file)?)
        .map_err(|line| ClientError::Failed(format!("line {line} is not a page with its key; nothing was imported")))?;
    let added = keys.change(|saved| {
        let before = saved.len();
        for new in imported {
            match saved.iter().find(|old| old.page() == new.page()) {
                None => saved.push(new),
                // Only the server knows which key is right.
                Some(old) if old.edit_key != new.edit_key => {
                    let url = &new.url;
                    eprintln!(
                        "handbill: another key of {url} is saved, and stays: `handbill key --forget {url}`, then import again"
                    );
                }
                Some(_) => {}
            }
        }
        saved.len() - before
    })?;
    hint(&format!("{} imported.", counted(added, "key")));
    Ok(())
}

fn is_standard(file: &Path) -> bool {
    file.as_os_str() == STANDARD
}

fn name_of(file: &Path) -> String {
    if is_standard(file) { "standard input".to_owned() } else { file.display().to_string() }
}

fn page_text(file: &Path) -> Result<String, ClientError> {
    let text = read_text(file)?;
    if text.len() > MAX_BYTES {
        let name = name_of(file);
        let size = text.len().div_ceil(1024);
        return Err(ClientError::Failed(format!("{name} is {size} KB; a page holds at most {} KB", MAX_BYTES / 1024)));
    }
    Ok(text)
}

fn read_text(file: &Path) -> Result<String, ClientError> {
    let read = if is_standard(file) {
        if io::stdin().is_terminal() {
            hint("Write the text, then press Ctrl+D on a new line.");
        }
        io::read_to_string(io::stdin().take(MAX_FILE_BYTES))
    } else {
        fs::File::open(file).and_then(|file| io::read_to_string(file.take(MAX_FILE_BYTES)))
    };
    let name = name_of(file);
    read.map_err(|error| match error.kind() {
        ErrorKind::InvalidData => ClientError::Failed(format!("{name} isn't a text file (UTF-8)")),
        _ => ClientError::cannot(&format!("read {name}"), &error),
    })
}

fn confirmed(question: &str) -> Result<bool, ClientError> {
    if !io::stdin().is_terminal() {
        return Err(ClientError::Usage("not deleted: no terminal to confirm on. Add --yes".to_owned()));
    }
    eprint!("{question} [y/N] ");
    let mut answer = String::new();
    io::stdin().read_line(&mut answer).map_err(|error| ClientError::cannot("read the answer", &error))?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_the_line_of_the_title_is_all_text() {
        for (file, parts) in [
            ("Title: A\n\nTitle: B\n\nc", (Some("A"), "Title: B\n\nc")),
            ("Title:\r\n\r\nc\n", (Some(""), "c\n")),
            ("Title: A\n\n", (Some("A"), "")),
            ("Title: A\nc", (None, "Title: A\nc")),
            ("# A\n", (None, "# A\n")),
        ] {
            assert_eq!(title_and_text(file), parts);
        }
    }
}

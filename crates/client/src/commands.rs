//! The commands, from arguments to output.

use std::io::{self, IsTerminal, Read};
use std::process::{Command, Stdio};
use std::{fs, path::Path};

use http::Method;
use serde_json::{Map, Value, json};
use tempfile::Builder;
use ureq::Agent;

use crate::api::{Api, authorized, explain};
use crate::args::{
    ClientCommand, DeleteArgs, DetailsArgs, GetArgs, KeyArgs, ListArgs, PageArgs, PublishArgs, STANDARD, UpdateArgs,
};
use crate::key_file::{self, KeyFile, SavedKey, published_from};
use crate::page::PageReference;
use crate::publish::{Draft, Published, check_length, publish};
use crate::terminal::{hint, one_line};
use crate::{ClientError, Result, mcp, print_line, print_text};
use handbill_pages::values::title::{MAX_CHARS, Title};
use handbill_pages::values::{counted::counted, markdown::render, origin::Origin};

/// Far more than a file of keys holds.
const MAX_FILE_BYTES: u64 = 16 * 1024 * 1024;

const OPENER: &str = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };

/// Begins the first line of the file in the editor; an empty line and the text follow.
const TITLE: &str = "Title:";

pub(crate) fn run(command: ClientCommand, agent: &Agent) -> Result<()> {
    match command {
        ClientCommand::Publish(args) => publish_all(&args, agent),
        ClientCommand::Update(args) => update(args, agent),
        ClientCommand::Edit(args) => edit(&args, agent),
        ClientCommand::Get(args) => get(&args, agent),
        ClientCommand::List(args) => list(&args),
        ClientCommand::Delete(args) => delete(&args, agent),
        ClientCommand::Key(args) => key(args),
        ClientCommand::Mcp(connection) => mcp::run(&connection, agent),
    }
}

fn publish_all(args: &PublishArgs, agent: &Agent) -> Result<()> {
    let PublishArgs { files, details, again, open, json, connection } = args;
    if files.len() > 1 && details.title.is_some() {
        return Err(ClientError::Usage("--title works with one file only".to_owned()));
    }
    let server = connection.server()?;
    let keys = connection.keys()?;
    let api = Api { agent, wait: connection.wait };
    for file in files {
        let draft = draft(file, details)?;
        if !again && let Some(source) = &draft.source {
            expect_new(&name_of(file), source, &server, &keys.keys()?)?;
        }
        let saved = match publish(&api, &keys, &server, draft)? {
            Published::Saved(saved) => saved,
            Published::Refused(answer) => return Err(explain(&answer, &server)),
        };
        print_line(&if *json { saved.without_key().to_string() } else { saved.url.clone() })?;
        // Nobody waits for the browser.
        if *open && Command::new(OPENER).arg(&saved.url).stdout(Stdio::null()).stderr(Stdio::null()).spawn().is_err() {
            eprintln!("handbill: cannot start {OPENER}: open {} yourself", saved.url);
        }
    }
    hint(&format!("The edit key is saved in {}.", keys.path().display()));
    Ok(())
}

/// The title is the given one, the one in the text, or the file's name.
fn draft(file: &Path, details: &DetailsArgs) -> Result<Draft> {
    let content = page_text(file)?;
    if content.is_empty() {
        return Err(ClientError::Failed(format!("nothing to publish: {} is empty", name_of(file))));
    }
    let source = (*file != *STANDARD).then(|| fs::canonicalize(file).unwrap_or_else(|_| file.to_owned()));
    let stem =
        source.as_ref().and_then(|source| source.file_stem()?.to_str()).filter(|stem| Title::parse(stem).is_ok());
    let title = details.title.clone().or_else(|| title_in(&content)).or_else(|| stem.map(str::to_owned));
    let title = title
        .ok_or_else(|| ClientError::Usage("no title: start the text with \"# Title\" or use --title".to_owned()))?;
    Ok(Draft { title, content, others: fields(None, details), source })
}

/// The front matter's or the first heading's, cut to the length of a title.
fn title_in(text: &str) -> Option<String> {
    let title: String = render(text).title_in_text?.chars().take(MAX_CHARS).collect();
    Title::parse(&title).is_ok().then_some(title)
}

/// A person who publishes an edited file again means `update`; a script is only told.
fn expect_new(name: &str, source: &Path, server: &Origin, saved: &[SavedKey]) -> Result<()> {
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

fn update(UpdateArgs { target, file, mut details, force }: UpdateArgs, agent: &Agent) -> Result<()> {
    let PageArgs { page: name, connection } = target;
    let (page, key, saved) = connection.find_own(&name)?;
    let is_of_text = details == DetailsArgs::default();
    let file = file.or(saved.source.filter(|_| is_of_text));
    if file.is_none() && is_of_text {
        return Err(ClientError::Usage(
            "give the Markdown file or --title: the page wasn't published from a file here".to_owned(),
        ));
    }
    let content = file.map(|file| page_text(&file)).transpose()?;
    let api = Api { agent, wait: connection.wait };
    let read = api.read(&page)?;
    let now = read.body();
    let is_as_sent = saved.updated_at.is_none_or(|sent| now["updated_at"] == sent.as_str());
    // An answer that was lost may have changed it to this very text.
    if let Some(content) = &content
        && !(is_as_sent || force || now["content"] == content.as_str())
    {
        let url = page.url();
        return Err(ClientError::Changed(format!(
            "{url} was changed since you last sent it. See it with `handbill get {url}`, or replace it with --force"
        )));
    }
    details.title = details.title.or_else(|| following_title(now, content.as_deref()?));
    let change = fields(content.as_deref(), &details).into();
    let answer = api.change(&page, &key, Some(&read).filter(|_| !force), &change)?;
    let sent = answer["updated_at"].as_str().filter(|_| content.is_some() || is_as_sent);
    remember(&connection.keys()?, &page, details.title.as_deref(), sent)?;
    hint("Updated.");
    Ok(())
}

/// A title that came from the text follows the text.
fn following_title(page: &Value, content: &str) -> Option<String> {
    let old = title_in(page["content"].as_str()?).filter(|old| page["title"] == old.as_str())?;
    title_in(content).filter(|new| *new != old)
}

/// The body of a request.
fn fields(content: Option<&str>, details: &DetailsArgs) -> Map<String, Value> {
    let details = json!(details).as_object().cloned().unwrap_or_default();
    details.into_iter().chain(content.map(|content| ("content".to_owned(), json!(content)))).collect()
}

/// Opens the title and Markdown of a page in the user's editor. The file is private, and stays if the update fails.
fn edit(args: &PageArgs, agent: &Agent) -> Result<()> {
    let (page, key, saved) = args.connection.find_own(&args.page)?;
    let api = Api { agent, wait: args.connection.wait };
    let read = api.read(&page)?;
    let [title, content] = ["title", "content"].map(|name| read.body()[name].as_str().unwrap_or_default());
    let before = format!("{TITLE} {title}\n\n{content}");
    let file = Builder::new().prefix(&format!("handbill-{}-", page.slug)).suffix(".md").tempfile();
    let file = file.and_then(|file| fs::write(&file, &before).map(|()| file.into_temp_path()));
    let file = file.map_err(|error| ClientError::cannot("write a file for the editor", &error))?;
    let done = open_editor(&file).and_then(|after| {
        if after == before {
            eprintln!("handbill: nothing was changed");
            return Ok(());
        }
        let (typed, after) = title_and_text(&after);
        let new = typed.filter(|typed| *typed != title);
        let change = fields(Some(after), &DetailsArgs { title: new.map(str::to_owned) }).into();
        let answer = api.change(&page, &key, Some(&read), &change)?;
        // A file of the page is behind the page now.
        let sent = answer["updated_at"].as_str().filter(|_| saved.source.is_none());
        remember(&args.connection.keys()?, &page, new, sent)?;
        hint("Updated.");
        Ok(())
    });
    // The text stays until the server has it.
    if done.is_err()
        && fs::read(&file).is_ok_and(|left| left != before.as_bytes())
        && let Ok(file) = file.keep()
    {
        eprintln!("handbill: your text is saved in {}", file.display());
    }
    done
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
fn open_editor(file: &Path) -> Result<String> {
    let status = Command::new("sh").args(["-c", "exec ${VISUAL:-${EDITOR:-vi}} \"$0\""]).arg(file).status();
    let status = status.map_err(|error| ClientError::cannot("start the editor", &error))?;
    if !status.success() {
        return Err(ClientError::Failed(format!("the editor ended with {status}, so nothing was changed")));
    }
    fs::read_to_string(file).map_err(|error| ClientError::cannot(&format!("read {}", file.display()), &error))
}

/// Saves the new title, which `list` shows, and the time of the text that was `sent` from here.
fn remember(keys: &KeyFile, page: &PageReference, title: Option<&str>, sent: Option<&str>) -> Result<()> {
    keys.change(|keys| {
        for saved in keys.iter_mut().filter(|saved| saved.is_of(page)) {
            if let Some(title) = title {
                saved.title = Some(title.to_owned()).filter(|title| !title.trim().is_empty());
            }
            saved.updated_at = sent.map(str::to_owned).or(saved.updated_at.take());
        }
    })
}

fn get(GetArgs { target, json, html }: &GetArgs, agent: &Agent) -> Result<()> {
    let page = target.connection.find(&target.page)?;
    let answer = Api { agent, wait: target.connection.wait }.read(&page)?;
    if *json {
        return print_line(&answer.body().to_string());
    }
    print_text(answer.body()[if *html { "content_html" } else { "content" }].as_str().unwrap_or_default())
}

fn list(ListArgs { json, connection }: &ListArgs) -> Result<()> {
    let keys = connection.keys()?;
    let mut pages: Vec<_> = keys.keys()?.into_iter().rev().filter(|saved| saved.page().is_some()).collect();
    if pages.is_empty() {
        hint(&format!("No pages yet: no key is saved in {}.", keys.path().display()));
    }
    // Newest first; pages without a date last.
    pages.sort_by(|one, other| other.created_at.cmp(&one.created_at));
    for saved in &pages {
        let SavedKey { url, title, created_at, source, .. } = saved;
        let day = created_at.as_deref().and_then(|time| time.split('T').next()).unwrap_or_default();
        let file = source.as_ref().map(|file| file.display().to_string()).unwrap_or_default();
        let columns = [url, day, title.as_deref().unwrap_or_default(), &file];
        print_line(&if *json { saved.without_key().to_string() } else { columns.map(one_line).join("\t") })?;
    }
    Ok(())
}

fn delete(DeleteArgs { pages, yes, connection }: &DeleteArgs, agent: &Agent) -> Result<()> {
    // A name that is wrong deletes nothing.
    let pages = pages.iter().map(|name| connection.find_own(name)).collect::<Result<Vec<_>, _>>()?;
    let urls: Vec<_> = pages.iter().map(|(page, ..)| page.url()).collect();
    if !yes && !confirmed(&format!("Delete {} for everyone? This can't be undone.", urls.join(" and ")))? {
        return Err(ClientError::Failed("nothing was deleted".to_owned()));
    }
    let api = Api { agent, wait: connection.wait };
    let mut absent = Vec::new();
    for (page, key, _) in &pages {
        match api.call(&Method::DELETE, page, &authorized(key), None) {
            Ok(_) => {
                connection.keys()?.forget(page)?;
                hint(&format!("Deleted {}.", page.url()));
            }
            // Operators can show a hidden page again.
            Err(ClientError::NoPage(message)) => {
                let url = page.url();
                absent.push(format!("{message} Its key stays saved; `handbill key --forget {url}` removes it"));
            }
            Err(error) => return Err(error),
        }
    }
    if absent.is_empty() { Ok(()) } else { Err(ClientError::NoPage(absent.join("\n"))) }
}

fn key(KeyArgs { page, import, link, forget, connection }: KeyArgs) -> Result<()> {
    let keys = connection.keys()?;
    if let Some(file) = import {
        return import_keys(&file, &keys);
    }
    let (page, key, _) = connection.find_own(&page.unwrap_or_default())?;
    match (forget, link) {
        (true, _) => keys.forget(&page),
        (_, true) => print_line(&format!("{}/edit#{}", page.url(), key.reveal())),
        _ => print_line(key.reveal()),
    }
}

fn import_keys(file: &Path, keys: &KeyFile) -> Result<()> {
    let name = name_of(file);
    let (imported, others) = key_file::parse(&read_bytes(file)?);
    key_file::warn_of(&others, &name, "it was left out");
    if imported.is_empty() {
        return Err(ClientError::Failed(format!("there is no page with its key in {name}; nothing was imported")));
    }
    let added = keys.change(|saved| {
        let before = saved.len();
        for new in imported {
            match saved.iter().find(|old| old.page() == new.page()) {
                None => saved.push(new),
                // Only the server knows which key is right.
                Some(old) if old.edit_key != new.edit_key => eprintln!(
                    "handbill: another key of {0} is saved, and stays: `handbill key --forget {0}`, then import again",
                    new.url
                ),
                Some(_) => {}
            }
        }
        saved.len() - before
    })?;
    hint(&format!("{} imported.", counted(added, "key")));
    Ok(())
}

fn name_of(file: &Path) -> String {
    if *file == *STANDARD { "standard input".to_owned() } else { file.display().to_string() }
}

fn page_text(file: &Path) -> Result<String> {
    let bytes = read_bytes(file)?;
    check_length(&bytes, &name_of(file))?;
    String::from_utf8(bytes).map_err(|_| ClientError::Failed(format!("{} isn't a text file (UTF-8)", name_of(file))))
}

fn read_bytes(file: &Path) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = if *file == *STANDARD {
        if io::stdin().is_terminal() {
            hint("Write the text, then press Ctrl+D on a new line.");
        }
        io::stdin().take(MAX_FILE_BYTES).read_to_end(&mut bytes)
    } else {
        fs::File::open(file).and_then(|file| file.take(MAX_FILE_BYTES).read_to_end(&mut bytes))
    };
    read.map_err(|error| ClientError::cannot(&format!("read {}", name_of(file)), &error))?;
    Ok(bytes)
}

fn confirmed(question: &str) -> Result<bool> {
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

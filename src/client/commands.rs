//! The commands, each from its arguments to what it prints.

use std::fs;
use std::io::{self, IsTerminal, Read, Write};
use std::path::{Path, PathBuf};

use serde_json::json;

use super::api::Api;
use super::args::{
    ClientCommand, DeleteArgs, GetArgs, KeysArgs, KeysCommand, ListArgs, PageArgs, PublishArgs, UpdateArgs,
};
use super::error::ClientError;
use super::key_file::{self, KeptKey, KeyFile};
use super::keys::{forget_page, keep, key_of};
use super::reference::PageReference;
use super::{bridge, edit};
use handbill_core::domain::content::MAX_BYTES;
use handbill_core::domain::markdown::first_heading;
use handbill_core::domain::title::{MAX_CHARS, Title};

/// The argument that means standard input or output.
const STANDARD: &str = "-";

pub(super) async fn run(command: ClientCommand) -> Result<(), ClientError> {
    match command {
        ClientCommand::Publish(args) => publish(args).await,
        ClientCommand::Update(args) => update(args).await,
        ClientCommand::Edit(args) => edit::run(args).await,
        ClientCommand::Get(args) => get(args).await,
        ClientCommand::List(args) => list(args),
        ClientCommand::Delete(args) => delete(args).await,
        ClientCommand::Key(args) => key(&args),
        ClientCommand::Keys(KeysCommand::Export { file, keys }) => export(file, keys),
        ClientCommand::Keys(KeysCommand::Import { file, keys }) => import(file.as_deref(), keys),
        ClientCommand::Keys(KeysCommand::Forget(args)) => forget(&args),
        ClientCommand::Mcp(connection) => bridge::run(connection).await,
    }
}

async fn publish(PublishArgs { file, title, connection }: PublishArgs) -> Result<(), ClientError> {
    let content = read_text(file.as_deref())?;
    let source = file.filter(|file| !is_standard(file)).map(|file| fs::canonicalize(&file).unwrap_or(file));
    let title = match title {
        Some(title) => title,
        None => title_of(&content, source.as_deref())?,
    };
    let keys = KeyFile::in_directory(connection.keys.keys_dir)?;
    // The key file is opened first, so that a file that cannot be written is noticed while nothing is published.
    drop(keys.lock()?);
    let created = Api::new(connection.wait)?.create(&connection.server, &title, &content).await?;
    keep(&keys, &created, Some(title), source)?;
    print_line(&created.url)?;
    hint(&format!("The edit key is kept in {}.", keys.path().display()));
    Ok(())
}

async fn update(
    UpdateArgs { target: PageArgs { page, connection }, file, title }: UpdateArgs,
) -> Result<(), ClientError> {
    let (page, keys) =
        (PageReference::parse(&page, &connection.server)?, KeyFile::in_directory(connection.keys.keys_dir)?);
    let kept = keys.find(&page)?;
    let key = key_of(&page, kept.as_ref())?;
    let source = kept.and_then(|kept| kept.source);
    let mut change = json!({});
    match (file, source) {
        (Some(file), _) => change["content"] = read_text(Some(&file))?.into(),
        (None, _) if title.is_some() => {}
        (None, Some(source)) => change["content"] = read_text(Some(&source))?.into(),
        (None, None) => {
            return Err(ClientError::Usage(
                "give the Markdown file or --title: it is not known which file the page was published from".to_owned(),
            ));
        }
    }
    if let Some(title) = &title {
        change["title"] = title.as_str().into();
    }
    Api::new(connection.wait)?.update(&page, &key, &change, None).await?;
    if title.is_some() {
        retitle(&keys, &page, title.filter(|title| !title.trim().is_empty()))?;
    }
    print_line(&page.url())
}

/// Notes the new title of a page in the key file.
fn retitle(keys: &KeyFile, page: &PageReference, title: Option<String>) -> Result<(), ClientError> {
    let locked = keys.lock()?;
    let mut pages = keys.pages()?;
    let Some(kept) = pages.iter_mut().find(|kept| kept.is(page)) else { return Ok(()) };
    kept.title = title;
    locked.replace(&pages)
}

async fn get(GetArgs { target: PageArgs { page, connection }, json, html }: GetArgs) -> Result<(), ClientError> {
    let page = PageReference::parse(&page, &connection.server)?;
    let read = Api::new(connection.wait)?.read(&page).await?;
    if json {
        return print_line(&String::from_utf8_lossy(&read.json));
    }
    let texts = read.texts;
    let text = if html { texts.content_html } else { texts.content };
    // A stranger wrote the text, and a terminal would obey its escape sequences.
    print(if io::stdout().is_terminal() { harmless(&text) } else { text }.as_bytes())
}

/// `text`, with each control character but line breaks and tabs as U+FFFD.
fn harmless(text: &str) -> String {
    text.replace(|c: char| c.is_control() && !matches!(c, '\n' | '\t'), "\u{fffd}")
}

fn list(ListArgs { json, keys }: ListArgs) -> Result<(), ClientError> {
    let keys = KeyFile::in_directory(keys.keys_dir)?;
    let pages = keys.pages()?;
    if pages.is_empty() {
        hint(&format!("No key is kept in {}.", keys.path().display()));
    }
    let mut text = String::new();
    for KeptKey { url, title, created_at, source, .. } in &pages {
        let line = if json {
            json!({"url": url, "title": title, "created_at": created_at, "source": source}).to_string()
        } else {
            format!("{url}\t{}", title.as_deref().unwrap_or_default().replace(char::is_control, " "))
        };
        text.push_str(&line);
        text.push('\n');
    }
    print(text.as_bytes())
}

async fn delete(DeleteArgs { target: PageArgs { page, connection }, yes }: DeleteArgs) -> Result<(), ClientError> {
    let page = PageReference::parse(&page, &connection.server)?;
    let keys = KeyFile::in_directory(connection.keys.keys_dir)?;
    let key = key_of(&page, keys.find(&page)?.as_ref())?;
    if !yes && !confirmed(&format!("Delete {} for ever?", page.url()))? {
        return Err(ClientError::Failed("nothing was deleted".to_owned()));
    }
    match Api::new(connection.wait)?.delete(&page, &key).await {
        // The page was deleted before, so its key is of no more use either.
        Ok(()) | Err(ClientError::NoPage(_)) => forget_page(&keys, &page),
        Err(error) => Err(error),
    }
}

fn key(PageArgs { page, connection }: &PageArgs) -> Result<(), ClientError> {
    let page = PageReference::parse(page, &connection.server)?;
    let keys = KeyFile::in_directory(connection.keys.keys_dir.clone())?;
    print_line(key_of(&page, keys.find(&page)?.as_ref())?.reveal())
}

fn export(file: Option<PathBuf>, keys: KeysArgs) -> Result<(), ClientError> {
    let pages = KeyFile::in_directory(keys.keys_dir)?.pages()?;
    let text = key_file::lines(&pages).map_err(|error| ClientError::Failed(error.to_string()))?;
    let Some(file) = file.filter(|file| !is_standard(file)) else { return print(text.as_bytes()) };
    let written = || -> io::Result<()> {
        let mut new = key_file::private().create_new(true).write(true).open(&file)?;
        new.write_all(text.as_bytes())?;
        new.sync_all()
    };
    written().map_err(|error| {
        let file = file.display();
        ClientError::Failed(match error.kind() {
            io::ErrorKind::AlreadyExists => format!("{file} exists already, and is left as it is: choose another name"),
            _ => format!("could not write {file} ({error})"),
        })
    })?;
    hint(&format!("{} keys are in {}. Whoever reads this file can change the pages.", pages.len(), file.display()));
    Ok(())
}

fn import(file: Option<&Path>, keys: KeysArgs) -> Result<(), ClientError> {
    let imported = key_file::parse_import(&read_text(file)?)
        .map_err(|line| ClientError::Failed(format!("line {line} is not a kept page; nothing was imported")))?;
    let keys = KeyFile::in_directory(keys.keys_dir)?;
    let locked = keys.lock()?;
    let mut pages = keys.pages()?;
    let before = pages.len();
    for page in imported {
        match page.reference().and_then(|reference| pages.iter().find(|kept| kept.is(&reference))) {
            None => pages.push(page),
            // Only the server knows which of the two is right.
            Some(kept) if kept.edit_key != page.edit_key => {
                let url = &page.url;
                eprintln!(
                    "handbill: another key of {url} is kept, and stays: `handbill keys forget {url}`, then import again"
                );
            }
            Some(_) => {}
        }
    }
    locked.replace(&pages)?;
    hint(&format!("{} keys were imported.", pages.len() - before));
    Ok(())
}

fn forget(PageArgs { page, connection }: &PageArgs) -> Result<(), ClientError> {
    let page = PageReference::parse(page, &connection.server)?;
    let keys = KeyFile::in_directory(connection.keys.keys_dir.clone())?;
    if keys.find(&page)?.is_none() {
        return Err(ClientError::Key(format!("no key of {} is kept", page.url())));
    }
    forget_page(&keys, &page)
}

/// The title of a text that was given none: its first heading, else the name of its file.
fn title_of(content: &str, source: Option<&Path>) -> Result<String, ClientError> {
    let stem = || source?.file_stem()?.to_str().map(str::to_owned);
    let title = first_heading(content).or_else(stem);
    // A heading may be longer than a title.
    let title = title.map(|title| title.chars().take(MAX_CHARS).collect::<String>());
    title.filter(|title| Title::parse(title).is_ok()).ok_or_else(|| {
        ClientError::Usage("the text has no heading that could be its title: give one with --title".to_owned())
    })
}

fn is_standard(path: &Path) -> bool {
    path.as_os_str() == STANDARD
}

/// The text of a file, or of standard input. A text that is too large to publish is refused before all of it is read.
fn read_text(file: Option<&Path>) -> Result<String, ClientError> {
    let limit = u64::try_from(64 * MAX_BYTES).unwrap_or(u64::MAX);
    let mut bytes = Vec::new();
    let (name, read) = if let Some(path) = file.filter(|file| !is_standard(file)) {
        let read = fs::File::open(path).and_then(|file| file.take(limit).read_to_end(&mut bytes));
        (path.display().to_string(), read)
    } else {
        if io::stdin().is_terminal() {
            hint("Write the text, then press Ctrl+D on a new line.");
        }
        ("standard input".to_owned(), io::stdin().take(limit).read_to_end(&mut bytes))
    };
    read.map_err(|error| ClientError::Failed(format!("could not read {name} ({error})")))?;
    String::from_utf8(bytes).map_err(|_| ClientError::Usage(format!("{name} is not UTF-8: convert it first")))
}

/// Asks the user. Without a terminal nobody can answer.
fn confirmed(question: &str) -> Result<bool, ClientError> {
    if !io::stdin().is_terminal() {
        return Err(ClientError::Usage("nobody can be asked here: add --yes".to_owned()));
    }
    eprint!("{question} [y/N] ");
    let mut answer = String::new();
    io::stdin().read_line(&mut answer).map_err(|error| ClientError::Failed(error.to_string()))?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

/// Tells the user something that a script does not need.
fn hint(text: &str) {
    if io::stderr().is_terminal() {
        eprintln!("{text}");
    }
}

fn print_line(line: &str) -> Result<(), ClientError> {
    print(format!("{line}\n").as_bytes())
}

fn print(bytes: &[u8]) -> Result<(), ClientError> {
    let mut out = io::stdout();
    out.write_all(bytes)
        .and_then(|()| out.flush())
        .map_err(|error| ClientError::Failed(format!("could not write to standard output ({error})")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_gets_no_escape_sequence_of_a_page() {
        assert_eq!(harmless("a\u{1b}]0;x\u{7}\tb\r\n\u{9b}2J"), "a\u{fffd}]0;x\u{fffd}\tb\u{fffd}\n\u{fffd}2J");
    }
}

//! The commands, each from its arguments to what it prints.

use std::fs;
use std::io::{self, IsTerminal, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::json;

use super::api::{Api, CreatedPage};
use super::args::{
    ClientCommand, DeleteArgs, GetArgs, KeysArgs, KeysCommand, ListArgs, PageArgs, PublishArgs, UpdateArgs,
};
use super::error::ClientError;
use super::key_file::{self, KeptKey, KeyFile};
use super::keys::{OwnPage, forget_page, heading_title, keep, page_of, published_from};
use super::output::{hint, print, print_line, print_text};
use super::publishing::Outgoing;
use super::reference::PageReference;
use super::{bridge, edit};
use handbill_core::domain::content::MAX_BYTES;
use handbill_core::domain::counted::counted;
use handbill_core::domain::origin::Origin;
use handbill_core::domain::title::Title;

/// The argument that means standard input or output.
const STANDARD: &str = "-";

pub(super) async fn run(command: ClientCommand) -> Result<(), ClientError> {
    match command {
        ClientCommand::Publish(args) => publish(args).await,
        ClientCommand::Update(args) => update(args).await,
        ClientCommand::Edit(args) => edit::run(args).await,
        ClientCommand::Get(args) => get(args).await,
        ClientCommand::List(args) => list(args).await,
        ClientCommand::Delete(args) => delete(args).await,
        ClientCommand::Key(args) => key(&args),
        ClientCommand::Keys(KeysCommand::Export { file, keys }) => export(file, keys),
        ClientCommand::Keys(KeysCommand::Import { file, keys }) => import(file.as_deref(), keys),
        ClientCommand::Keys(KeysCommand::Forget(args)) => forget(&args),
        ClientCommand::Mcp(connection) => bridge::run(connection).await,
    }
}

async fn publish(PublishArgs { files, title, again, json, connection }: PublishArgs) -> Result<(), ClientError> {
    if files.len() > 1 && title.is_some() {
        return Err(ClientError::Usage("--title works with one file only".to_owned()));
    }
    let files = if files.is_empty() { vec![PathBuf::from(STANDARD)] } else { files };
    // All files are read first, so that nothing is published if one of them cannot be.
    let drafts: Vec<_> = files.into_iter().map(|file| Draft::read(file, title.as_deref())).collect::<Result<_, _>>()?;
    let server = connection.server()?;
    let keys = KeyFile::in_directory(connection.keys.keys_dir)?;
    // The key file is opened first, so that a file that cannot be written is noticed while nothing is published.
    drop(keys.lock()?);
    // Only a file has a path to look for.
    if !again && drafts.iter().any(|draft| draft.source.is_some()) {
        let saved = keys.pages()?;
        drafts.iter().try_for_each(|draft| draft.expect_new(&server, &saved))?;
    }
    let api = Api::new(connection.wait);
    let count = drafts.len();
    for (done, Draft { title, content, source, .. }) in drafts.into_iter().enumerate() {
        let outgoing = Outgoing::begin(&keys, &server, &title, &content)?;
        let created = api.create(&server, &outgoing).await.inspect_err(|_| {
            if count > 1 {
                eprintln!("handbill: {done} of {count} files were published before this failure:");
            }
        })?;
        keep(&keys, &created, Some(title), source)?;
        outgoing.end();
        let CreatedPage { url, edit_key, .. } = created;
        print_line(&if json { json!({"url": url, "edit_key": edit_key}).to_string() } else { url })?;
    }
    hint(&format!("The edit key is saved in {}.", keys.path().display()));
    Ok(())
}

/// A text on its way to become a page.
struct Draft {
    title: String,
    content: String,
    /// The file as the user called it.
    name: String,
    source: Option<PathBuf>,
}

impl Draft {
    /// The text of a file. Without a title it has the title of its first heading, else the name of the file.
    fn read(file: PathBuf, title: Option<&str>) -> Result<Self, ClientError> {
        let content = read_text(Some(&file))?;
        let name = if is_standard(&file) { "standard input".to_owned() } else { file.display().to_string() };
        if content.is_empty() {
            return Err(ClientError::Failed(format!("nothing to publish: {name} is empty")));
        }
        let source = (!is_standard(&file)).then(|| fs::canonicalize(&file).unwrap_or(file));
        let stem = || Some(source.as_ref()?.file_stem()?.to_str()?.to_owned());
        let title = title.map(str::to_owned).or_else(|| heading_title(&content));
        let title = title
            .or_else(|| stem().filter(|stem| Title::parse(stem).is_ok()))
            .ok_or_else(|| ClientError::Usage("no title: start the text with \"# Title\" or use --title".to_owned()))?;
        Ok(Self { title, content, name, source })
    }

    /// A person who repeats `publish` after an edit means `update`. A script is only told.
    fn expect_new(&self, server: &Origin, saved: &[KeptKey]) -> Result<(), ClientError> {
        let Some(source) = &self.source else { return Ok(()) };
        let Some(page) = published_from(source, saved).filter(|page| page.server == *server).last() else {
            return Ok(());
        };
        let (name, url) = (&self.name, page.url());
        let advice = format!(
            "{name} is already at {url}. Change it with `handbill update {name}`, or publish a second page with --again"
        );
        if io::stdin().is_terminal() && io::stderr().is_terminal() {
            return Err(ClientError::Usage(advice));
        }
        eprintln!("handbill: {advice}");
        Ok(())
    }
}

async fn update(UpdateArgs { target, file, title }: UpdateArgs) -> Result<(), ClientError> {
    let own = OwnPage::find(&target)?;
    let source = own.kept.as_ref().and_then(|kept| kept.source.clone()).filter(|_| title.is_none());
    let Some(file) = file.or(source).map(Some).or_else(|| title.as_ref().map(|_| None)) else {
        return Err(ClientError::Usage(
            "give the Markdown file or --title: the page wasn't published from a file here".to_owned(),
        ));
    };
    let mut change = json!({});
    if let Some(file) = file {
        change["content"] = read_text(Some(&file))?.into();
    }
    if let Some(title) = &title {
        change["title"] = title.as_str().into();
    }
    Api::new(target.connection.wait).update(&own.page, &own.key, &change, None).await?;
    if let Some(title) = title {
        own.retitle(&title)?;
    }
    hint("Updated.");
    Ok(())
}

async fn get(GetArgs { target, json, html }: GetArgs) -> Result<(), ClientError> {
    let read = Api::new(target.connection.wait).read(&page_of(&target)?).await?;
    if json {
        return print_line(&String::from_utf8_lossy(&read.json));
    }
    let texts = read.texts;
    print_text(if html { &texts.content_html } else { &texts.content })
}

async fn list(ListArgs { json, check, keys }: ListArgs) -> Result<(), ClientError> {
    let keys = KeyFile::in_directory(keys.keys_dir)?;
    let mut pages = keys.pages()?;
    if pages.is_empty() {
        hint(&format!("No pages yet: no key is saved in {}.", keys.path().display()));
    }
    pages.reverse();
    // The newest is first, and pages without a date are last. All dates are in UTC and of one form.
    pages.sort_by(|one, other| other.created_at.cmp(&one.created_at));
    let api = Api::new(Duration::ZERO);
    for kept in &pages {
        let Some(page) = kept.reference() else { continue };
        let state = if check { Some(state_of(&api, &page).await) } else { None };
        let KeptKey { url, title, created_at, source, .. } = kept;
        print_line(&if json {
            let mut line = json!({"url": url, "slug": page.slug.as_str(), "title": title, "created_at": created_at, "source": source});
            if let Some(state) = state {
                line["state"] = state.into();
            }
            line.to_string()
        } else {
            let day = created_at.as_deref().and_then(|time| time.split('T').next()).unwrap_or_default();
            let line = format!("{url}\t{day}\t{}", title.as_deref().unwrap_or_default());
            let line =
                line.split('\t').map(|field| field.replace(char::is_control, " ")).collect::<Vec<_>>().join("\t");
            line + &state.map_or(String::new(), |state| format!("\t{state}"))
        })?;
    }
    Ok(())
}

/// The server's answer about a page: `live`, `gone`, or `unknown` if it does not answer.
async fn state_of(api: &Api, page: &PageReference) -> &'static str {
    match api.read(page).await {
        Ok(_) => "live",
        Err(ClientError::NoPage(_)) => "gone",
        Err(_) => "unknown",
    }
}

async fn delete(DeleteArgs { target, yes }: DeleteArgs) -> Result<(), ClientError> {
    let OwnPage { keys, page, key, .. } = OwnPage::find(&target)?;
    if !yes && !confirmed(&format!("Delete {} for everyone? This can't be undone.", page.url()))? {
        return Err(ClientError::Failed("nothing was deleted".to_owned()));
    }
    match Api::new(target.connection.wait).delete(&page, &key).await {
        // The page was deleted before, so its key is of no more use either.
        Ok(()) | Err(ClientError::NoPage(_)) => forget_page(&keys, &page)?,
        Err(error) => return Err(error),
    }
    hint("Deleted.");
    Ok(())
}

fn key(page: &PageArgs) -> Result<(), ClientError> {
    print_line(OwnPage::find(page)?.key.reveal())
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
            _ => format!("can't write {file} ({error})"),
        })
    })?;
    hint(&format!(
        "{} written to {}. Anyone who reads it can change the pages.",
        counted(pages.len(), "key"),
        file.display()
    ));
    Ok(())
}

fn import(file: Option<&Path>, keys: KeysArgs) -> Result<(), ClientError> {
    let imported = key_file::parse_import(&read_text(file)?)
        .map_err(|line| ClientError::Failed(format!("line {line} is not a page with its key; nothing was imported")))?;
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
                    "handbill: another key of {url} is saved, and stays: `handbill keys forget {url}`, then import again"
                );
            }
            Some(_) => {}
        }
    }
    locked.replace(&pages)?;
    hint(&format!("{} imported.", counted(pages.len() - before, "key")));
    Ok(())
}

fn forget(args: &PageArgs) -> Result<(), ClientError> {
    let page = page_of(args)?;
    let keys = KeyFile::in_directory(args.connection.keys.keys_dir.clone())?;
    if keys.find(&page)?.is_none() {
        return Err(ClientError::Key(format!("no key for {} is saved here", page.url())));
    }
    forget_page(&keys, &page)
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
    read.map_err(|error| ClientError::Failed(format!("can't read {name} ({error})")))?;
    if bytes.len() > MAX_BYTES {
        let size = if bytes.len() as u64 == limit {
            "far too large".to_owned()
        } else {
            format!("{} KB", bytes.len().div_ceil(1024))
        };
        return Err(ClientError::Failed(format!("{name} is {size}; a page holds at most {} KB", MAX_BYTES / 1024)));
    }
    String::from_utf8(bytes).map_err(|_| ClientError::Failed(format!("{name} isn't a text file (UTF-8)")))
}

/// Asks the user. Without a terminal nobody can answer.
fn confirmed(question: &str) -> Result<bool, ClientError> {
    if !io::stdin().is_terminal() {
        return Err(ClientError::Usage("not deleted: no terminal to confirm on. Add --yes".to_owned()));
    }
    eprint!("{question} [y/N] ");
    let mut answer = String::new();
    io::stdin().read_line(&mut answer).map_err(|error| ClientError::Failed(error.to_string()))?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

//! `handbill edit`: a page's Markdown in the user's editor.
//!
//! The text is in a file that only the user can read. If the page cannot be updated, the file stays, so no text is lost.

use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;

use super::api::Api;
use super::args::PageArgs;

use super::error::ClientError;
use super::key_file::private;
use super::keys::with_key;
use handbill_core::domain::slug::Slug;

pub(super) async fn run(PageArgs { page, connection }: PageArgs) -> Result<(), ClientError> {
    let (page, key) = with_key(&page, &connection)?;
    let api = Api::new(connection.wait)?;
    let read = api.read(&page).await?;
    let before = &*read.texts.content;
    let file = write_new(&page.slug, before)?;
    open_editor(&file)?;
    let kept = |error: ClientError| {
        eprintln!("handbill: your text is kept in {}", file.display());
        error
    };
    let after = fs::read_to_string(&file)
        .map_err(|error| kept(ClientError::Failed(format!("could not read {} ({error})", file.display()))))?;
    if after == before {
        eprintln!("handbill: nothing was changed");
    } else {
        api.update(&page, &key, &json!({"content": after}), read.tag).await.map_err(|error| match error {
            ClientError::Changed(_) => kept(ClientError::Changed(
                "somebody else changed the page meanwhile, so nothing was changed: edit the page again and copy your text into it"
                    .to_owned(),
            )),
            error => kept(error),
        })?;
        println!("{}", page.url());
    }
    fs::remove_file(&file)
        .map_err(|error| ClientError::Failed(format!("could not remove {} ({error})", file.display())))
}

/// A new file with `text`, with a name that ends like Markdown's.
fn write_new(slug: &Slug, text: &str) -> Result<PathBuf, ClientError> {
    for number in 0..100 {
        let path = std::env::temp_dir().join(format!("handbill-{}-{number}-{slug}.md", std::process::id()));
        match private().create_new(true).write(true).open(&path) {
            Ok(mut file) => {
                return file
                    .write_all(text.as_bytes())
                    .map(|()| path.clone())
                    .map_err(|error| ClientError::Failed(format!("could not write {} ({error})", path.display())));
            }
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(ClientError::Failed(format!("could not create {} ({error})", path.display()))),
        }
    }
    Err(ClientError::Failed(format!("there are too many files of this page in {}", std::env::temp_dir().display())))
}

/// Opens the editor and waits for its end. The variable may hold arguments, so a shell splits it.
fn open_editor(file: &Path) -> Result<(), ClientError> {
    let status = Command::new("sh")
        .args(["-c", "exec $HANDBILL_EDITOR_COMMAND \"$0\""])
        .arg(file)
        .env("HANDBILL_EDITOR_COMMAND", editor()?)
        .status()
        .map_err(|error| ClientError::Failed(format!("could not start the editor ({error})")))?;
    if status.success() {
        return Ok(());
    }
    eprintln!("handbill: your text is kept in {}", file.display());
    Err(ClientError::Failed(format!("the editor ended with {status}, so nothing was changed")))
}

fn editor() -> Result<OsString, ClientError> {
    #[expect(clippy::disallowed_methods, reason = "the user's editor is no setting of ours")]
    let variable = |name| std::env::var_os(name).filter(|value: &OsString| !value.is_empty());
    ["VISUAL", "EDITOR"]
        .into_iter()
        .find_map(variable)
        .ok_or_else(|| ClientError::Usage("set VISUAL or EDITOR to your editor, for example EDITOR=nano".to_owned()))
}

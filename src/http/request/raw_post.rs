//! The bodies of `POST /`: a multipart form, or Markdown itself (contract, decision 19).
//!
//! URL-encoded forms are refused: `curl -d @file` sends one, without the file's line breaks.

use axum::body::Body as HttpBody;
use axum::extract::{FromRequest, Multipart};
use http::{HeaderMap, Request, header::CONTENT_TYPE};
use percent_encoding::percent_decode_str;
use url::form_urlencoded;

use super::body::RequestBody;
use handbill_pages::service::{Body, BodyError, BodyReadError, PageFields};
use handbill_pages::values::details::{DetailsInput, Patch};
use handbill_pages::values::{edit_key::EditKey, origin::Origin};

/// The dot counts.
const MAX_EXTENSION_CHARS: usize = 9;

/// A post whose fields are not checked yet.
#[derive(Clone, Debug, Default)]
pub struct RawPost {
    /// The file's name has no folder and extension; empty without a file.
    pub fields: PageFields,
    /// Only shown, not published.
    pub is_preview: bool,
}

/// `origin` is for commands in messages. Only a script may send a key: others have no generator.
pub async fn read(
    headers: &HeaderMap,
    query: Option<&str>,
    body: RequestBody,
    origin: &Origin,
    is_script: bool,
) -> Body<RawPost> {
    let declared_type = body.media_type().to_owned();
    let bytes = match body.bytes(is_taken).await {
        Err(BodyReadError::ContentType) => return Err(malformed(other_type(&declared_type, origin))),
        read => read?,
    };
    let (title, is_preview) = in_query(query.unwrap_or_default())?;
    let mut post = if declared_type == "multipart/form-data" {
        form(headers, bytes, is_script).await?
    } else {
        let content = Patch::Set(text(bytes, "The text")?.into());
        let fields = PageFields { content, file_name: Some(String::new()), ..PageFields::default() };
        RawPost { fields, is_preview: false }
    };
    if post.fields.details.title.as_set().is_none_or(|title| title.trim().is_empty()) {
        post.fields.details.title = title.into();
    }
    post.is_preview |= is_preview;
    Ok(post)
}

fn is_taken(media_type: &str) -> bool {
    ["multipart/form-data", "text/markdown", "text/plain"].contains(&media_type)
}

fn unreadable() -> BodyError {
    malformed(
        "The form cannot be read. Send it as `multipart/form-data`, with a boundary that ends each part, for example with `curl -F content=@note.md`.",
    )
}

fn malformed(message: impl Into<String>) -> BodyError {
    BodyError::Malformed(message.into())
}

/// Why a body of this type is refused, with a command that works.
fn other_type(media_type: &str, origin: &Origin) -> String {
    let works = format!(
        "Send a file with `curl --data-binary @note.md -H 'Content-Type: text/markdown' {origin}/` or `curl -F content=@note.md {origin}/`."
    );
    match media_type {
        "application/x-www-form-urlencoded" => format!(
            "The body is declared as a URL-encoded form, in which `curl -d` drops every line break. Nothing was published. {works}"
        ),
        "application/json" => format!("JSON goes to `POST {origin}/api/pages`. {works}"),
        _ => format!(
            "The body is declared as neither `multipart/form-data`, `text/markdown` nor `text/plain`, so it was not read. {works}"
        ),
    }
}

/// Refuses unknown, repeated or broken parameters, which would lose a title.
fn in_query(query: &str) -> Body<(Option<String>, bool)> {
    if percent_decode_str(query).decode_utf8().is_err() {
        return Err(malformed("The address is not UTF-8. Encode its parameters in UTF-8, then percent-encode them."));
    }
    let (mut title, mut action) = (None, None);
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
        let (parameter, name) = match name.as_ref() {
            "title" => (&mut title, "title"),
            "action" => (&mut action, "action"),
            _ => {
                return Err(malformed(
                    "The address has a parameter that is not known. Send `title` and `action` only; check the spelling.",
                ));
            }
        };
        if parameter.replace(value.into_owned()).is_some() {
            return Err(malformed(format!("The parameter `{name}` is there twice. Send it once.")));
        }
    }
    Ok((title, is_preview(&action.unwrap_or_default())?))
}

fn is_preview(action: &str) -> Body<bool> {
    match action {
        "" | "publish" => Ok(false),
        "preview" => Ok(true),
        _ => Err(malformed("The field `action` is not known. Send `publish` or `preview`.")),
    }
}

async fn form(headers: &HeaderMap, bytes: Vec<u8>, is_script: bool) -> Body<RawPost> {
    let mut request = Request::new(HttpBody::from(bytes));
    let content_type = headers.get(CONTENT_TYPE).cloned();
    request.headers_mut().extend(content_type.map(|value| (CONTENT_TYPE, value)));
    let mut parts = Multipart::from_request(request, &()).await.map_err(|_| unreadable())?;
    let (mut title, mut content, mut action, mut edit_key) = (None, None, None, None);
    let mut file_name = String::new();
    while let Some(part) = parts.next_field().await.map_err(|_| unreadable())? {
        let (field, name) = match part.name() {
            Some("title") => (&mut title, "title"),
            // Other services call it so.
            Some("content" | "file") => {
                file_name = part.file_name().map(stem).unwrap_or_default();
                (&mut content, "content")
            }
            Some("action") => (&mut action, "action"),
            Some("edit_key") if is_script => (&mut edit_key, "edit_key"),
            // The name may be a key, so it is not repeated.
            _ => {
                return Err(malformed(
                    "Unknown field in the form. Allowed: `title`, `content` (or `file`) and `action`.",
                ));
            }
        };
        let bytes = part.bytes().await.map_err(|_| unreadable())?;
        if field.replace(text(bytes.into(), &format!("The field `{name}`"))?).is_some() {
            return Err(malformed(format!("The field `{name}` is there twice. Send it once.")));
        }
    }
    let Some(content) = content else {
        return Err(malformed("The field `content` is missing. Send the text, or a file, as `content`."));
    };
    let fields = PageFields {
        details: DetailsInput { title: title.into() },
        // Browsers send every line break as CR LF.
        content: Patch::Set(content.replace("\r\n", "\n").into()),
        edit_key: edit_key.map(|key| EditKey::parse_new(&key)),
        file_name: Some(file_name),
        ..PageFields::default()
    };
    Ok(RawPost { fields, is_preview: is_preview(&action.unwrap_or_default())? })
}

fn text(bytes: Vec<u8>, what: &str) -> Body<String> {
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        malformed(format!("{what} is not UTF-8, at byte {at}. Save it as UTF-8 and send it again."))
    })
}

fn stem(path: &str) -> String {
    let name = path.rsplit(['/', '\\']).next().unwrap_or_default();
    let name = match name.rfind('.') {
        Some(dot) if dot > 0 && name[dot..].chars().count() <= MAX_EXTENSION_CHARS => &name[..dot],
        _ => name,
    };
    // Programs call standard input `-`.
    if name == "-" { String::new() } else { name.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_s_name_is_a_title_without_folder_and_extension() {
        for (path, name) in [
            ("note.md", "note"),
            ("/home/a/My notes.markdown", "My notes"),
            (r"C:\notes\a.b.txt", "a.b"),
            (".profile", ".profile"),
            ("A sentence. And another", "A sentence. And another"),
            ("-", ""),
            ("", ""),
            ("é", "é"),
        ] {
            assert_eq!(stem(path), name, "{path}");
        }
    }
}

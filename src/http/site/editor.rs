//! The editor: the home page, the page that edits a page, and the help. Only editing needs script, because a form
//! cannot send the key in a header.
//!
//! Scripts are files of this service. Their address has a hash of them all, so that versions do not mix; a replica of
//! another version answers with its own.

use std::sync::{Arc, LazyLock};

use askama::Template;
use axum::extract::{Path, State};
use axum::{extract::rejection::PathRejection, response::Response};
use http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, LINK};
use http::{HeaderName, HeaderValue};

use super::HTML_TYPE;
use super::assets::{FILES, VERSION};
use super::templates::{self, EDITOR_POLICY, Layout, PAGE_POLICY, PageTemplate, quota_sentence};
use crate::http::extract::{Asked, SlugParam};
use crate::http::{
    document::Document, error_response::unless_uri_holds_key, etag::REVALIDATE, metadata, state::AppState,
};
use handbill_pages::service::Created;
use handbill_pages::values::{content, details::DetailsInput, quota::Quota, slug::Slug, title};

/// The address has the hash of the content.
const CACHE_FOR_EVER: HeaderValue = HeaderValue::from_static("public, max-age=31536000, immutable");

/// The opener could otherwise lead a tab with keys elsewhere.
pub(super) const CROSS_ORIGIN_OPENER_POLICY: HeaderName = HeaderName::from_static("cross-origin-opener-policy");

pub(super) const SAME_ORIGIN: HeaderValue = HeaderValue::from_static("same-origin");

pub(super) const KEY_WARNING: &str =
    "Your text contains what looks like an edit key. Anyone who reads it could change or delete that page.";

#[derive(Clone, Debug, Template)]
#[template(path = "editor.html")]
pub(super) struct EditorTemplate<'a> {
    pub(super) layout: Layout<'a>,
    /// The answer to a post has no address of its own.
    pub(super) is_answer: bool,
    pub(super) details: DetailsInput,
    pub(super) content: &'a str,
    /// Why the text was refused, or a warning beside the preview.
    pub(super) message: Option<&'a str>,
    pub(super) preview: Option<PreviewView<'a>>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct PreviewView<'a> {
    pub(super) title: Option<&'a str>,
    pub(super) article: &'a str,
}

#[derive(Clone, Copy, Template)]
#[template(path = "published.html")]
pub(super) struct PublishedTemplate<'a> {
    pub(super) layout: Layout<'a>,
    pub(super) url: &'a str,
    pub(super) created: &'a Created,
}

#[derive(Clone, Copy, Debug, Template)]
#[template(path = "edit.html")]
struct EditTemplate<'a> {
    layout: Layout<'a>,
    slug: &'a Slug,
}

#[derive(Clone, Copy, Debug, Template)]
#[template(path = "pages.html")]
struct PagesTemplate<'a> {
    layout: Layout<'a>,
}

#[derive(Clone, Copy, Debug, Template)]
#[template(path = "help.html")]
struct HelpTemplate<'a> {
    layout: Layout<'a>,
    create_quota: Option<Quota>,
}

impl<'a> EditorTemplate<'a> {
    pub(super) fn new(layout: Layout<'a>) -> Self {
        Self { layout, is_answer: false, details: DetailsInput::default(), content: "", message: None, preview: None }
    }
}

pub(super) fn home(app: &AppState) -> Document {
    with_scripts(&EditorTemplate::new(Layout::of(app)))
}

pub(super) fn home_links(app: &AppState) -> HeaderValue {
    links(app, &format!(r#"</help>; rel="help", <{}>; rel="api-catalog""#, metadata::path::API_CATALOG))
}

/// `GET /pages`, the same for everyone: the keys are in the browser.
pub(in crate::http) fn pages(app: &AppState) -> Document {
    with_scripts(&PagesTemplate { layout: Layout::of(app) })
}

pub(in crate::http) fn help(app: &AppState) -> Document {
    let template = HelpTemplate { layout: Layout::of(app), create_quota: app.service.quotas().create };
    document(&template, PAGE_POLICY.clone()).with(LINK, links(app, r#"</>; rel="index""#))
}

/// `GET /<slug>/edit`, the same for every slug. Its script takes a key from the fragment, which is not sent.
pub(in crate::http) async fn edit(
    State(app): State<Arc<AppState>>,
    SlugParam(slug): SlugParam,
    asked: Asked,
) -> Response {
    let Ok(slug) = Slug::parse(&slug) else { return super::not_found_response(&app, &asked) };
    let page = with_scripts(&EditTemplate { layout: Layout::of(&app), slug: &slug }).with(CACHE_CONTROL, REVALIDATE);
    unless_uri_holds_key(&asked.uri, &app, page.uncompressed().respond_to(&asked.headers))
}

pub(in crate::http) async fn file(
    State(app): State<Arc<AppState>>,
    path: Result<Path<(String, String)>, PathRejection>,
    asked: Asked,
) -> Response {
    let (version, name) = path.map(|Path(path)| path).unwrap_or_default();
    match file_response(&version, &name) {
        Some(file) => file.respond_to(&asked.headers),
        None => super::not_found_response(&app, &asked),
    }
}

fn file_response(version: &str, name: &str) -> Option<&'static Document> {
    /// For its own version, and for any other.
    static RESPONSES: LazyLock<Vec<[Document; 2]>> = LazyLock::new(|| {
        let files = FILES.iter().map(|(_, content_type, bytes)| Document::new(content_type, *bytes));
        // No cache may keep a file under another version.
        files
            .map(|file| [CACHE_FOR_EVER, REVALIDATE].map(|caching| file.clone().with(CACHE_CONTROL, caching)))
            .collect()
    });
    let place = FILES.iter().position(|(known, ..)| *known == name)?;
    Some(&RESPONSES[place][usize::from(version != *VERSION)])
}

fn with_scripts(template: &impl Template) -> Document {
    document(template, EDITOR_POLICY.clone()).with(CROSS_ORIGIN_OPENER_POLICY, SAME_ORIGIN)
}

fn document(template: &impl Template, policy: HeaderValue) -> Document {
    Document::new(HTML_TYPE, templates::html(template, 0)).with(CONTENT_SECURITY_POLICY, policy)
}

fn links(app: &AppState, others: &str) -> HeaderValue {
    let (base_url, docs) = (&app.base_url, metadata::path::LLMS);
    HeaderValue::try_from(format!(r#"<{base_url}{docs}>; rel="service-doc"; type="text/plain", {others}"#))
        .expect("an origin is ASCII")
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::super::assets::SCRIPT;
    use super::*;
    use crate::http::error::{ApiError, Interface};
    use handbill_pages::service::{BodyError, ServiceError};
    use handbill_pages::values::details::FieldError;
    use handbill_pages::values::origin::Origin;
    use handbill_pages::values::title::{Title, TitleError};

    /// Most bytes of the editor's scripts and style together, compressed as for a browser.
    const MAX_COMPRESSED: usize = 40 * 1024;

    fn text(name: &str) -> &'static str {
        std::str::from_utf8(FILES.iter().find(|(known, ..)| *known == name).unwrap().2).unwrap()
    }

    fn compressed(bytes: &[u8]) -> usize {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::new(6));
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap().len()
    }

    #[test]
    fn the_editors_scripts_and_styles_are_at_most_40_kb() {
        let sizes: Vec<_> = FILES.iter().map(|(name, _, bytes)| (*name, compressed(bytes))).collect();
        let all: usize = sizes.iter().map(|(_, size)| size).sum();
        assert!((3000..=MAX_COMPRESSED).contains(&all), "{all}: {sizes:?}");
    }

    #[test]
    fn both_pages_of_the_editor_give_its_script_the_limits_in_force() {
        let base_url = Origin::parse("https://pages.example").unwrap();
        let slug = Slug::parse("hello-2222bbbb").unwrap();
        let edit = EditTemplate { layout: Layout::new(&base_url, &[]), slug: &slug };
        for html in [templates::html(&EditorTemplate::new(Layout::new(&base_url, &[])), 0), templates::html(&edit, 0)] {
            let (bytes, chars) = (content::MAX_BYTES, title::MAX_CHARS);
            assert!(html.contains(&format!(r#" data-max-bytes="{bytes}" data-max-chars="{chars}""#)), "{html}");
        }
        for html in [templates::html(&EditorTemplate::new(Layout::new(&base_url, &[])), 0), templates::html(&edit, 0)] {
            assert!(html.contains(&format!(r#"id="status" class="said" data-key-warning="{KEY_WARNING}""#)));
        }
        let script = text("sheet.js");
        assert!(script.contains("$('status').dataset.keyWarning"));
        assert!(script.contains("dataset.maxBytes") && script.contains("dataset.maxChars"));
    }

    #[test]
    fn the_script_knows_the_messages_that_it_puts_in_other_words() {
        fn title(text: &str) -> TitleError {
            Title::parse(text).unwrap_err()
        }

        let errors = [
            BodyError::NoTitle.into(),
            BodyError::FoundTitle(title("\u{202e}")).into(),
            BodyError::Field(FieldError::title(title("\u{202e}"))).into(),
            ServiceError::ContentRefused,
        ];
        let (_, table) = text("ui.js").split_once("const OF_FIELDS = [").unwrap();
        let (table, _) = table.split_once("\n];").unwrap();
        let beginnings: Vec<_> = table.split("    ['").skip(1).map(|row| row.split('\'').next().unwrap()).collect();
        assert_eq!(beginnings.len(), errors.len(), "{beginnings:?}");
        for (beginning, error) in beginnings.iter().zip(&errors) {
            let message = ApiError::of(error, Interface::Api).message;
            assert!(message.starts_with(beginning), "change {beginning:?} in ui.js to the beginning of {message:?}");
        }
    }

    #[test]
    fn a_module_imports_only_files_that_are_served_beside_it() {
        let mut imports = 0;
        for (name, content_type, _) in FILES.iter().filter(|(_, content_type, _)| *content_type == SCRIPT) {
            for line in text(name).lines().filter(|line| line.starts_with("import ")) {
                let from = line.split("'./").nth(1).and_then(|rest| rest.split('\'').next()).unwrap();
                assert!(FILES.iter().any(|(file, kind, _)| *file == from && kind == content_type), "{name}: {from}");
                imports += 1;
            }
        }
        assert!(imports > 4, "{imports}");
    }

    #[test]
    fn one_place_alone_writes_html() {
        let mut writers = Vec::new();
        for (name, ..) in FILES {
            for sink in [
                "innerHTML",
                "outerHTML",
                "insertAdjacentHTML",
                "createContextualFragment",
                "document.write",
                "eval(",
                "srcdoc",
            ] {
                writers.extend(text(name).matches(sink).map(|sink| (name, sink)));
            }
        }
        assert_eq!(writers, [("preview.js", "innerHTML")]);
    }

    #[test]
    fn the_editors_style_loads_nothing_and_names_no_side() {
        let style = text("editor.css");
        for refused in ["url(", "@import", "@font-face", "left:", "right:", "-left", "-right"] {
            assert!(!style.contains(refused), "{refused}");
        }
    }

    #[test]
    fn the_help_shows_the_real_address_and_the_limits_in_force() {
        let base_url = Origin::parse("https://pages.example").unwrap();
        let help =
            |create_quota| templates::html(&HelpTemplate { layout: Layout::new(&base_url, &[]), create_quota }, 0);
        let ten = Quota { limit: 10, window: std::time::Duration::from_hours(1) };
        for expected in [
            "curl --data-binary @note.md -H 'Content-Type: text/markdown' https://pages.example/",
            "curl https://pages.example/api/pages \\",
            "curl https://pages.example/hello-7k2m9qxz.md",
            "curl -X PATCH https://pages.example/api/pages/",
            "curl -X DELETE https://pages.example/api/pages/",
            "href=\"https://pages.example/openapi.json\"",
            "up to 100 KB of text",
            "10 new pages per hour",
        ] {
            assert!(help(Some(ten)).contains(expected), "{expected}");
        }
        assert!(!help(None).contains("new page"));
        let other = Quota { limit: 1, window: std::time::Duration::from_secs(90) };
        assert!(help(Some(other)).contains("1 new page within 1m 30s."));
    }

    #[test]
    fn a_text_stays_text_in_the_form_and_keeps_its_first_line_break() {
        let base_url = Origin::parse("https://pages.example").unwrap();
        let hostile = "\n</textarea><script>alert(1)</script>\"";
        let editor = EditorTemplate {
            content: hostile,
            message: Some(hostile),
            ..EditorTemplate::new(Layout::new(&base_url, &[]))
        };
        let html = templates::html(&editor, 0);
        assert!(!html.contains("<script>") && html.contains("\n\n&#60;/textarea&#62;"), "{html}");
    }
}

//! `POST /`: the home page's form, and Markdown from a shell (contract, decision 19).
//!
//! It does what `POST /api/pages` does, and answers browsers with a page, others with three lines of text, or JSON
//! if asked. OpenAPI leaves it out.

use std::sync::Arc;

use axum::response::{IntoResponse, Response};
use axum::{Json, extract::State};
use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, HOST, LOCATION, ORIGIN, RETRY_AFTER, VARY,
};
use http::{HeaderMap, HeaderValue, Method, StatusCode, Uri};
use serde::Serialize;

use super::editor::{self, EditorTemplate, KEY_WARNING, PreviewView, PublishedTemplate};
use super::templates::{self, EDITOR_POLICY, Layout};
use super::{HTML, PLAIN_TEXT, article::article};
use crate::http::answer::{json_tag, with_limit};
use crate::http::error::{self, ApiError, Code, Interface};
use crate::http::types::{CreatedBody, page_url};
use crate::http::{
    error_response::uri_holds_key, etag::NO_STORE, extract::ClientAddr, negotiation::weight,
    request::body::RequestBody, request::raw_post, state::AppState,
};
use crate::telemetry::http::RoutePart;
use handbill_pages::service::{BodyError, Created, Limited, PageFields, Preview, ServiceError};
use handbill_pages::values::{details::FieldError, edit_key::holds_any_key, title::Title};

/// Whose page made a browser send a request.
const SEC_FETCH_SITE: &str = "sec-fetch-site";

/// Only creates count for the objective of writes.
const PREVIEWS: RoutePart = RoutePart("preview");

/// `POST /`.
pub(in crate::http) async fn post(
    State(app): State<Arc<AppState>>,
    ClientAddr(client): ClientAddr,
    uri: Uri,
    headers: HeaderMap,
    body: RequestBody,
) -> Response {
    let form = Post { app: &app, form: preferred_form(&headers) };
    let mut response = if is_cross_origin(&headers, app.base_url.as_str()) {
        ApiError::cross_origin().into_response()
    } else if uri_holds_key(&uri) {
        app.key_in_uri(&Method::POST)
    } else {
        let is_script = form.form == AnswerForm::Json;
        let read = raw_post::read(&headers, uri.query(), body, &app.base_url, is_script).await;
        let is_preview = read.as_ref().is_ok_and(|post| post.is_preview);
        let fields = read.map(|post| post.fields);
        // With an error, the text goes back to the browser.
        let sent = fields.as_ref().ok().filter(|_| form.form == AnswerForm::Html).cloned().unwrap_or_default();
        if is_preview {
            let attempt = app.service.preview(client, fields).await;
            let mut response = form.answer(attempt, &sent, |preview| form.preview(&preview, &sent));
            response.extensions_mut().insert(PREVIEWS);
            response
        } else {
            let attempt = app.service.create(client, fields).await;
            form.answer(attempt, &sent, |created| form.published(&created))
        }
    };
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, NO_STORE);
    headers.insert(VARY, HeaderValue::from_static("Accept"));
    response
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AnswerForm {
    Html,
    Json,
    Text,
}

/// A wildcard names nothing, so plain `curl` gets text.
fn preferred_form(headers: &HeaderMap) -> AnswerForm {
    if super::prefers_html_errors(headers) {
        AnswerForm::Html
    } else if weight(headers, "application/json").is_some_and(|weight| weight > 0.0) {
        AnswerForm::Json
    } else {
        AnswerForm::Text
    }
}

/// Browsers send `Sec-Fetch-Site` only to `https` and this machine; without it, `Origin` counts. A client without both
/// is not a browser.
fn is_cross_origin(headers: &HeaderMap, base_url: &str) -> bool {
    // Each value of a repeated header must be ours.
    if headers.contains_key(SEC_FETCH_SITE) {
        return !headers.get_all(SEC_FETCH_SITE).iter().all(|site| site == "same-origin" || site == "none");
    }
    // Behind a proxy, the browser's origin may differ from `--base-url`.
    let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    !headers.get_all(ORIGIN).iter().all(|origin| is_ours(origin, base_url, host))
}

fn is_ours(origin: &HeaderValue, base_url: &str, host: &str) -> bool {
    let Ok(origin) = origin.to_str() else { return false };
    origin == base_url || origin.split_once("://").is_some_and(|(_, authority)| authority.eq_ignore_ascii_case(host))
}

struct Post<'a> {
    app: &'a AppState,
    form: AnswerForm,
}

#[derive(Serialize)]
struct PreviewBody<'a> {
    title: Option<&'a str>,
    article_html: &'a str,
}

impl Post<'_> {
    /// A browser's error page is the form with `sent` in it.
    fn answer<T>(&self, attempt: Limited<T>, sent: &PageFields, success: impl FnOnce(T) -> Response) -> Response {
        let response = match attempt.outcome {
            Ok(value) => success(value),
            Err(error) if self.form == AnswerForm::Html => self.refused(&error, sent),
            Err(error) => self.app.failed(&error),
        };
        with_limit(attempt.quota, response)
    }

    fn published(&self, created: &Created) -> Response {
        let AppState { base_url, .. } = self.app;
        let url = page_url(&created.page.head.slug, base_url);
        let location = HeaderValue::try_from(&url).expect("an origin and a slug are ASCII");
        let fields = [(LOCATION, location), (ETAG, json_tag(&created.page.head, self.app))];
        let body = match self.form {
            AnswerForm::Html => html(&PublishedTemplate { layout: Layout::of(self.app), url: &url, created }, 0),
            AnswerForm::Json => Json(CreatedBody::new(created, base_url)).into_response(),
            AnswerForm::Text => {
                let key = created.edit_key.reveal();
                text(format!("{url}\nEdit key (shown this once): {key}\nEdit link (secret): {url}/edit#{key}\n"))
            }
        };
        (StatusCode::CREATED, fields, body).into_response()
    }

    fn preview(&self, preview: &Preview, sent: &PageFields) -> Response {
        let title = preview.title.as_ref().map(Title::as_str);
        let article = article(&preview.rendered.html, &preview.rendered.code_blocks, title);
        match self.form {
            AnswerForm::Html => {
                let (view, editor) = (PreviewView { title, article: &article }, self.editor(sent));
                let size = article.len() + 2 * editor.content.len();
                let holds_key = editor.details.texts().chain([editor.content]).any(holds_any_key);
                let message = holds_key.then_some(KEY_WARNING);
                html(&EditorTemplate { preview: Some(view), message, ..editor }, size)
            }
            AnswerForm::Json => Json(PreviewBody { title, article_html: &article }).into_response(),
            AnswerForm::Text => text(article.into_owned()),
        }
    }

    fn refused(&self, error: &ServiceError, sent: &PageFields) -> Response {
        error::log(error);
        let (problem, editor) = (ApiError::of(error, Interface::Api), self.editor(sent));
        // An unreadable body leaves nothing to give back.
        let is_lost = editor.content.is_empty() && problem.code != Code::EmptyContent;
        let message = match words_for_people(error) {
            Some(words) => format!("{words} Nothing was published."),
            None => for_people(&problem, is_lost),
        };
        let page = html(&EditorTemplate { message: Some(&message), ..editor }, 2 * editor.content.len());
        let status = StatusCode::from_u16(problem.code.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = (status, page).into_response();
        response.headers_mut().extend(problem.retry_after.map(|seconds| (RETRY_AFTER, seconds.into())));
        response
    }

    fn editor<'a>(&'a self, sent: &'a PageFields) -> EditorTemplate<'a> {
        EditorTemplate {
            details: sent.details.clone(),
            content: sent.content.as_set().map_or("", |content| content),
            is_answer: true,
            ..EditorTemplate::new(Layout::of(self.app))
        }
    }
}

/// What a person can correct. The API's words are for programs too.
fn words_for_people(error: &ServiceError) -> Option<&'static str> {
    Some(match error {
        ServiceError::Body(BodyError::NoTitle) => {
            "The page has no title. Write one above the text, or begin the text with a heading such as # My page."
        }
        ServiceError::Body(BodyError::FoundTitle(_)) => {
            "The heading of the text can’t be the page’s title. Write a title above the text."
        }
        ServiceError::Body(BodyError::Field(FieldError { field: "title", .. })) => {
            "The title is too long, or has a character in it that can’t be shown. Clear it, and type it again."
        }
        ServiceError::ContentRefused => {
            "The people who run this site don’t publish this text, or a link in it. Remove it, or ask them."
        }
        _ => return None,
    })
}

fn for_people(problem: &ApiError, is_lost: bool) -> String {
    let message = match (problem.code, problem.retry_after) {
        (Code::RateLimited, Some(seconds)) => {
            let minutes = seconds.div_ceil(60);
            let time = if minutes == 1 { "a minute".to_owned() } else { format!("{minutes} minutes") };
            format!("Too many new pages from your network. Nothing was published; try again in {time}.")
        }
        _ => problem.message.replace('`', ""),
    };
    if is_lost {
        format!("{message} The text was not read, so it is not shown below: go back in your browser to find it.")
    } else {
        message
    }
}

/// `bytes` is about how large its values are.
fn html<T: askama::Template>(template: &T, bytes: usize) -> Response {
    let fields = [
        (CONTENT_TYPE, HTML),
        (CONTENT_SECURITY_POLICY, EDITOR_POLICY.clone()),
        (editor::CROSS_ORIGIN_OPENER_POLICY, editor::SAME_ORIGIN),
    ];
    (fields, templates::html(template, bytes)).into_response()
}

fn text(body: String) -> Response {
    ([(CONTENT_TYPE, HeaderValue::from_static(PLAIN_TEXT))], body).into_response()
}

//! The HTML pages without script, one struct for each file in `templates/`.
//!
//! askama escapes all values but the sanitised `content_html`, its first image's address, and the frame with our style sheet.
//! `PAGE_POLICY` forbids all scripts.
//!
//! The style sheet is embedded: a saved page keeps it, an old replica could not send a new file in a rolling update, and
//! most readers open one page. The page cache keeps it once (`kept_body`).

use std::{borrow::Cow, sync::LazyLock};

use askama::Template;
use base64::{Engine, prelude::BASE64_STANDARD};
use http::HeaderValue;
use sha2::{Digest, Sha256};
use time::{OffsetDateTime, format_description::StaticFormatDescription, macros::format_description};

use super::article::{NamedLink, article, first_image, named_links, without_heading};
use super::assets::{FAVICON, FRAME, STYLE, VERSION};
use crate::http::{error::quota_in_words, etag::short_hash, state::AppState};
use crate::settings::SiteLink;
use handbill_pages::ports::rate_limiter::LimitKind;
use handbill_pages::values::details::{Details, UnknownMembers};
use handbill_pages::values::language::{Language, UNDETERMINED};
use handbill_pages::values::plain_text::{collapsed, shorten, without_title};
use handbill_pages::values::{origin::Origin, quota::Quota, timestamp::UnixMillis, title::Title};

pub(super) static PAGE_POLICY: LazyLock<HeaderValue> = LazyLock::new(|| policy("", "form-action 'none'"));

/// For the editor's scripts, which one Trusted Types policy lets write the preview's HTML.
pub(super) static EDITOR_POLICY: LazyLock<HeaderValue> = LazyLock::new(|| {
    policy(
        "'self' ",
        "form-action 'self'; script-src 'self'; connect-src 'self'; require-trusted-types-for 'script'; trusted-types preview",
    )
});

/// Allows the embedded style sheet, our icon, and images over `https`.
fn policy(styles: &str, others: &str) -> HeaderValue {
    let style = BASE64_STANDARD.encode(Sha256::digest(STYLE.as_bytes()));
    let policy = format!(
        "default-src 'none'; style-src {styles}'sha256-{style}'; img-src 'self' https:; base-uri 'none'; \
         frame-ancestors 'none'; {others}"
    );
    HeaderValue::try_from(policy).expect("it is ASCII")
}

/// Unicode scalar values.
const MAX_NAME_CHARS: usize = 60;

/// In Latin letters: three lines on a phone.
const MAX_LARGE_TITLE: usize = 64;

const UNTITLED: &str = "Untitled page";

#[derive(Clone, Copy, Debug, Template)]
#[template(path = "page.html")]
pub struct PageTemplate<'a> {
    pub layout: Layout<'a>,
    pub url: &'a str,
    pub markdown_url: &'a str,
    /// Without a title, a page is named after its text, and its `h1` says that it is untitled.
    pub details: &'a Details,
    /// Sanitised; shown as `article` returns it.
    pub content_html: &'a str,
    pub code_blocks: &'a [u32],
    pub language: Option<Language>,
    /// Plain text for previews; left out if empty.
    pub description: &'a str,
    pub created_at: UnixMillis,
    /// Equal to `created_at` until the first change.
    pub updated_at: UnixMillis,
    pub noindex: bool,
    pub report_url: Option<&'a str>,
}

#[derive(Clone, Copy, Debug, Template)]
#[template(path = "not_found.html")]
pub struct NotFoundTemplate<'a> {
    pub layout: Layout<'a>,
}

#[derive(Clone, Copy, Debug, Template)]
#[template(path = "gone.html")]
pub struct GoneTemplate<'a> {
    pub layout: Layout<'a>,
}

#[derive(Clone, Copy, Debug)]
pub struct Layout<'a> {
    pub(super) base_url: &'a str,
    pub(super) mcp_base_url: &'a str,
    /// [`FRAME`], or nothing.
    pub(super) frame: &'static str,
    pub(super) version: &'static str,
    pub(super) links: &'a [SiteLink],
}

impl<'a> Layout<'a> {
    pub fn of(app: &'a AppState) -> Self {
        let layout = Self::new(&app.base_url, &app.site.links);
        Self { mcp_base_url: app.site.mcp_origin(&app.base_url).as_str(), ..layout }
    }

    pub(super) fn new(base_url: &'a Origin, links: &'a [SiteLink]) -> Self {
        let base_url = base_url.as_str();
        Self { base_url, mcp_base_url: base_url, frame: &FRAME, version: &VERSION, links }
    }
}

impl PageTemplate<'_> {
    fn lang(&self) -> &'static str {
        self.language.map_or(UNDETERMINED, Language::code)
    }

    /// The title, or how the text begins.
    fn name(&self) -> Cow<'_, str> {
        match (self.details.title(), shorten(self.description, MAX_NAME_CHARS)) {
            (Some(title), _) => title.into(),
            (None, beginning) if beginning.is_empty() => UNTITLED.into(),
            (None, beginning) => beginning.into(),
        }
    }

    /// Without a leading heading that repeats the title.
    fn described(&self) -> Option<&str> {
        let title = self.details.title();
        let repeated = title.filter(|title| without_heading(self.content_html, title).len() < self.content_html.len());
        let rest = repeated.map_or(self.description, |title| without_title(self.description, &collapsed(title)));
        Some(rest).filter(|text| !text.is_empty())
    }

    fn article(&self) -> Cow<'_, str> {
        article(self.content_html, self.code_blocks, self.details.title())
    }

    /// Outside the article, and shown only on paper.
    fn named_links(&self) -> Vec<NamedLink> {
        named_links(self.content_html)
    }

    /// Escaped for HTML.
    fn image(&self) -> Option<&str> {
        first_image(self.content_html)
    }

    /// Of a report by mail, for those who cannot follow the link.
    fn report_address(&self) -> Option<&str> {
        self.report_url?.strip_prefix("mailto:")?.split('?').next()
    }

    pub(super) fn is_long(title: &str) -> bool {
        // Letters of East Asia are about twice as wide as Latin ones.
        title.chars().map(|c| if c < '\u{1100}' { 1 } else { 2 }).sum::<usize>() > MAX_LARGE_TITLE
    }

    fn published(&self) -> String {
        date_of(self.created_at)
    }

    fn updated(&self) -> Option<String> {
        let date = date_of(self.updated_at);
        let words = if date == self.published() { "the same day".to_owned() } else { date };
        (self.updated_at != self.created_at).then_some(words)
    }
}

pub fn html<T: Template>(template: &T, content_bytes: usize) -> String {
    // Most templates have the frame in them.
    let mut html = String::with_capacity(T::SIZE_HINT + FRAME.len() + content_bytes);
    let written = template.render_into(&mut html);
    // A `String` accepts all text and numbers, so this cannot fail.
    debug_assert!(written.is_ok(), "{written:?}");
    html
}

/// A hash of two pages, one with everything that a page may have and one with nothing, for the `ETag` of HTML: no cached copy hides a
/// new layout.
pub fn fingerprint() -> &'static str {
    static FINGERPRINT: LazyLock<String> = LazyLock::new(|| {
        let address = Origin::parse("https://pages.example").expect("it is an origin");
        let untitled = Details::default();
        // Each field is named, so that the compiler asks for a new one.
        let titled = Details { title: Title::parse("A").ok(), unknown: UnknownMembers::new() };
        let bare = PageTemplate {
            layout: Layout::new(&address, &[]),
            url: "https://pages.example/a",
            markdown_url: "https://pages.example/a.md",
            details: &untitled,
            content_html: "<h2>A</h2>\n<h3>B</h3>\n<p><a href=\"#b\">c</a> <a href=\"/b\">c</a> <img src=\"https://d.example/e\" alt=\"f\"></p>\n<pre>g</pre>\n",
            code_blocks: &[],
            language: None,
            description: "A b c",
            created_at: UnixMillis::new(0),
            updated_at: UnixMillis::new(0),
            noindex: false,
            report_url: None,
        };
        let (details, report_url) = (&titled, Some("mailto:a@b.example?subject=c"));
        let full = PageTemplate { details, report_url, noindex: true, updated_at: UnixMillis::new(1), ..bare };
        let pages = [html(&bare, 0), html(&full, 0), FAVICON.to_owned()];
        short_hash(pages.iter().map(String::as_bytes))
    });
    &FINGERPRINT
}

const DATE: StaticFormatDescription = format_description!("[day padding:none] [month repr:long] [year]");

fn date_of(at: UnixMillis) -> String {
    let written =
        OffsetDateTime::from_unix_timestamp(at.get().div_euclid(1000)).ok().and_then(|time| time.format(DATE).ok());
    // The API's form would still be right.
    written.unwrap_or_else(|| at.to_string())
}

pub(super) fn quota_sentence(quota: &Quota) -> String {
    format!("Your network can publish {}.", quota_in_words(LimitKind::Create, *quota))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout() -> Layout<'static> {
        static BASE_URL: LazyLock<Origin> = LazyLock::new(|| Origin::parse("https://pages.example").unwrap());
        Layout::new(&BASE_URL, &[])
    }

    fn titled(title: &str) -> &'static Details {
        Box::leak(Box::new(Details::with_title(Title::parse(title).unwrap())))
    }

    fn page() -> PageTemplate<'static> {
        PageTemplate {
            layout: layout(),
            url: "https://pages.example/a-22222222",
            markdown_url: "https://pages.example/a-22222222.md",
            details: titled("A title"),
            content_html: "<p>Text.</p>\n",
            code_blocks: &[],
            language: None,
            description: "Text.",
            created_at: UnixMillis::new(1_795_235_400_123),
            updated_at: UnixMillis::new(1_795_235_400_123),
            noindex: false,
            report_url: None,
        }
    }

    fn every_view() -> [String; 3] {
        [html(&page(), 0), html(&NotFoundTemplate { layout: layout() }, 0), html(&GoneTemplate { layout: layout() }, 0)]
    }

    #[test]
    fn a_title_and_a_description_are_escaped_wherever_they_stand() {
        let hostile = "</title><script>alert(1)</script>\" onload='x' &amp;";
        let html = super::html(&PageTemplate { details: titled(hostile), description: hostile, ..page() }, 0);
        assert!(!html.contains("<script") && !html.contains("\" onload") && !html.contains("onload='"));
        let escaped = "&#60;/title&#62;&#60;script&#62;alert(1)&#60;/script&#62;&#34; onload=&#39;x&#39; &#38;amp;";
        assert!(html.contains(&format!("<title>{escaped}</title>")));
        assert!(html.contains(&format!("<h1 dir=\"auto\">{escaped}</h1>")));
        assert!(html.contains(&format!("<meta property=\"og:title\" content=\"{escaped}\">")));
        assert!(html.contains(&format!("<meta property=\"og:description\" content=\"{escaped}\">")));
    }

    #[test]
    fn paper_lists_named_links_outside_the_article_and_escaped() {
        let listed = |content_html| {
            let html = super::html(&PageTemplate { content_html, ..page() }, 0);
            let (_, after) = html.split_once("</article>").unwrap();
            after.split_once("<li>").map(|(_, list)| list.split("</li>").next().unwrap().to_owned())
        };
        let hostile = "<p><a href=\"mailto:&quot;&lt;script&gt;\" rel=\"nofollow ugc\">&lt;script&gt; \"</a></p>\n";
        assert_eq!(
            listed(hostile).as_deref(),
            Some("<bdi>&#60;script&#62; &#34;</bdi> <bdi>mailto:&#34;&#60;script&#62;</bdi>")
        );
        let path = "<p><a href=\"/b\" rel=\"nofollow ugc\">c</a></p>\n";
        assert_eq!(listed(path).as_deref(), Some("<bdi>c</bdi> <bdi>https://pages.example/b</bdi>"));
        for none in ["<p><a href=\"#b\" rel=\"nofollow ugc\">c</a></p>\n", "<p>Text.</p>\n"] {
            assert_eq!(listed(none), None);
        }
    }

    #[test]
    fn addresses_are_escaped() {
        let hostile = "https://a.example/\"><b>";
        let layout = Layout { base_url: hostile, ..layout() };
        let html = super::html(&PageTemplate { layout, url: hostile, markdown_url: hostile, ..page() }, 0);
        assert!(!html.contains("<b>"));
    }

    #[test]
    fn content_html_without_code_blocks_is_embedded_byte_for_byte() {
        let content = "<p>A &amp; B &lt;\u{a0}{{ x }} {% y %}\t\r\n  “é”</p>\n<p><code>\n\n a\n</code></p>\n";
        let html = super::html(&PageTemplate { content_html: content, ..page() }, 0);
        assert!(html.contains(&format!("<article dir=\"auto\">\n{content}\n</article>")));
    }

    #[test]
    fn a_page_can_be_reported_where_there_is_a_contact() {
        let foot = |report_url| super::html(&PageTemplate { report_url, ..page() }, 0);
        let by_mail = foot(Some("mailto:a@b.example?subject=\"x"));
        assert!(by_mail.contains(">Report: <a ") && by_mail.contains(">a@b.example</a>"), "{by_mail}");
        assert!(!by_mail.contains("subject=\"x"), "{by_mail}");
        assert!(foot(Some("https://b.example/report?url=x")).contains(">Report this page</a>"));
        assert!(!foot(None).contains("Report"));
    }

    #[test]
    fn noindex_is_said_where_asked_and_of_what_is_not_there() {
        const NOINDEX: &str = "<meta name=\"robots\" content=\"noindex\">";
        assert!(super::html(&PageTemplate { noindex: true, ..page() }, 0).contains(NOINDEX));
        assert_eq!(every_view().map(|html| html.contains(NOINDEX)), [false, true, true]);
    }

    #[test]
    fn a_page_without_a_title_is_named_by_its_text() {
        let text = "It begins with a sentence that is rather longer than a name should be.";
        let html = super::html(&PageTemplate { details: &Details::default(), description: text, ..page() }, 0);
        assert!(html.contains("<title>It begins with a sentence that is rather longer than a name…</title>"));
        assert!(html.contains("\"og:title\" content=\"It begins"));
        assert!(html.contains("<h1 class=\"unseen\" lang=\"en\" dir=\"ltr\">Untitled page</h1>"));

        let html =
            super::html(&PageTemplate { details: &Details::default(), content_html: "", description: "", ..page() }, 0);
        assert!(html.contains("<title>Untitled page</title>"));
        assert!(!html.contains("description"));
    }

    #[test]
    fn a_description_does_not_repeat_the_title() {
        let described = |title, content_html, description| {
            PageTemplate { details: titled(title), content_html, description, ..page() }.described().map(str::to_owned)
        };
        let repeated = described("A title", "<h2>A title</h2>\n<p>Text.</p>\n", "A title · Text.");
        assert_eq!(repeated.as_deref(), Some("Text."));
        assert_eq!(described("Dogs", "<p>Dogs bark.</p>\n", "Dogs bark.").as_deref(), Some("Dogs bark."));
        assert_eq!(described("A title", "<h2>A title</h2>\n", "A title"), None);
    }

    #[test]
    fn a_page_says_where_it_and_its_source_are() {
        let html = super::html(&page(), 0);
        for expected in [
            "<link rel=\"canonical\" href=\"https://pages.example/a-22222222\">",
            "<link rel=\"alternate\" type=\"text/markdown\" href=\"https://pages.example/a-22222222.md\">",
            "<meta property=\"og:url\" content=\"https://pages.example/a-22222222\">",
            "<meta property=\"og:type\" content=\"article\">",
            "<meta property=\"og:site_name\" content=\"Handbill\">",
            "<a href=\"https://pages.example/a-22222222.md\" type=\"text/markdown\">Markdown</a>",
        ] {
            assert!(html.contains(expected), "{expected}");
        }
    }

    #[test]
    fn an_update_is_dated_by_day() {
        const PUBLISHED: &str = "<time datetime=\"2026-11-21T04:30:00.123Z\">21 November 2026</time>";
        let unchanged = super::html(&page(), 0);
        assert!(unchanged.contains(PUBLISHED));
        assert!(!unchanged.contains("updated") && !unchanged.contains("modified_time"));

        let same_day = UnixMillis::new(page().created_at.get() + 3_600_000);
        let html = super::html(&PageTemplate { updated_at: same_day, ..page() }, 0);
        assert!(html.contains("updated <time datetime=\"2026-11-21T05:30:00.123Z\">the same day</time>"));
        assert!(html.contains("<meta property=\"article:modified_time\" content=\"2026-11-21T05:30:00.123Z\">"));

        let later = UnixMillis::new(page().created_at.get() + 48 * 3_600_000);
        let html = super::html(&PageTemplate { updated_at: later, ..page() }, 0);
        assert!(html.contains("updated <time datetime=\"2026-11-23T04:30:00.123Z\">23 November 2026</time>"));
    }

    #[test]
    fn every_time_that_can_be_stored_can_be_shown() {
        for at in [i64::MIN, -1, 0, i64::MAX].map(UnixMillis::new) {
            let html = super::html(&PageTemplate { created_at: at, updated_at: at, ..page() }, 0);
            assert!(html.trim_end().ends_with("</html>"), "{at}");
        }
    }

    #[test]
    fn every_view_has_only_what_the_policy_lets_a_browser_load() {
        for html in every_view() {
            assert!(html.starts_with("<!doctype html>\n<html"));
            assert!(html.contains("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">"));
            assert!(html.contains("<meta name=\"color-scheme\" content=\"light dark\">"));
            assert!(html.contains("<link rel=\"icon\" href=\"/favicon.ico\" type=\"image/svg+xml\">"));
            assert_eq!(html.matches("<h1").count(), 1);
            for refused in ["<script", " style=", "stylesheet", " on", "javascript:", "url(http", "<form", "<base"] {
                let tags = html.split('<').filter_map(|part| part.split_once('>')).map(|(tag, _)| format!("<{tag}>"));
                assert!(!tags.into_iter().any(|tag| tag.contains(refused) && !tag.starts_with("<meta")), "{refused}");
            }
        }
    }

    #[test]
    fn the_style_in_every_view_is_the_one_that_the_policy_allows() {
        for html in every_view() {
            let (_, rest) = html.split_once("<style>").unwrap();
            let (style, rest) = rest.split_once("</style>").unwrap();
            let hash = BASE64_STANDARD.encode(Sha256::digest(style));
            assert!(PAGE_POLICY.to_str().unwrap().contains(&format!("style-src 'sha256-{hash}';")));
            assert!(!rest.contains("<style"));
        }
    }

    #[test]
    fn a_page_names_its_language_and_our_words_are_english() {
        let [page, others @ ..] = every_view();
        assert!(page.contains("<html lang=\"und\">") && page.contains("<footer lang=\"en\""));
        let german = super::html(&PageTemplate { language: Language::from_code("de"), ..self::page() }, 0);
        assert!(german.contains("<html lang=\"de\">"));
        assert!(others.iter().all(|html| html.contains("<html lang=\"en\">")));
    }

    #[test]
    fn the_fingerprint_is_short_and_the_policy_allows_no_script() {
        assert_eq!(fingerprint().len(), 16);
        assert_eq!(fingerprint(), fingerprint());
        let policy = PAGE_POLICY.to_str().unwrap();
        assert!(policy.starts_with("default-src 'none'; "));
        assert!(!policy.contains("script") && !policy.contains("unsafe"));
    }
}

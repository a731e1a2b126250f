//! Pages for people: what is filled into `templates/`. Views turn values into HTML and decide nothing about a request.
//!
//! askama escapes whatever a template writes; the exceptions are `content_html`, which the renderer has sanitised, and our
//! own style sheet. No page needs a script, and [`CONTENT_SECURITY_POLICY`] refuses all of them, and every style but ours.
//!
//! The style sheet is in the page itself: while a new version is rolled out, a page that it made would ask an older replica
//! for a file which only the new ones have. It has 6 KB, and most readers open one page, which they see one request sooner.
//! The icon has one address for ever, so any replica answers with its own.

use std::sync::LazyLock;

use askama::Template;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use sha2::{Digest, Sha256};
use time::OffsetDateTime;
use time::format_description::StaticFormatDescription;
use time::macros::format_description;

use super::article::article;
use super::assets::{self, FAVICON, STYLE};
use crate::api::metadata;
use crate::domain::html_text::visible_text;
use crate::domain::language::{Language, UNDETERMINED};
use crate::domain::quota::Quota;
use crate::domain::timestamp::UnixMillis;
use crate::domain::{content, title};

/// What a browser may do with a page for people: show it, with our style sheet and icon and with `https` images.
pub static CONTENT_SECURITY_POLICY: LazyLock<String> = LazyLock::new(|| {
    let style = BASE64_STANDARD.encode(Sha256::digest(STYLE.bytes));
    format!(
        "default-src 'none'; style-src 'sha256-{style}'; img-src 'self' https:; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
});

/// Longest description, in Unicode scalar values; previews cut at about as many.
const MAX_DESCRIPTION_CHARS: usize = 160;

/// Longest name made from the text of a page without a title, in Unicode scalar values.
const MAX_NAME_CHARS: usize = 60;

/// How much HTML is searched for a description, in bytes: where this much has no text, there is nothing to describe.
const MAX_DESCRIPTION_SOURCE_BYTES: usize = 16 * 1024;

/// What a page without title and text is called.
const UNTITLED: &str = "Untitled page";

/// A published page.
#[derive(Clone, Copy, Debug)]
pub struct PageView<'a> {
    /// The service's own origin, without a trailing slash.
    pub base_url: &'a str,
    /// The page's address.
    pub url: &'a str,
    /// The address of its Markdown source.
    pub markdown_url: &'a str,
    /// Its title; without one it is named by how its text begins, and its `h1` says that it has none.
    pub title: Option<&'a str>,
    /// Sanitised HTML, embedded as `article` makes it.
    pub content_html: &'a str,
    /// The language of the text.
    pub language: Option<Language>,
    /// Plain text for previews, from [`description`]; left out where empty.
    pub description: &'a str,
    /// When it was created.
    pub created_at: UnixMillis,
    /// When it last changed; equal to `created_at` until the first change.
    pub updated_at: UnixMillis,
    /// Whether search engines are asked to leave it out.
    pub noindex: bool,
}

/// The page at `/`: what this is and how it is used.
#[derive(Clone, Copy, Debug)]
pub struct HomeView<'a> {
    /// The service's own origin, without a trailing slash.
    pub base_url: &'a str,
    /// How many pages one client may create; `None` where that is not limited.
    pub create_quota: Option<Quota>,
}

/// The answer for an address that no page ever had.
#[derive(Clone, Copy, Debug)]
pub struct NotFoundView<'a> {
    /// The service's own origin, without a trailing slash.
    pub base_url: &'a str,
}

/// The answer for the address of a deleted page.
#[derive(Clone, Copy, Debug)]
pub struct GoneView<'a> {
    /// The service's own origin, without a trailing slash.
    pub base_url: &'a str,
}

impl PageView<'_> {
    /// The page as HTML.
    pub fn render(&self) -> String {
        let beginning = excerpt(self.description, MAX_NAME_CHARS);
        let from_text = if beginning.is_empty() { UNTITLED } else { &beginning };
        let name = self.title.unwrap_or(from_text);
        let published = Moment { datetime: self.created_at.to_string(), words: in_words(self.created_at, DATE) };
        let updated = (self.updated_at != self.created_at).then(|| {
            let date = in_words(self.updated_at, DATE);
            let words = if date == published.words { in_words(self.updated_at, TIME_OF_DAY) } else { date };
            Moment { datetime: self.updated_at.to_string(), words }
        });
        let article = article(self.content_html, self.title);
        let room = article.len();
        let lang = self.language.map_or(UNDETERMINED, Language::code);
        let frame = Layout::new(self.base_url);
        html(&PageTemplate { frame, page: self, lang, name, nameless: UNTITLED, article, published, updated }, room)
    }
}

impl HomeView<'_> {
    /// The page as HTML.
    pub fn render(&self) -> String {
        let template = HomeTemplate {
            frame: Layout::new(self.base_url),
            max_content: format!("{} KB", content::MAX_BYTES / 1024),
            max_title_chars: title::MAX_CHARS,
            creates: self.create_quota.map(in_a_sentence),
        };
        html(&template, 0)
    }
}

impl NotFoundView<'_> {
    /// The page as HTML.
    pub fn render(&self) -> String {
        html(&NotFoundTemplate { frame: Layout::new(self.base_url) }, 0)
    }
}

impl GoneView<'_> {
    /// The page as HTML.
    pub fn render(&self) -> String {
        html(&GoneTemplate { frame: Layout::new(self.base_url) }, 0)
    }
}

/// How the visible text of sanitised HTML begins, as plain text on one line: at most 160 characters and an ellipsis.
///
/// Takes the same time however long `content_html` is. Empty where the text does not begin within the first 16 KiB.
pub fn description(content_html: &str) -> String {
    let source = beginning(content_html);
    let mut text = visible_text(source);
    if source.len() < content_html.len() && !text.is_empty() {
        text.push('…');
    }
    excerpt(&text, MAX_DESCRIPTION_CHARS)
}

/// Changes whenever a page for people would look different from the same values.
///
/// To be part of the `ETag` of HTML, so that a cached copy does not hide a new layout.
pub fn fingerprint() -> &'static str {
    static FINGERPRINT: LazyLock<String> = LazyLock::new(|| {
        let templates = [
            include_str!("templates/layout.html"),
            include_str!("templates/page.html"),
            include_str!("templates/home.html"),
            include_str!("templates/not_found.html"),
            include_str!("templates/gone.html"),
            // What is written into them is decided here.
            include_str!("templates.rs"),
            include_str!("article.rs"),
        ];
        assets::short_hash(templates.map(str::as_bytes).into_iter().chain([STYLE.bytes, FAVICON.bytes]))
    });
    &FINGERPRINT
}

/// What every page has around it.
struct Layout<'a> {
    base_url: &'a str,
    style: &'static str,
    icon_path: &'static str,
}

impl<'a> Layout<'a> {
    fn new(base_url: &'a str) -> Self {
        let style = std::str::from_utf8(STYLE.bytes).expect("the style sheet is UTF-8");
        Self { base_url, style, icon_path: metadata::path::ICON }
    }
}

/// A time for machines and for people.
struct Moment {
    datetime: String,
    words: String,
}

#[derive(Template)]
#[template(path = "page.html")]
struct PageTemplate<'a> {
    frame: Layout<'a>,
    page: &'a PageView<'a>,
    lang: &'static str,
    name: &'a str,
    nameless: &'static str,
    article: String,
    published: Moment,
    updated: Option<Moment>,
}

#[derive(Template)]
#[template(path = "home.html")]
struct HomeTemplate<'a> {
    frame: Layout<'a>,
    max_content: String,
    max_title_chars: usize,
    creates: Option<String>,
}

#[derive(Template)]
#[template(path = "not_found.html")]
struct NotFoundTemplate<'a> {
    frame: Layout<'a>,
}

#[derive(Template)]
#[template(path = "gone.html")]
struct GoneTemplate<'a> {
    frame: Layout<'a>,
}

/// `template` as HTML, with room made for `content_bytes` of text besides its own.
fn html<T: Template>(template: &T, content_bytes: usize) -> String {
    let mut html = String::with_capacity(T::SIZE_HINT + content_bytes);
    let written = template.render_into(&mut html);
    // Templates are filled with text and numbers, and a `String` takes all of it: no step of this can fail.
    debug_assert!(written.is_ok(), "{written:?}");
    html
}

const DATE: StaticFormatDescription = format_description!("[day padding:none] [month repr:long] [year]");
const TIME_OF_DAY: StaticFormatDescription = format_description!("[hour]:[minute] UTC");

/// `at` in English, in UTC.
fn in_words(at: UnixMillis, format: StaticFormatDescription) -> String {
    let written =
        OffsetDateTime::from_unix_timestamp(at.get().div_euclid(1000)).ok().and_then(|time| time.format(format).ok());
    // No time that `UnixMillis` holds is out of range; the exact form says the same less kindly.
    written.unwrap_or_else(|| at.to_string())
}

/// What `quota` allows, as one sentence.
fn in_a_sentence(quota: Quota) -> String {
    let pages = if quota.limit == 1 { "new page" } else { "new pages" };
    let window = match quota.window.as_secs() {
        60 => "a minute".to_owned(),
        3600 => "an hour".to_owned(),
        86_400 => "a day".to_owned(),
        _ => format!("within {}", humantime::format_duration(quota.window)),
    };
    format!("One network address can publish {} {pages} {window}.", quota.limit)
}

/// The first [`MAX_DESCRIPTION_SOURCE_BYTES`] of `html`, without the half of a character or of a reference at the cut.
fn beginning(html: &str) -> &str {
    let cut = &html[..html.floor_char_boundary(MAX_DESCRIPTION_SOURCE_BYTES)];
    match cut.rfind('&') {
        Some(at) if cut.len() < html.len() && !cut[at..].contains(';') => &cut[..at],
        _ => cut,
    }
}

/// `text`, or its first `max_chars` characters at most, cut after a word where there is one, and an ellipsis.
fn excerpt(text: &str, max_chars: usize) -> String {
    let Some((end, _)) = text.char_indices().nth(max_chars) else { return text.to_owned() };
    let cut = &text[..end];
    let at_word_end = text[end..].starts_with(' ');
    // A text that is written without spaces is cut between characters.
    let last_space = cut.rfind(' ').filter(|&space| space > end / 2 && !at_word_end);
    let kept = &cut[..last_space.unwrap_or(end)];
    format!("{}…", kept.trim_end_matches([' ', ',', ';', ':', '…']))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const BASE: &str = "https://pages.example";

    fn page() -> PageView<'static> {
        PageView {
            base_url: BASE,
            url: "https://pages.example/a-22222222",
            markdown_url: "https://pages.example/a-22222222.md",
            title: Some("A title"),
            content_html: "<p>Text.</p>\n",
            language: None,
            description: "Text.",
            created_at: UnixMillis::new(1_795_235_400_123),
            updated_at: UnixMillis::new(1_795_235_400_123),
            noindex: false,
        }
    }

    fn home() -> HomeView<'static> {
        HomeView { base_url: BASE, create_quota: Some(Quota { limit: 10, window: Duration::from_hours(1) }) }
    }

    fn every_view() -> [String; 4] {
        [
            page().render(),
            home().render(),
            NotFoundView { base_url: BASE }.render(),
            GoneView { base_url: BASE }.render(),
        ]
    }

    #[test]
    fn a_title_and_a_description_are_escaped_wherever_they_stand() {
        let hostile = "</title><script>alert(1)</script>\" onload='x' &amp;";
        let html = PageView { title: Some(hostile), description: hostile, ..page() }.render();
        assert!(!html.contains("<script") && !html.contains("\" onload") && !html.contains("onload='"));
        let escaped = "&#60;/title&#62;&#60;script&#62;alert(1)&#60;/script&#62;&#34; onload=&#39;x&#39; &#38;amp;";
        assert!(html.contains(&format!("<title>{escaped}</title>")));
        assert!(html.contains(&format!("<h1 dir=\"auto\">{escaped}</h1>")));
        assert!(html.contains(&format!("<meta property=\"og:title\" content=\"{escaped}\">")));
        assert!(html.contains(&format!("<meta property=\"og:description\" content=\"{escaped}\">")));
    }

    #[test]
    fn addresses_are_escaped() {
        let hostile = "https://a.example/\"><b>";
        let html = PageView { base_url: hostile, url: hostile, markdown_url: hostile, ..page() }.render();
        assert!(!html.contains("<b>"));
    }

    #[test]
    fn content_html_without_code_blocks_is_embedded_byte_for_byte() {
        let content = "<p>A &amp; B &lt;\u{a0}{{ x }} {% y %}\t\r\n  “é”</p>\n<p><code>\n\n a\n</code></p>\n";
        let html = PageView { content_html: content, ..page() }.render();
        assert!(html.contains(&format!("<article dir=\"auto\">\n{content}\n</article>")));
    }

    #[test]
    fn noindex_is_said_only_where_it_is_asked_for_and_always_of_what_is_not_there() {
        const NOINDEX: &str = "<meta name=\"robots\" content=\"noindex\">";
        assert!(PageView { noindex: true, ..page() }.render().contains(NOINDEX));
        assert_eq!(every_view().map(|html| html.contains(NOINDEX)), [false, false, true, true]);
    }

    #[test]
    fn a_page_without_a_title_is_named_by_its_text_and_has_a_heading_for_those_who_cannot_see_that() {
        let text = "It begins with a sentence that is rather longer than a name should be.";
        let html = PageView { title: None, description: text, ..page() }.render();
        assert!(html.contains("<title>It begins with a sentence that is rather longer than a name…</title>"));
        assert!(html.contains("\"og:title\" content=\"It begins"));
        assert!(html.contains("<h1 class=\"unseen\" lang=\"en\" dir=\"ltr\">Untitled page</h1>"));

        let html = PageView { title: None, content_html: "", description: "", ..page() }.render();
        assert!(html.contains("<title>Untitled page</title>"));
        assert!(!html.contains("description"));
    }

    #[test]
    fn a_page_says_where_it_and_its_source_are() {
        let html = page().render();
        for expected in [
            "<link rel=\"canonical\" href=\"https://pages.example/a-22222222\">",
            "<link rel=\"alternate\" type=\"text/markdown\" href=\"https://pages.example/a-22222222.md\">",
            "<meta property=\"og:url\" content=\"https://pages.example/a-22222222\">",
            "<meta property=\"og:type\" content=\"article\">",
            "<meta property=\"og:site_name\" content=\"Handbill\">",
            "<a href=\"https://pages.example/a-22222222.md\" type=\"text/markdown\">Markdown source</a>",
        ] {
            assert!(html.contains(expected), "{expected}");
        }
    }

    #[test]
    fn an_update_is_dated_by_day_or_on_the_first_day_by_time() {
        const PUBLISHED: &str = "<time datetime=\"2026-11-21T04:30:00.123Z\">21 November 2026</time>";
        let unchanged = page().render();
        assert!(unchanged.contains(PUBLISHED));
        assert!(!unchanged.contains("updated") && !unchanged.contains("modified_time"));

        let same_day = UnixMillis::new(page().created_at.get() + 3_600_000);
        let html = PageView { updated_at: same_day, ..page() }.render();
        assert!(html.contains("updated <time datetime=\"2026-11-21T05:30:00.123Z\">05:30 UTC</time>"));
        assert!(html.contains("<meta property=\"article:modified_time\" content=\"2026-11-21T05:30:00.123Z\">"));

        let later = UnixMillis::new(page().created_at.get() + 48 * 3_600_000);
        let html = PageView { updated_at: later, ..page() }.render();
        assert!(html.contains("updated <time datetime=\"2026-11-23T04:30:00.123Z\">23 November 2026</time>"));
    }

    #[test]
    fn every_time_that_can_be_stored_can_be_shown() {
        for at in [i64::MIN, -1, 0, i64::MAX].map(UnixMillis::new) {
            let html = PageView { created_at: at, updated_at: at, ..page() }.render();
            assert!(html.trim_end().ends_with("</html>"), "{at}");
        }
    }

    #[test]
    fn every_view_has_what_a_browser_needs_and_nothing_that_the_policy_refuses() {
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
            assert!(CONTENT_SECURITY_POLICY.contains(&format!("style-src 'sha256-{hash}';")));
            assert!(!rest.contains("<style"));
        }
    }

    #[test]
    fn a_page_names_its_language_where_it_is_known_and_handbills_own_words_are_english() {
        let [page, others @ ..] = every_view();
        assert!(page.contains("<html lang=\"und\">") && page.contains("<footer lang=\"en\""));
        let german = PageView { language: Language::from_code("de"), ..self::page() }.render();
        assert!(german.contains("<html lang=\"de\">"));
        assert!(others.iter().all(|html| html.contains("<html lang=\"en\">")));
    }

    #[test]
    fn the_home_page_shows_each_call_with_the_real_address_and_the_limits_in_force() {
        let html = home().render();
        for expected in [
            "curl https://pages.example/api/pages \\",
            "curl https://pages.example/hello-7k2m9qxz.md",
            "curl -X PATCH https://pages.example/api/pages/",
            "curl -X DELETE https://pages.example/api/pages/",
            "href=\"https://pages.example/openapi.json\"",
            "up to 100 KB of Markdown",
            "10 new pages an hour",
        ] {
            assert!(html.contains(expected), "{expected}");
        }
        assert!(!HomeView { create_quota: None, ..home() }.render().contains("new page"));
        let other = Quota { limit: 1, window: Duration::from_secs(90) };
        assert!(HomeView { create_quota: Some(other), ..home() }.render().contains("1 new page within 1m 30s."));
    }

    #[test]
    fn a_description_is_the_visible_text_on_one_line() {
        let html = "<h2>One</h2>\n<p>t<em>wo</em> <a href=\"/a>b\" rel=\"nofollow ugc\">three</a>,<br>four\n \
                    <img src=\"https://a.example/x\" alt=\"no\">five</p>\n<hr>";
        assert_eq!(description(html), "One two three, four five");
        assert_eq!(description("<hr>\n<p><img alt=\"a\"></p>"), "");
    }

    #[test]
    fn a_description_decodes_each_reference_once() {
        assert_eq!(description("<p>&lt;b&gt; &amp;lt; &quot;&#39;&#x1F4D3;&nbsp;x</p>"), "<b> &lt; \"'📓 x");
        assert_eq!(description("&unknown; &#xD800; &#0; & &; &"), "&unknown; &#xD800; & &; &");
        assert_eq!(description("<p>é&é;é</p><p open"), "é&é;é");
    }

    #[test]
    fn a_description_ends_after_a_word_within_160_characters() {
        let text = description(&format!("<p>{}</p>", "word ".repeat(100)));
        assert_eq!(text, format!("{}…", "word ".repeat(32).trim_end()));
        let exact = "é".repeat(MAX_DESCRIPTION_CHARS);
        assert_eq!(description(&exact), exact);
        assert_eq!(description(&"字".repeat(500)).chars().count(), MAX_DESCRIPTION_CHARS + 1);
    }

    #[test]
    fn a_description_reads_no_more_than_the_beginning() {
        let late = format!("{}<p>late</p>", "<hr>\n".repeat(MAX_DESCRIPTION_SOURCE_BYTES));
        assert_eq!(description(&late), "");
        let cut_in_a_reference = format!("<p>early{}&amp;amp</p>", " ".repeat(MAX_DESCRIPTION_SOURCE_BYTES - 10));
        assert_eq!(description(&cut_in_a_reference), "early…");
        for shift in 0..4 {
            let cut_in_a_character = format!("{}{}", "a".repeat(shift), "📓".repeat(MAX_DESCRIPTION_SOURCE_BYTES));
            assert_eq!(description(&cut_in_a_character).chars().count(), MAX_DESCRIPTION_CHARS + 1);
        }
    }

    #[test]
    fn the_fingerprint_is_short_and_the_policy_allows_no_script() {
        assert_eq!(fingerprint().len(), 16);
        assert_eq!(fingerprint(), fingerprint());
        assert!(CONTENT_SECURITY_POLICY.starts_with("default-src 'none'; "));
        assert!(!CONTENT_SECURITY_POLICY.contains("script") && !CONTENT_SECURITY_POLICY.contains("unsafe"));
    }

    #[test]
    fn the_fingerprint_covers_every_template() {
        let covered: Vec<&str> = include_str!("templates.rs").split("include_str!(\"templates/").skip(1).collect();
        for template in walkdir::WalkDir::new("src/http/site/templates").into_iter().map(Result::unwrap) {
            if template.file_type().is_file() {
                let name = template.file_name().to_str().unwrap();
                assert!(covered.iter().any(|rest| rest.starts_with(name)), "{name}");
            }
        }
    }

    proptest::proptest! {
        #[test]
        fn a_description_is_bounded_and_on_one_line_whatever_it_is_made_from(
            html in "(\\PC|[<>&;\"#x/ \\n]|&amp;|<p>|</a>){0,400}",
        ) {
            let text = description(&html);
            proptest::prop_assert!(text.chars().count() <= MAX_DESCRIPTION_CHARS + 1);
            proptest::prop_assert!(!text.contains(char::is_control));
            proptest::prop_assert_eq!(text.trim(), &text);
        }
    }
}

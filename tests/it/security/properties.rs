//! Rules that hold for any content, tried on random text and random Markdown.

use handbill_pages::values::markdown::render;
use proptest::prelude::{ProptestConfig, Strategy, any, prop_oneof, proptest};
use proptest::{collection, sample};

use super::html::{assert_only_the_subset, reserialised};
use super::pieces;

fn markdown() -> impl Strategy<Value = String> {
    collection::vec(sample::select(pieces::all()), 0..60).prop_map(|pieces| pieces.concat())
}

/// Nested far deeper than the contract allows, with something in the depths.
fn deep_markdown() -> impl Strategy<Value = String> {
    let marker = sample::select(&["- ", "> ", ">", "1. ", "* ", "*", "**", "_", "~~", "[", "!["][..]);
    (collection::vec((marker, 1..60_usize), 1..6), markdown())
        .prop_map(|(runs, rest)| runs.iter().map(|(marker, count)| marker.repeat(*count)).collect::<String>() + &rest)
}

fn anything() -> impl Strategy<Value = String> {
    prop_oneof![markdown(), deep_markdown(), any::<String>()]
}

proptest! {
    // A case that fails becomes a test with a name, not a file of seeds.
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_content_comes_out_as_only_the_subset(source in anything()) {
        assert_only_the_subset(&render(&source).html, &source);
    }

    #[test]
    fn any_content_comes_out_within_the_bound_of_its_bytes(source in anything(), times in 1..400_usize) {
        let source = source.repeat(times);
        let html = render(&source).html;
        assert!(html.len() <= 64 * 1024 + 6 * source.len(), "{} bytes from {}", html.len(), source.len());
    }

    #[test]
    fn no_letter_of_text_is_lost(
        pieces in collection::vec(sample::select([&pieces::LETTERS[..], &pieces::TAGGED_LETTERS].concat()), 0..60),
        times in sample::select(&[1_usize, 1, 1, 1, 2, 50, 600][..]),
    ) {
        let source = pieces.concat().repeat(times);
        let letters = |text: &str| text.chars().filter(char::is_ascii_alphabetic).collect::<String>();
        let facts = assert_only_the_subset(&render(&source).html, &source);
        assert!(letters(&facts.text) == letters(&source), "{:?} from {source:?}", facts.text);
    }

    #[test]
    fn every_link_has_exactly_the_rel_and_no_credentials(source in anything()) {
        let html = render(&source).html;
        let links = html.matches("<a ").count();
        assert_eq!(html.matches("\" rel=\"nofollow ugc\">").count(), links, "{html:?}");
        for href in html.split("<a href=\"").skip(1).filter_map(|link| link.split('"').next()) {
            if let Ok(url) = url::Url::parse(href) {
                assert!(url.username().is_empty() && url.password().is_none(), "{href:?}");
            }
        }
    }

    #[test]
    fn reading_the_html_and_writing_it_again_changes_nothing(source in anything()) {
        let html = render(&source).html;
        assert_eq!(reserialised(&html), html);
    }

    #[test]
    fn the_origins_are_those_of_the_first_two_linked_sites(source in anything()) {
        let rendered = render(&source);
        let mut expected: Vec<String> = Vec::new();
        for link in rendered.html.split("<a href=\"").skip(1) {
            let href = link.split('"').next().unwrap_or_default();
            let href = href.replace("&quot;", "\"").replace("&amp;", "&");
            let origin = href.split('/').take(3).collect::<Vec<_>>().join("/");
            if href.starts_with("http") && !expected.contains(&origin) && expected.len() < 2 {
                expected.push(origin);
            }
        }
        assert_eq!(rendered.link_origins, expected);
    }
}

/// No text here has a character with a meaning in Markdown, so each must come out unchanged.
const NAUGHTY: [&str; 38] = [
    "undefined",
    "NULL",
    "NaN",
    "-1.5e+400",
    "1;DROP TABLE pages",
    "' OR 1=1 -- 1",
    "{{7 x 7}} ${7 x 7} #{7}",
    "%s%n%x%d %00 %0d%0a",
    "../../../../etc/passwd%00",
    "() { :;}; touch /tmp/x",
    "C:PRN.CON.NUL",
    "Ω≈ç√∫˜µ≤≥÷ åß∂ƒ©˙∆˚¬…æ",
    "¡™£¢∞§¶•ªº–≠ ¸˛Ç◊ı˜Â¯˘¿",
    "田中さんにあげて下さい 和製漢語 사회과학원",
    "表ポあA鷗ŒéＢ逍Üßªąñ丂㐀𠀀",
    "Ⱥ Ⱦ ﬀ ﬃ ﷽ ﷺ",
    "𝐓𝐡𝐞 𝕢𝕦𝕚𝕔𝕜 ⒯⒣⒠ ꜰᴏx",
    "הָיְתָהtestالصفحات التّحول",
    "\u{202e}txt.exe\u{202c}",
    "\u{2066}left\u{2067}right\u{2069}",
    "\u{200b}zero\u{200c}width\u{200d}joined\u{2060}",
    "mid\u{feff}mark",
    "e\u{301}\u{302}\u{303}\u{304}\u{305}\u{306}\u{307}\u{308}\u{309}\u{30a}\u{30b}\u{30c}",
    "👩‍👩‍👧‍👦 🏳️‍🌈 👍🏿 🇺🇳🇷🇺🇸 1️⃣",
    "\u{1f1e6}\u{1f1e6}\u{1f1e6}",
    "\u{e000}\u{f8ff}\u{10fffd}",
    "\u{fffe}\u{ffff}\u{10ffff}",
    "\u{fdef}",
    "\u{2028}line\u{2029}paragraph",
    "\u{85}next",
    "no\u{a0}break",
    "bell\u{7} escape\u{1b} delete\u{7f}",
    "\u{1}\u{2}\u{8}\u{e}\u{1f}",
    "\u{ad}soft\u{ad}hyphen",
    "I\u{307}STANBUL ıİ",
    "\u{e0041}\u{e0042}\u{e007f} tags",
    "ÅÅÅ \u{1100}\u{1161}\u{11a8}",
    "\"quoted\" 'quoted' “quoted”",
];

#[test]
fn naughty_text_comes_out_as_it_went_in() {
    for text in NAUGHTY {
        let html = render(text).html;
        assert_eq!(assert_only_the_subset(&html, text).text, format!("{text}\n"));
        assert_eq!(reserialised(&html), html, "from {text:?}");
        let code = render(&format!("```\n{text}\n```")).html;
        assert_eq!(assert_only_the_subset(&code, text).text, format!("{text}\n\n"));
    }
}

#[test]
fn a_code_point_that_is_no_character_is_replaced() {
    for text in ["\0", "\u{fdd0}", "\u{fdd1}", "\u{fdd2}", "\u{fdd3}", "\u{fdd4}", "\u{fdd5}"] {
        let html = render(&format!("a{text}b `{text}`")).html;
        assert_eq!(html, "<p>a\u{fffd}b <code>\u{fffd}</code></p>\n", "from {text:?}");
    }
}

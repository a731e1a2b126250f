//! Rules that hold for any content, tried on random text and random Markdown.

use handbill_pages::values::markdown::render;
use proptest::prelude::{ProptestConfig, Strategy, any, prop_oneof, proptest};
use proptest::{collection, sample};

use super::corpora::own;
use super::html::{assert_only_the_subset, reserialised};
use super::{pieces, rendering};

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
    fn any_content_comes_out_as_only_the_subset_as_a_browser_reads_it(source in anything()) {
        rendering::check(source.as_bytes());
    }

    #[test]
    fn any_content_comes_out_within_the_bound_of_its_bytes(source in anything(), times in 1..400_usize) {
        let source = source.repeat(times);
        rendering::assert_bounded(&render(&source).html, &source);
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

#[test]
fn naughty_text_comes_out_as_it_went_in() {
    for text in own("text") {
        let html = render(&text).html;
        assert_eq!(assert_only_the_subset(&html, &text).text, format!("{text}\n"));
        assert_eq!(reserialised(&html), html, "from {text:?}");
        let code = render(&format!("```\n{text}\n```")).html;
        assert_eq!(assert_only_the_subset(&code, &text).text, format!("{text}\n\n"));
    }
}

#[test]
fn a_code_point_that_is_no_character_is_replaced() {
    for text in ["\0", "\u{fdd0}", "\u{fdd1}", "\u{fdd2}", "\u{fdd3}", "\u{fdd4}", "\u{fdd5}"] {
        let html = render(&format!("a{text}b `{text}`")).html;
        assert_eq!(html, "<p>a\u{fffd}b <code>\u{fffd}</code></p>\n", "from {text:?}");
    }
}

//! Scripts in content: this project's own, in `corpora/own.jsonl`. See [`super::corpora`] for those of others.
//!
//! `html` is raw HTML, which must be seen, character by character, and do nothing. `forbidden` is HTML with one thing that no article
//! has. A `url` is an address to which no link and no image may lead, tried in every way in which Markdown writes an address. `markdown`
//! tries to leave the attribute, the tag or the element in which the text of an allowed construct stands. No `text` has a character with a
//! meaning in Markdown, so each must come out unchanged.

use handbill_pages::values::markdown::render;

use super::corpora::own;
use super::html::{assert_only_the_subset, facts};
use super::rendering;

pub(crate) fn all() -> impl Iterator<Item = String> {
    let addresses = own("url").into_iter().flat_map(|address| links_to(&address));
    own("html").into_iter().chain(own("markdown")).chain(addresses)
}

fn links_to(address: &str) -> [String; 9] {
    [
        format!("[a]({address})"),
        format!("[a](<{address}>)"),
        format!("[a]( {address} 't')"),
        format!("![a]({address})"),
        format!("![a](<{address}>)"),
        format!("<{address}>"),
        format!("[a]\n\n[a]: {address}"),
        format!("[a][b] ![a][b]\n\n[b]: <{address}> 't'"),
        format!("[![a](<{address}>)](<{address}>)"),
    ]
}

#[test]
fn the_check_itself_sees_what_it_forbids() {
    // A parser drops these by itself: an unfinished tag, and what cannot stand in an article.
    let dropped =
        |html: &str| !html.ends_with('>') || ["<body", "<html", "<frameset"].iter().any(|tag| html.starts_with(tag));
    for html in own("html").iter().filter(|html| !dropped(html)) {
        assert!(!facts(html).violations.is_empty(), "nothing is wrong with {html:?}");
    }
    for html in own("forbidden") {
        assert!(!facts(&html).violations.is_empty(), "nothing is wrong with {html:?}");
    }
}

#[test]
fn no_attack_comes_out_as_more_than_the_subset() {
    for source in all() {
        rendering::check(source.as_bytes());
    }
}

#[test]
fn raw_html_is_seen_as_it_was_written() {
    let all = own("html");
    let within = all.iter().map(|source| format!("before {} after", source.replace('\n', " ")));
    // A `>` that begins a line begins a quote.
    let alone = all.iter().filter(|source| !source.contains("\n>")).cloned();
    for source in alone.chain(within) {
        let facts = assert_only_the_subset(&render(&source).html, &source);
        assert_eq!(facts.text.trim_end(), source);
        assert!(facts.elements.iter().all(|name| name == "p"), "{:?} from {source:?}", facts.elements);
    }
}

#[test]
fn a_link_to_a_forbidden_address_is_its_text() {
    for source in own("url").iter().flat_map(|address| links_to(address)) {
        let html = render(&source).html;
        let facts = assert_only_the_subset(&html, &source);
        assert_eq!((facts.count("a"), facts.count("img")), (0, 0), "{html:?} from {source:?}");
        assert!(!facts.text.trim().is_empty(), "the text is lost: {html:?} from {source:?}");
    }
}

#[test]
fn text_that_breaks_out_of_nothing_makes_no_further_element() {
    for source in own("markdown") {
        let facts = assert_only_the_subset(&render(&source).html, &source);
        assert!(facts.elements.len() <= 4, "{:?} from {source:?}", facts.elements);
    }
}

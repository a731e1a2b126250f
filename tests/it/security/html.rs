//! Reads `content_html` with an HTML parser that is not ours, and holds it against a list written from the
//! specification (§2.5) and the contract (decision 12), not from the renderer.

use html5ever::serialize::{SerializeOpts, serialize};
use html5ever::tendril::TendrilSink;
use html5ever::{Attribute, ParseOpts, QualName, local_name, ns, parse_fragment};
use markup5ever_rcdom::{Handle, NodeData, RcDom, SerializableHandle};
use url::Url;

const MAX_DEPTH: usize = 32;

#[derive(Debug, Default)]
pub(crate) struct Facts {
    pub(crate) elements: Vec<String>,
    pub(crate) text: String,
    pub(crate) depth: usize,
    /// Everything that the list forbids, each with its reason.
    pub(crate) violations: Vec<String>,
}

impl Facts {
    pub(crate) fn count(&self, name: &str) -> usize {
        self.elements.iter().filter(|element| *element == name).count()
    }
}

pub(crate) fn facts(html: &str) -> Facts {
    let dom = parse(html);
    let root = root(&dom);
    let mut facts = Facts::default();
    let mut stack: Vec<(Handle, usize)> = root.children.borrow().iter().rev().map(|child| (child.clone(), 1)).collect();
    while let Some((node, depth)) = stack.pop() {
        match &node.data {
            NodeData::Text { contents } => facts.text.push_str(&contents.borrow()),
            NodeData::Element { name, attrs, .. } => {
                facts.depth = facts.depth.max(depth);
                if name.ns != ns!(html) {
                    facts.violations.push(format!("<{}> is not HTML", name.local));
                }
                check_element(&name.local, &attrs.borrow(), &mut facts.violations);
                facts.elements.push(name.local.to_string());
                stack.extend(node.children.borrow().iter().rev().map(|child| (child.clone(), depth + 1)));
            }
            other => facts.violations.push(format!("neither element nor text: {other:?}")),
        }
    }
    if facts.depth > MAX_DEPTH {
        facts.violations.push(format!("elements are nested {} deep", facts.depth));
    }
    facts
}

/// The facts about `html`, which must stay within the subset. `source` is the content from which `html` was made; a
/// failure shows it.
#[track_caller]
pub(crate) fn assert_only_the_subset(html: &str, source: &str) -> Facts {
    let facts = facts(html);
    assert!(
        facts.violations.is_empty(),
        "{:?}\nfrom {source:?}\nin {html:?}",
        &facts.violations[..facts.violations.len().min(5)]
    );
    facts
}

pub(crate) fn reserialised(html: &str) -> String {
    let mut out = Vec::new();
    let dom = parse(html);
    let root: SerializableHandle = root(&dom).into();
    serialize(&mut out, &root, SerializeOpts::default()).expect("writing to memory");
    String::from_utf8(out).expect("HTML is UTF-8")
}

fn parse(html: &str) -> RcDom {
    let context = QualName::new(None, ns!(html), local_name!("article"));
    parse_fragment(RcDom::default(), ParseOpts::default(), context, Vec::new(), true).one(html)
}

/// The element around the fragment. It loses its children when `dom` is dropped.
fn root(dom: &RcDom) -> Handle {
    dom.document.children.borrow().first().expect("a fragment has a root").clone()
}

fn check_element(name: &str, attributes: &[Attribute], violations: &mut Vec<String>) {
    let mut found: Vec<(&str, &str)> =
        attributes.iter().map(|attribute| (&*attribute.name.local, &*attribute.value)).collect();
    found.sort_unstable();
    let allowed = match (name, found.as_slice()) {
        (
            "p" | "h2" | "h3" | "h4" | "em" | "strong" | "del" | "ul" | "ol" | "li" | "blockquote" | "code" | "pre"
            | "hr" | "br",
            [],
        ) => true,
        ("ol", [("start", start)]) => !start.is_empty() && start.bytes().all(|b| b.is_ascii_digit()),
        ("code", [("class", class)]) => class.strip_prefix("language-").is_some_and(|language| {
            !language.is_empty() && language.chars().all(|c| c.is_ascii_alphanumeric() || "+#._-".contains(c))
        }),
        ("a", [("href", href), ("rel", "nofollow ugc")]) => is_link_address(href),
        ("img", [("alt", _), ("loading", "lazy"), ("referrerpolicy", "no-referrer"), ("src", src)]) => {
            Url::parse(src).is_ok_and(|url| url.scheme() == "https" && url.as_str() == *src)
        }
        _ => false,
    };
    if !allowed {
        violations.push(format!("<{name}> with {found:?}"));
    }
}

/// Judges an address by where a browser would go from a page of a site, over http and over https.
fn is_link_address(href: &str) -> bool {
    ["http://own.example/page", "https://own.example/page"].iter().all(|base| {
        let base = Url::parse(base).expect("a constant address");
        let Ok(target) = base.join(href) else { return false };
        match href.bytes().next() {
            Some(b'#') => target[..url::Position::AfterPath] == base[..url::Position::AfterPath],
            Some(b'/') => target.origin() == base.origin(),
            _ => matches!(target.scheme(), "https" | "http" | "mailto") && target.as_str() == href,
        }
    })
}

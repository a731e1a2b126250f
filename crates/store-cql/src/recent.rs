//! The heads that this process has read or written last, so that a write need not read its head again, a read of a
//! text knows the name of its row, and a read of a head needs only the state of one that has not changed.
//!
//! A write is conditional on the version and time of the head that it replaces. So a head that has changed since makes the
//! write lose; it never makes the write wrong.
//!
//! A head is kept with a digest of its text, as soon as this process has read or written that text. A write whose page has
//! the same text then leaves the text where it is. A text never changes under its name, so the digest stays true. Without a
//! digest the text is written again.

use std::num::NonZero;

use lru::LruCache;
use parking_lot::Mutex;
use xxhash_rust::xxh3::Xxh3;

use super::nonces::{Nonces, TextId};
use crate::domain::page::{Page, PageHead, PageState, PageVersion};
use crate::domain::slug::Slug;

/// How many heads are kept, of less than 2 KiB each.
const HEADS: NonZero<usize> = NonZero::new(2048).expect("it is not zero");

/// The head of an active page, and what else its replacement must know.
#[derive(Clone, Debug)]
pub(super) struct Base {
    pub(super) head: PageHead,
    pub(super) text: TextId,
    /// The digest of that text, if this process has read or written it.
    pub(super) digest: Option<TextDigest>,
    pub(super) nonces: Nonces,
}

/// A digest of a page's text. It misses a difference once in 2^128 times, and only this process knows its seed. Whoever could
/// make two texts of one digest would lose nothing but an edit of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TextDigest(u128);

pub(super) struct RecentHeads {
    heads: Mutex<LruCache<Slug, Base>>,
    seed: u64,
}

impl RecentHeads {
    /// No heads yet. `seed` is random.
    pub(super) fn new(seed: u64) -> Self {
        Self { heads: Mutex::new(LruCache::new(HEADS)), seed }
    }

    /// Keeps `base`, unless a newer head is kept.
    pub(super) fn keep(&self, mut base: Base) {
        let mut heads = self.heads.lock();
        let kept = heads.peek(&base.head.slug);
        if kept.is_some_and(|kept| kept.head.updated_at > base.head.updated_at) {
            return;
        }
        let known = kept.filter(|kept| kept.text == base.text).and_then(|kept| kept.digest);
        base.digest = base.digest.or(known);
        heads.put(base.head.slug.clone(), base);
    }

    /// Notes that the head of `page` points to `text`, and that the text is that of `page`.
    pub(super) fn learn_text(&self, page: &Page, text: TextId) {
        let is_unknown = |base: &Base| base.text == text && base.digest.is_none();
        if !self.heads.lock().peek(&page.head.slug).is_some_and(is_unknown) {
            return;
        }
        let digest = self.digest(page);
        if let Some(base) = self.heads.lock().peek_mut(&page.head.slug).filter(|base| base.text == text) {
            base.digest = Some(digest);
        }
    }

    pub(super) fn digest(&self, page: &Page) -> TextDigest {
        let mut hasher = Xxh3::with_seed(self.seed);
        for part in [page.text.content.as_str(), &page.text.html] {
            hasher.update(&part.len().to_le_bytes());
            hasher.update(part.as_bytes());
        }
        hasher.update(&page.head.renderer_version.to_le_bytes());
        TextDigest(hasher.digest128())
    }

    pub(super) fn forget(&self, slug: &Slug) {
        self.heads.lock().pop(slug);
    }

    /// The head of `slug` that was seen last, if it is kept.
    pub(super) fn get(&self, slug: &Slug) -> Option<Base> {
        self.heads.lock().get(slug).cloned()
    }

    /// The head of `slug` at this version, if it is kept.
    pub(super) fn at(&self, slug: &Slug, version: PageVersion) -> Option<Base> {
        self.heads.lock().get(slug).filter(|base| base.head.version == version).cloned()
    }

    /// The name of the text of the page under `slug` in `state`, if its head is kept.
    pub(super) fn text_at(&self, slug: &Slug, state: PageState) -> Option<TextId> {
        self.heads.lock().get(slug).filter(|base| base.head.state() == state).map(|base| base.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::content::Content;
    use crate::domain::edit_key::EditKey;
    use crate::domain::markdown::Rendered;
    use crate::domain::page::HeadChanges;
    use crate::domain::timestamp::UnixMillis;
    use crate::domain::title::Title;

    fn page(content: &str, html: &str) -> Page {
        let (slug, title) = (Slug::parse("a-page-22222222").unwrap(), Title::parse("A page").unwrap());
        let head = PageHead::first(slug, title, EditKey::random(|_| 0).hash(), UnixMillis::new(1));
        let rendered = Rendered { html: html.to_owned(), renderer_version: 1, ..Rendered::default() };
        Page::new(head, Content::parse(content.to_owned()).unwrap(), rendered)
    }

    fn text(version: u64) -> TextId {
        TextId { version: PageVersion::new(version), nonce: [0; 16] }
    }

    /// The head of `page`, which points to `text`, as it is read.
    fn base(page: &Page, text: TextId) -> Base {
        Base { head: page.head.clone(), text, digest: None, nonces: Nonces::none() }
    }

    #[test]
    fn a_new_title_has_the_digest_of_the_text_and_nothing_else_has() {
        let (recent, first) = (RecentHeads::new(7), page("text", "<p>text"));
        let digest = recent.digest(&first);
        let changes = HeadChanges { title: Some(None) };
        let retitled = Page { head: first.head.clone().updated(changes, UnixMillis::new(2)), ..first.clone() };
        assert_eq!(recent.digest(&retitled), digest);
        let mut rerendered = first;
        rerendered.head.renderer_version = 2;
        for other in [page("texts", "<p>text"), page("text<p>", "text"), rerendered] {
            assert_ne!(recent.digest(&other), digest);
        }
    }

    #[test]
    fn a_digest_stays_with_its_text_when_the_head_is_read_again_and_goes_with_it() {
        let (recent, first) = (RecentHeads::new(7), page("text", "<p>text"));
        let known = || recent.at(&first.head.slug, first.head.version).unwrap().digest;
        recent.learn_text(&first, text(1));
        assert!(recent.at(&first.head.slug, first.head.version).is_none(), "its head was not read");
        recent.keep(base(&first, text(1)));
        recent.learn_text(&page("other", "<p>other"), text(2));
        assert_eq!(known(), None, "the head points to another text");
        recent.learn_text(&first, text(1));
        recent.keep(base(&first, text(1)));
        assert_eq!(known(), Some(recent.digest(&first)));
        recent.keep(base(&first, text(3)));
        assert_eq!(known(), None);
    }

    #[test]
    fn the_name_of_a_text_is_known_for_the_present_state_alone() {
        let (recent, first) = (RecentHeads::new(7), page("text", "<p>text"));
        let next =
            Page { head: first.head.clone().updated(HeadChanges::default(), UnixMillis::new(2)), ..first.clone() };
        recent.keep(base(&first, text(1)));
        assert_eq!(recent.text_at(&first.head.slug, first.head.state()), Some(text(1)));
        recent.keep(base(&next, text(1)));
        assert_eq!(recent.text_at(&first.head.slug, first.head.state()), None);
        assert_eq!(recent.text_at(&first.head.slug, next.head.state()), Some(text(1)));
        recent.keep(base(&first, text(1)));
        assert_eq!(
            recent.text_at(&first.head.slug, next.head.state()),
            Some(text(1)),
            "a late answer does not replace it"
        );
    }
}

//! Pages to store.

use std::sync::Arc;

use handbill_core::domain::content::Content;
use handbill_core::domain::edit_key::EditKey;
use handbill_core::domain::markdown::render;
use handbill_core::domain::page::{HeadChanges, Page, PageHead};
use handbill_core::domain::slug::{Slug, SlugSuffix};
use handbill_core::domain::timestamp::UnixMillis;
use handbill_core::domain::title::Title;
use handbill_core::ports::random::{Random, index_below};

/// When test pages are created.
pub(crate) const CREATED: i64 = 1_795_235_400_123;

/// A slug that no other test has, nor an earlier run of this one.
pub(crate) fn slug() -> Slug {
    let title = Title::parse("A test page").unwrap();
    Slug::derive(&title, SlugSuffix::random(|below| index_below(&Random::System, below)))
}

/// A text of about `len` bytes, of which compression cannot make much: numbers in hexadecimal.
pub(crate) fn noise(len: usize) -> String {
    let words = (0u64..).map(|number| format!("{:016x} ", number.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
    words.take(len.div_ceil(17)).collect()
}

/// A new page under a slug of its own.
pub(crate) fn page(content: &str) -> Page {
    page_at(slug(), content)
}

/// A new page under `slug`, with a key of its own.
pub(crate) fn page_at(slug: Slug, content: &str) -> Page {
    let key_hash = EditKey::random(|below| index_below(&Random::System, below)).hash();
    let head = PageHead::first(slug, Title::parse("A test page").unwrap(), key_hash, UnixMillis::new(CREATED));
    Page::new(head, Content::parse(content.to_owned()).unwrap(), render(content))
}

/// `page` after its content became `content`.
pub(crate) fn edited(page: &Page, content: &str) -> Arc<Page> {
    let head = page.head.clone().updated(HeadChanges::default(), UnixMillis::new(CREATED + 1000));
    Arc::new(Page::new(head, Content::parse(content.to_owned()).unwrap(), render(content)))
}

/// `page` with the head that `change` makes of its own.
pub(crate) fn with_head(page: &Page, change: impl FnOnce(PageHead) -> PageHead) -> Arc<Page> {
    Arc::new(Page { head: change(page.head.clone()), text: page.text.clone() })
}

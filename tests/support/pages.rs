//! Pages to store.

use std::path::Path;
use std::sync::Arc;

use handbill_pages::ports::page_store::{Expected, PageStore, PutResult, Record};
use handbill_pages::ports::random::{Random, index_below};
use handbill_pages::values::content::Content;
use handbill_pages::values::edit_key::EditKey;
use handbill_pages::values::markdown::render;
use handbill_pages::values::page::{HeadChanges, Page, PageHead, PageVersion};
use handbill_pages::values::slug::{Slug, SlugSuffix};
use handbill_pages::values::timestamp::UnixMillis;
use handbill_pages::values::title::Title;
use handbill_store_sqlite::DATABASE_FILE;
use rusqlite::Connection;

pub(crate) const CREATED: i64 = 1_795_235_400_123;

/// A key as a client makes it. No two are the same, because the tests of a program may share a store.
pub(crate) fn new_key() -> String {
    EditKey::random(|bound| index_below(&Random::System, bound)).reveal().to_owned()
}

/// A slug that no other test has, nor an earlier run of this one.
pub(crate) fn slug() -> Slug {
    let title = Title::parse("A test page").unwrap();
    Slug::derive(&title, SlugSuffix::random(|below| index_below(&Random::System, below)))
}

pub(crate) fn page(content: &str) -> Page {
    page_at(slug(), content)
}

/// A new page under `slug`, with a key of its own.
pub(crate) fn page_at(slug: Slug, content: &str) -> Page {
    let key_hash = EditKey::random(|below| index_below(&Random::System, below)).hash();
    let head = PageHead::first(slug, Title::parse("A test page").unwrap(), key_hash, UnixMillis::new(CREATED));
    Page::new(head, Content::parse(content.to_owned()).unwrap(), render(content))
}

pub(crate) fn edited(page: &Page, content: &str) -> Arc<Page> {
    let head = page.head.clone().updated(HeadChanges::default(), UnixMillis::new(CREATED + 1000));
    Arc::new(Page::new(head, Content::parse(content.to_owned()).unwrap(), render(content)))
}

/// `page` with the head that `change` makes of its own.
pub(crate) fn with_head(page: &Page, change: impl FnOnce(PageHead) -> PageHead) -> Arc<Page> {
    Arc::new(Page { head: change(page.head.clone()), text: page.text.clone() })
}

/// Inserts `page`, and says whether its slug was free.
pub(crate) async fn insert(store: &(impl PageStore + ?Sized), page: Arc<Page>) -> PutResult {
    store.put(Expected::Absent, Record::Active(page), None).await.unwrap()
}

/// Puts `next` in the place of the page of this version, and says whether there was one.
pub(crate) async fn replace(store: &(impl PageStore + ?Sized), version: PageVersion, next: Record) -> PutResult {
    store.put(Expected::Version(version), next, None).await.unwrap()
}

/// Damages the row of the page under `slug` in the SQLite store in `data_dir`.
pub(crate) fn damage(data_dir: &Path, slug: &str) {
    let database = Connection::open(data_dir.join(DATABASE_FILE)).unwrap();
    assert_eq!(database.execute("UPDATE pages SET checksum = checksum + 1 WHERE slug = ?1", [slug]).unwrap(), 1);
}

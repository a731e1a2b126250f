//! Pages to store.

use std::path::Path;
use std::sync::Arc;

use handbill_pages::ports::page_store::{Expected, PageStore, PutResult};
use handbill_pages::ports::random::Random;
use handbill_pages::values::content::Content;
use handbill_pages::values::details::{Details, DetailsPatch};
use handbill_pages::values::edit_key::EditKey;
use handbill_pages::values::head::{Head, PageHead};
use handbill_pages::values::markdown::render;
use handbill_pages::values::page::Page;
use handbill_pages::values::record::Record;
use handbill_pages::values::slug::{Slug, SlugSuffix};
use handbill_pages::values::takedown::Takedown;
use handbill_pages::values::timestamp::UnixMillis;
use handbill_pages::values::title::Title;
use handbill_store_sqlite::DATABASE_FILE;
use rusqlite::Connection;

pub const CREATED: i64 = 1_795_235_400_123;

/// A key as a client makes it. No two are the same, because the tests of a program may share a store.
pub fn new_key() -> String {
    EditKey::random(|bound| Random::System.indices().below(bound)).reveal().to_owned()
}

/// A slug that no other test has, nor an earlier run of this one.
pub fn slug() -> Slug {
    let title = Title::parse("A test page").unwrap();
    Slug::derive(&title, SlugSuffix::random(|below| Random::System.indices().below(below)))
}

pub fn page(content: &str) -> Page {
    page_at(slug(), content)
}

/// A new page under `slug`, with a key of its own.
pub fn page_at(slug: Slug, content: &str) -> Page {
    let key_hash = EditKey::random(|below| Random::System.indices().below(below)).hash();
    let details = Details::with_title(Title::parse("A test page").unwrap());
    let head = PageHead::first(slug, details, key_hash, UnixMillis::new(CREATED));
    Page::new(head, Content::parse(content.to_owned()).unwrap(), render(content))
}

pub fn edited(page: &Page, content: &str) -> Arc<Page> {
    let head = page.head.clone().updated(&DetailsPatch::default(), UnixMillis::new(CREATED + 1000));
    Arc::new(Page::new(head, Content::parse(content.to_owned()).unwrap(), render(content)))
}

/// `page` with the head that `change` makes of its own.
pub fn with_head(page: &Page, change: impl FnOnce(PageHead) -> PageHead) -> Arc<Page> {
    Arc::new(Page { head: change(page.head.clone()), text: page.text.clone() })
}

/// `page` after it was hidden or shown at `millis` after its creation.
pub fn turned(page: &Page, hiding: Option<Takedown>, millis: i64) -> Record {
    let page = with_head(page, |head| head.changed(UnixMillis::new(CREATED + millis)));
    match hiding {
        Some(takedown) => Record::Hidden(page, takedown),
        None => Record::Active(page),
    }
}

/// Inserts `page`, and says whether its slug was free.
pub async fn insert(store: &(impl PageStore + ?Sized), page: Arc<Page>) -> PutResult {
    store.put(Expected::Absent, Record::Active(page), None).await.unwrap()
}

/// Puts `next` in the place of the page with this head, and says whether it was there.
pub async fn replace<S>(store: &(impl PageStore + ?Sized), head: &Head<S>, next: Record) -> PutResult {
    store.put(Expected::page(head), next, None).await.unwrap()
}

pub fn damage(data_dir: &Path, slug: &str) {
    let database = Connection::open(data_dir.join(DATABASE_FILE)).unwrap();
    assert_eq!(database.execute("UPDATE pages SET checksum = checksum + 1 WHERE slug = ?1", [slug]).unwrap(), 1);
}

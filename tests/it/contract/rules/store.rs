//! The contract of `PageStore`.

use std::sync::{Arc, Weak};
use std::thread;

use futures_util::FutureExt;
use futures_util::future::join_all;
use handbill_pages::ports::operated_store::OperatedStore;
use handbill_pages::ports::page_store::{ChangeListener, Expected, PutResult};
use handbill_pages::values::content::Content;
use handbill_pages::values::details::{Details, DetailsPatch, Patch, UnknownMembers};
use handbill_pages::values::edit_key::EditKey;
use handbill_pages::values::head::{Head, Live, PageHead, PageVersion};
use handbill_pages::values::language::Language;
use handbill_pages::values::page::{Page, PageText};
use handbill_pages::values::record::Record;
use handbill_pages::values::slug::Slug;
use handbill_pages::values::takedown::{Takedown, TakedownReason};
use handbill_pages::values::timestamp::UnixMillis;
use handbill_pages::values::title::Title;
use handbill_test_support::pages::{CREATED, edited, insert, page, page_at, replace, slug, turned, with_head};
use parking_lot::Mutex;
use serde_json::json;
use strum::VariantArray;
use tokio::runtime::Handle;

use super::super::backends::{empty_stores, stores};
use super::Started;

/// What a later version may add to a head.
fn unknown(member: &str) -> UnknownMembers {
    [(member.to_owned(), json!([{"by": 1}, null]))].into_iter().collect()
}

/// A page without defaults: the compiler asks for a new field here.
fn full_page(title: Option<Title>) -> Arc<Page> {
    let head = PageHead {
        slug: slug(),
        version: PageVersion::try_from(1_u64 << 40).unwrap(),
        created_at: UnixMillis::new(CREATED),
        updated_at: UnixMillis::new(CREATED + 1),
        changed_at: UnixMillis::new(CREATED + 2),
        state: Live {
            key_hash: EditKey::random(|_| 7).hash(),
            details: Details { title, unknown: unknown("subtitle") },
            links: vec!["https://a.example".to_owned(), "https://b.example".to_owned()],
            renderer_version: u16::MAX,
            shown_by: Some("desk".to_owned()),
        },
        unknown: unknown("pinned"),
    };
    let text = PageText {
        content: Content::parse("text").unwrap(),
        html: "<p>text</p>".to_owned(),
        excerpt: "How it begins…".to_owned(),
        code_blocks: vec![0, 5, 4_000_000],
        language: Language::from_code("de"),
    };
    Arc::new(Page { head, text })
}

#[tokio::test]
async fn every_field_of_a_page_is_kept() {
    for Started { name, backend: store, _beside } in stores().await {
        for title in [None, Some(Title::parse("A title").unwrap())] {
            let page = full_page(title);
            insert(&*store, page.clone()).await;
            assert_eq!(store.lookup(&page.head.slug).await.unwrap(), Some(Record::Active(page)), "{name}");
        }
    }
}

#[tokio::test]
async fn content_is_kept_byte_for_byte() {
    let largest = "0123456789abcdef".repeat(6400);
    assert_eq!(largest.len(), 102_400);
    let unusual =
        "\u{0}\r\n\t \u{feff}e\u{301}é 👩\u{200d}👩\u{200d}👧 \u{202e}abc\u{202c} \u{10ffff}\u{fffd} مرحبا \n\n ";
    for Started { name, backend: store, _beside } in stores().await {
        for content in [largest.as_str(), unusual, " ", &"👍".repeat(25_600)] {
            let page = Arc::new(page(content));
            insert(&*store, page.clone()).await;
            let Some(Record::Active(found)) = store.lookup(&page.head.slug).await.unwrap() else { panic!("{name}") };
            assert_eq!(found.text.content.as_str().as_bytes(), content.as_bytes(), "{name}");
            assert_eq!(found, page, "{name}");
        }
    }
}

#[tokio::test]
async fn a_taken_slug_is_refused_and_its_page_stays() {
    for Started { name, backend: store, _beside } in stores().await {
        let first = Arc::new(page("first"));
        let second = Arc::new(page_at(first.head.slug.clone(), "second"));
        insert(&*store, first.clone()).await;
        let inserted = insert(&*store, second).await;
        assert_eq!(inserted, PutResult::Refused, "{name}");
        assert_eq!(store.lookup(&first.head.slug).await.unwrap(), Some(Record::Active(first)), "{name}");
    }
}

#[tokio::test]
async fn the_secret_for_slugs_stays_and_differs_between_stores() {
    for (store, other) in stores().await.into_iter().zip(empty_stores().await) {
        let secret = async |store: &dyn OperatedStore| *store.slug_secret().await.unwrap().as_bytes();
        let first = secret(&*store.backend).await;
        assert_eq!(secret(&*store.backend).await, first, "{}", store.name);
        assert_ne!(secret(&*other.backend).await, first, "{}", store.name);
    }
}

#[tokio::test]
async fn a_page_of_the_expected_version_is_replaced() {
    for Started { name, backend: store, _beside } in stores().await {
        let first = Arc::new(page("first"));
        insert(&*store, first.clone()).await;
        let mut expected = first;
        for round in 0..3 {
            let next = edited(&expected, &format!("edit {round}"));
            let swapped = replace(&*store, &expected.head, Record::Active(next.clone())).await;
            assert_eq!(swapped, PutResult::Done, "{name}");
            let found = store.lookup(&next.head.slug).await.unwrap();
            assert_eq!(found, Some(Record::Active(next.clone())), "{name}");
            expected = next;
        }
    }
}

#[tokio::test]
async fn a_head_is_that_of_the_record() {
    for Started { name, backend: store, _beside } in stores().await {
        assert_eq!(store.head(&slug()).await.unwrap(), None, "{name}");
        let mut first = page("See <https://a.example>");
        first.head.state.renderer_version = 7;
        let first = Arc::new(first);
        insert(&*store, first.clone()).await;
        let Some(Record::Active(head)) = store.head(&first.head.slug).await.unwrap() else { panic!("{name}") };
        assert_eq!(head, first.head, "{name}");

        let deleted = first.head.tombstone(UnixMillis::new(CREATED + 5));
        replace(&*store, &first.head, Record::Deleted(deleted.clone())).await;
        assert_eq!(store.head(&first.head.slug).await.unwrap(), Some(Record::Deleted(deleted)), "{name}");
    }
}

#[tokio::test]
async fn a_new_title_keeps_the_text_and_a_new_text_replaces_it() {
    for Started { name, backend: store, _beside } in stores().await {
        let first = Arc::new(page("first"));
        insert(&*store, first.clone()).await;
        let Some(Record::Active(mut found)) = store.lookup(&first.head.slug).await.unwrap() else { panic!("{name}") };
        for round in 0..3 {
            let title = Patch::Set(Title::parse(&format!("Title {round}")).unwrap());
            let next =
                with_head(&found, |head| head.updated(&DetailsPatch { title }, UnixMillis::new(CREATED + round)));
            let swapped = replace(&*store, &found.head, Record::Active(next.clone())).await;
            assert_eq!(swapped, PutResult::Done, "{name}");
            let Some(Record::Active(head)) = store.head(&first.head.slug).await.unwrap() else { panic!("{name}") };
            let next = edited(&next, content(round).as_str());
            let swapped = replace(&*store, &head, Record::Active(next.clone())).await;
            assert_eq!(swapped, PutResult::Done, "{name}");
            let Some(Record::Active(present)) = store.lookup(&first.head.slug).await.unwrap() else { panic!("{name}") };
            assert_eq!(present, next, "{name}");
            found = present;
        }
    }
}

fn content(round: i64) -> Content {
    Content::parse(format!("text {round}")).unwrap()
}

#[tokio::test]
async fn a_stale_version_changes_nothing() {
    for Started { name, backend: store, _beside } in stores().await {
        let first = Arc::new(page("first"));
        let second = edited(&first, "second");
        insert(&*store, first.clone()).await;
        replace(&*store, &first.head, Record::Active(second.clone())).await;

        let late = edited(&first, "late");
        let swapped = replace(&*store, &first.head, Record::Active(late.clone())).await;
        assert_eq!(swapped, PutResult::Refused, "{name}");
        let early = edited(&second, "early");
        let swapped = replace(&*store, &early.head, Record::Active(early.clone())).await;
        assert_eq!(swapped, PutResult::Refused, "{name}");
        let tombstone = first.head.tombstone(UnixMillis::new(CREATED));
        let swapped = replace(&*store, &first.head, Record::Deleted(tombstone)).await;
        assert_eq!(swapped, PutResult::Refused, "{name}");

        assert_eq!(store.lookup(&first.head.slug).await.unwrap(), Some(Record::Active(second)), "{name}");
    }
}

#[tokio::test]
async fn a_page_that_was_never_there_cannot_be_replaced() {
    for Started { name, backend: store, _beside } in stores().await {
        let first = page("first");
        let next = edited(&first, "next");
        let swapped = replace(&*store, &first.head, Record::Active(next)).await;
        assert_eq!(swapped, PutResult::Refused, "{name}");
        assert_eq!(store.lookup(&first.head.slug).await.unwrap(), None, "{name}");
    }
}

#[tokio::test]
async fn only_an_unreadable_record_is_replaced_as_one() {
    for Started { name, backend: store, _beside } in stores().await {
        let [absent, page] = ["absent", "there"].map(|text| Arc::new(page(text)));
        insert(&*store, page.clone()).await;
        for (page, found) in [(&absent, None), (&page, Some(Record::Active(page.clone())))] {
            let tombstone = page.head.tombstone(UnixMillis::new(CREATED + 5));
            let put = store.put(Expected::Unreadable, Record::Deleted(tombstone), None).await.unwrap();
            assert_eq!(put, PutResult::Refused, "{name}");
            assert_eq!(store.lookup(&page.head.slug).await.unwrap(), found, "{name}");
        }
    }
}

/// Notes the version of each page that changes, as a lookup finds it before and after.
struct Witness {
    store: Weak<dyn OperatedStore>,
    runtime: Handle,
    seen: Mutex<Vec<(u64, u64)>>,
}

struct Witnessed<'a>(&'a Witness, Vec<(Slug, u64)>);

impl Witness {
    fn of(store: &Arc<dyn OperatedStore>) -> Arc<Self> {
        Arc::new(Self { store: Arc::downgrade(store), runtime: Handle::current(), seen: Mutex::default() })
    }

    /// Waits on a thread of its own, because a store may tell on any thread.
    fn version(&self, slug: &Slug) -> u64 {
        let (store, runtime, slug) = (self.store.upgrade().unwrap(), self.runtime.clone(), slug.clone());
        let looking = thread::spawn(move || match runtime.block_on(store.lookup(&slug)).unwrap() {
            Some(Record::Active(page) | Record::Hidden(page, _)) => page.head.version.get(),
            Some(Record::Deleted(tombstone)) => tombstone.version.get(),
            None => 0,
        });
        looking.join().unwrap()
    }
}

impl ChangeListener for Witness {
    fn change<'a>(&'a self, slugs: &[&Slug]) -> Box<dyn Send + 'a> {
        Box::new(Witnessed(self, slugs.iter().map(|slug| ((*slug).clone(), self.version(slug))).collect()))
    }
}

impl Drop for Witnessed<'_> {
    fn drop(&mut self) {
        let seen: Vec<_> = self.1.iter().map(|(slug, before)| (*before, self.0.version(slug))).collect();
        self.0.seen.lock().extend(seen);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_cache_is_told_of_each_change_before_and_after_it() {
    for Started { name, backend: store, _beside } in stores().await {
        let (witness, other) = (Witness::of(&store), Witness::of(&store));
        let can_tell = store.subscribe(witness.clone());
        assert!(!store.subscribe(other), "{name}");
        let page = Arc::new(page("text"));
        insert(&*store, page.clone()).await;
        let next = edited(&page, "new");
        replace(&*store, &page.head, Record::Active(next.clone())).await;
        let tombstone = next.head.tombstone(UnixMillis::new(CREATED + 2000));
        replace(&*store, &next.head, Record::Deleted(tombstone)).await;
        let mut seen = witness.seen.lock().clone();
        seen.retain(|(before, _)| *before > 0);
        assert_eq!(seen, if can_tell { vec![(1, 2), (2, 3)] } else { Vec::new() }, "{name}");
    }
}

#[tokio::test]
async fn a_deleted_page_leaves_a_tombstone_that_nothing_replaces() {
    for Started { name, backend: store, _beside } in stores().await {
        let page = Arc::new(page("text"));
        let tombstone = page.head.tombstone(UnixMillis::new(CREATED + 5));
        insert(&*store, page.clone()).await;
        let deleted = Record::Deleted(tombstone.clone());
        let swapped = replace(&*store, &page.head, deleted.clone()).await;
        assert_eq!(swapped, PutResult::Done, "{name}");

        let again = Arc::new(page_at(page.head.slug.clone(), "again"));
        let inserted = insert(&*store, again).await;
        assert_eq!(inserted, PutResult::Refused, "{name}");
        let of_tombstone = tombstone.clone().map_state(|_| page.head.state.clone());
        for head in [&page.head, &of_tombstone] {
            let revived = Record::Active(edited(&page, "revived"));
            let swapped = replace(&*store, head, revived).await;
            assert_eq!(swapped, PutResult::Refused, "{name}");
            let swapped = replace(&*store, head, deleted.clone()).await;
            assert_eq!(swapped, PutResult::Refused, "{name}");
        }
        assert_eq!(store.lookup(&page.head.slug).await.unwrap(), Some(Record::Deleted(tombstone)), "{name}");
    }
}

fn hiding() -> Takedown {
    Takedown::new(TakedownReason::Phishing, "desk").unwrap()
}

#[tokio::test]
async fn a_hidden_page_keeps_its_text_and_slug_and_is_shown_as_it_was() {
    for Started { name, backend: store, _beside } in stores().await {
        let first = Arc::new(page("text"));
        let hidden = turned(&first, Some(hiding()), 5);
        let shown = turned(hidden.page().unwrap(), None, 6);
        let [hidden_head, shown_head] = [&hidden, &shown].map(Record::head);
        insert(&*store, first.clone()).await;
        assert_eq!(replace(&*store, &first.head, hidden.clone()).await, PutResult::Done, "{name}");
        let looked_up = store.lookup(&first.head.slug).await.unwrap();
        assert_eq!(looked_up, Some(hidden.clone()), "{name}");
        let head = store.head(&first.head.slug).await.unwrap();
        assert_eq!(head.map(Head::from), Some(hidden_head.clone()), "{name}");
        let again = Arc::new(page_at(first.head.slug.clone(), "again"));
        assert_eq!(insert(&*store, again).await, PutResult::Refused, "{name}");

        let stale = Record::Active(edited(&first, "edited"));
        assert_eq!(replace(&*store, &first.head, stale).await, PutResult::Refused, "{name}: its version is the same");
        assert_eq!(replace(&*store, &hidden_head, shown.clone()).await, PutResult::Done, "{name}");
        assert_eq!(store.lookup(&first.head.slug).await.unwrap(), shown.clone().into(), "{name}");
        assert_eq!(shown.page().unwrap().head.state(), first.head.state(), "{name}: to readers it is as it was");
        let tombstone = shown.page().unwrap().head.tombstone(UnixMillis::new(CREATED + 7));
        let deleted = Record::Deleted(tombstone.clone());
        assert_eq!(replace(&*store, &shown_head, deleted).await, PutResult::Done, "{name}");
        let deleted = store.lookup(&first.head.slug).await.unwrap();
        assert_eq!(deleted, Some(Record::Deleted(tombstone)), "{name}: nothing of the hiding is left");
    }
}

#[tokio::test]
async fn a_hidden_page_becomes_a_tombstone_and_may_be_imported() {
    for Started { name, backend: store, _beside } in stores().await {
        let hidden = turned(&page("text"), Some(hiding()), 5);
        assert_eq!(store.put(Expected::Absent, hidden.clone(), None).await.unwrap(), PutResult::Done, "{name}");
        assert_eq!(store.lookup(hidden.slug()).await.unwrap(), hidden.clone().into(), "{name}");
        let tombstone = hidden.page().unwrap().head.taken_down(hiding(), UnixMillis::new(CREATED + 6));
        let swapped = replace(&*store, &hidden.head(), Record::Deleted(tombstone.clone())).await;
        assert_eq!(swapped, PutResult::Done, "{name}");
        assert_eq!(store.lookup(hidden.slug()).await.unwrap(), Some(Record::Deleted(tombstone)), "{name}");
    }
}

#[tokio::test]
async fn a_tombstone_keeps_why_an_operator_took_it_down_and_who() {
    for Started { name, backend: store, _beside } in stores().await {
        for &reason in TakedownReason::VARIANTS {
            let page = Arc::new(page("text"));
            let takedown = Takedown::new(reason, "Straße 1, ticket 7").unwrap();
            let tombstone = page.head.taken_down(takedown, UnixMillis::new(CREATED + 5));
            insert(&*store, page.clone()).await;
            let swapped = replace(&*store, &page.head, Record::Deleted(tombstone.clone())).await;
            assert_eq!(swapped, PutResult::Done, "{name}");
            assert_eq!(store.lookup(&page.head.slug).await.unwrap(), Some(Record::Deleted(tombstone)), "{name}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_racing_inserts_of_one_slug_one_wins_and_is_what_is_found() {
    for Started { name, backend: store, _beside } in stores().await {
        let slug = slug();
        let racing = (0..32).map(|racer| {
            let (store, page) = (store.clone(), Arc::new(page_at(slug.clone(), &format!("racer {racer}"))));
            tokio::spawn(async move { (insert(&*store, page.clone()).await, page) })
        });
        let finished = join_all(racing).await.into_iter().map(Result::unwrap);
        let winners: Vec<_> = finished.filter(|(inserted, _)| *inserted == PutResult::Done).collect();
        assert_eq!(winners.len(), 1, "{name}");
        let found = store.lookup(&slug).await.unwrap();
        assert_eq!(found, Some(Record::Active(winners[0].1.clone())), "{name}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_racing_changes_to_one_version_one_wins_and_is_found() {
    for Started { name, backend: store, _beside } in stores().await {
        let first = Arc::new(page("first"));
        insert(&*store, first.clone()).await;
        let racing = (0..32).map(|racer| {
            let (store, expected) = (store.clone(), first.head.clone());
            let next = if racer % 4 == 0 {
                Record::Deleted(first.head.tombstone(UnixMillis::new(CREATED + racer)))
            } else {
                Record::Active(edited(&first, &format!("racer {racer}")))
            };
            tokio::spawn(async move { (replace(&*store, &expected, next.clone()).await, next) })
        });
        let finished = join_all(racing).await.into_iter().map(Result::unwrap);
        let winners: Vec<_> = finished.filter(|(swapped, _)| *swapped == PutResult::Done).collect();
        assert_eq!(winners.len(), 1, "{name}");
        let found = store.lookup(&first.head.slug).await.unwrap();
        assert_eq!(found, winners[0].1.clone().into(), "{name}");
    }
}

#[tokio::test]
async fn a_call_whose_caller_left_is_done_wholly_or_not_at_all() {
    for Started { name, backend: store, _beside } in stores().await {
        let kept = Arc::new(page("kept"));
        insert(&*store, kept.clone()).await;
        let mut abandoned = Vec::new();
        for round in 0..20 {
            let page = Arc::new(page(&"abandoned ".repeat(round + 1)));
            let mut insert = store.put(Expected::Absent, Record::Active(page.clone()), None);
            let _ = (&mut insert).now_or_never();
            drop(insert);
            abandoned.push(page);
        }
        let mut lookup = store.lookup(&kept.head.slug);
        let _ = (&mut lookup).now_or_never();
        drop(lookup);

        // When this insert is answered, all earlier requests are decided.
        let after = Arc::new(page("after"));
        assert_eq!(insert(&*store, after.clone()).await, PutResult::Done, "{name}");
        for page in abandoned {
            let found = store.lookup(&page.head.slug).await.unwrap();
            assert!(found.is_none() || found == Some(Record::Active(page)), "{name}");
        }
        assert_eq!(store.lookup(&kept.head.slug).await.unwrap(), Some(Record::Active(kept)), "{name}");
        assert_eq!(store.lookup(&after.head.slug).await.unwrap(), Some(Record::Active(after)), "{name}");
    }
}

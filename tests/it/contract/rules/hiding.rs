//! The ledger of hidden pages decides whether an import shows them: the contract of `PageImport::visibility`.

use std::sync::Arc;

use futures_util::future::join_all;
use handbill::admin::import::Importer;
use handbill::app::Deps;
use handbill_core::domain::archive::Entry;
use handbill_core::domain::page::{Page, PageHead, PageVersion};
use handbill_core::domain::takedown::{Takedown, TakedownReason, Visibility};
use handbill_core::domain::timestamp::UnixMillis;
use handbill_core::ports::clock::SystemClock;
use handbill_core::ports::page_store::{CasResult, Lookup, Record};

use super::super::backends::stores;
use super::Store;
use crate::support::pages::{CREATED, edited, page, with_head};

fn at(millis: i64) -> UnixMillis {
    UnixMillis::new(CREATED + millis)
}

fn hiding() -> Takedown {
    Takedown::new(TakedownReason::Phishing, "desk").unwrap()
}

fn noted(page: &Page, millis: i64, hidden: Option<Takedown>) -> Entry {
    Entry::Visibility(Visibility { slug: page.head.slug.clone(), at: at(millis), hidden })
}

fn importer(store: &Arc<dyn Store>) -> Importer {
    Importer { store: Arc::clone(store) as _, renderer: Deps::system().renderer, clock: Arc::new(SystemClock::new()) }
}

/// Why the page is hidden, if it is.
async fn hidden_by(store: &Arc<dyn Store>, page: &Page) -> Option<Takedown> {
    match store.lookup(&page.head.slug).await.unwrap() {
        Lookup::Hidden(head) => {
            let whole = store.page(&head).await.unwrap().expect("its text is there");
            assert_eq!(whole.text.content, page.text.content);
            head.hidden.map(|takedown| *takedown)
        }
        Lookup::Active(found) => {
            assert_eq!((&found.text.content, found.head.key_hash), (&page.text.content, page.head.key_hash));
            None
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_page_that_the_ledger_says_is_hidden_is_hidden_whatever_is_imported_first() {
    for store in stores().await {
        let (name, importer) = (store.name, importer(&store.backend));
        for order in [[0, 1], [1, 0]] {
            let page = page("an older text");
            let entries = [Entry::of(&page), noted(&page, 5, Some(hiding()))];
            for number in order {
                importer.import(entries[number].clone()).await.unwrap();
            }
            assert_eq!(hidden_by(&store.backend, &page).await, Some(hiding()), "{name}: {order:?}");
            for entry in entries {
                importer.import(entry).await.unwrap();
                assert_eq!(hidden_by(&store.backend, &page).await, Some(hiding()), "{name}: again");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_ledger_and_an_archive_that_are_imported_at_once_leave_no_hidden_page_to_be_read() {
    for store in stores().await {
        let pages: Vec<_> = (0..40).map(|number| page(&format!("text {number}"))).collect();
        // Fewer at once than by a command, whose operations have more time than those of a replica.
        for some in pages.chunks(8) {
            let entries = some.iter().flat_map(|page| [noted(page, 5, Some(hiding())), Entry::of(page)]);
            let importing = entries.map(|entry| {
                let importer = importer(&store.backend);
                tokio::spawn(async move { importer.import(entry).await.map(drop) })
            });
            for done in join_all(importing).await {
                done.unwrap().unwrap();
            }
        }
        for page in &pages {
            assert_eq!(hidden_by(&store.backend, page).await, Some(hiding()), "{}", store.name);
        }
    }
}

#[tokio::test]
async fn what_operators_did_last_counts_in_whatever_order_the_entries_come() {
    let orders = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
    for store in stores().await {
        let (name, importer) = (store.name, importer(&store.backend));
        for order in orders {
            let first = page("text");
            let hidden = with_head(&first, |head| head.turned(Some(hiding()), at(5)));
            // The backup was made while the page was hidden.
            let shown = [noted(&first, 5, Some(hiding())), noted(&first, 7, None), Entry::of(&hidden)];
            for number in order {
                importer.import(shown[number].clone()).await.unwrap();
            }
            assert_eq!(hidden_by(&store.backend, &first).await, None, "{name}: {order:?}");

            let first = page("text");
            let again = Takedown::new(TakedownReason::Malware, "other desk").unwrap();
            let hidden = [noted(&first, 7, None), noted(&first, 9, Some(again.clone())), Entry::of(&first)];
            for number in order {
                importer.import(hidden[number].clone()).await.unwrap();
            }
            assert_eq!(hidden_by(&store.backend, &first).await, Some(again.clone()), "{name}: {order:?}");
        }
    }
}

#[tokio::test]
async fn a_page_that_changed_after_it_was_shown_again_is_not_hidden_by_an_older_ledger() {
    for store in stores().await {
        let first = page("first");
        let later = with_head(&edited(&first, "later"), |head| PageHead { version: PageVersion::new(9), ..head });
        let importer = importer(&store.backend);
        for entry in [noted(&first, 5, Some(hiding())), Entry::of(&later), noted(&first, 5, Some(hiding()))] {
            importer.import(entry).await.unwrap();
        }
        assert_eq!(hidden_by(&store.backend, &later).await, None, "{}", store.name);
    }
}

#[tokio::test]
async fn of_two_older_archives_the_newer_text_stays_under_a_page_that_the_ledger_hides() {
    for store in stores().await {
        let first = page("first");
        let second = with_head(&edited(&first, "second"), |head| PageHead { updated_at: at(2), ..head });
        let importer = importer(&store.backend);
        for entry in [noted(&first, 5, Some(hiding())), Entry::of(&first), Entry::of(&second), Entry::of(&first)] {
            importer.import(entry).await.unwrap();
        }
        assert_eq!(hidden_by(&store.backend, &second).await, Some(hiding()), "{}", store.name);
    }
}

#[tokio::test]
async fn the_ledger_has_what_operators_did_and_forgets_it_of_no_page_but_a_deleted_one() {
    for store in stores().await {
        let (name, store) = (store.name, store.backend);
        let first = Arc::new(page("text"));
        store.insert_if_absent(Arc::clone(&first), None).await.unwrap();
        assert_eq!(store.visibility(&first.head.slug).await.unwrap(), None, "{name}");
        let mut page = first;
        for (millis, hidden) in [(5, Some(hiding())), (6, None), (7, Some(hiding()))] {
            let next = with_head(&page, |head| head.turned(hidden, at(millis)));
            let swap = store.compare_and_set(page.head.version, Record::Active(Arc::clone(&next)), None).await;
            assert_eq!(swap.unwrap(), CasResult::Swapped, "{name}");
            assert_eq!(store.visibility(&next.head.slug).await.unwrap(), Some(next.head.visibility()), "{name}");
            page = next;
        }
        let tombstone = page.head.tombstone(at(8));
        store.compare_and_set(page.head.version, Record::Deleted(tombstone.clone()), None).await.unwrap();
        let Entry::Visibility(late) = noted(&page, 9, None) else { unreachable!() };
        assert!(!store.keep_visibility(late.clone()).await.unwrap(), "{name}");
        importer(&store).import(Entry::Visibility(late)).await.unwrap();
        assert_eq!(store.lookup(&page.head.slug).await.unwrap(), Lookup::Deleted(tombstone), "{name}");
    }
}

//! The contract of `OperatedStore` and of `CreatesSwitch`.

use std::collections::HashSet;
use std::sync::Arc;

use handbill_pages::ports::page_store::{Expected, PutResult};
use handbill_pages::values::record::Record;
use handbill_pages::values::slug::Slug;
use handbill_pages::values::takedown::{Takedown, TakedownReason};
use handbill_pages::values::timestamp::UnixMillis;
use handbill_test_support::journal::lines;
use handbill_test_support::pages::{CREATED, edited, insert, page, replace, turned, with_head};
use serde_json::{Value, json};

use super::super::backends::{empty_stores, stores};
use super::Started;

#[tokio::test]
async fn creates_are_paused_until_they_are_resumed() {
    for Started { name, backend: store, _beside } in empty_stores().await {
        assert!(!store.paused().await.unwrap(), "{name}");
        for paused in [true, true, false, false] {
            store.set_paused(paused).await.unwrap();
            assert_eq!(store.paused().await.unwrap(), paused, "{name}");
        }
    }
}

#[tokio::test]
async fn the_journal_has_each_act_and_no_other_change() {
    let at = |millis: i64| UnixMillis::new(CREATED + millis);
    let takedown = || Takedown::new(TakedownReason::Phishing, "desk, ticket 7").unwrap();
    for Started { name, backend: store, _beside } in stores().await {
        let [stored, taken] = ["stored", "taken"].map(|text| Arc::new(page(text)));
        for page in [&stored, &taken] {
            assert_eq!(insert(&*store, page.clone()).await, PutResult::Done, "{name}");
        }
        let stale = Record::Deleted(stored.head.tombstone(at(1)));
        let later = with_head(&stored, |head| head.changed(at(1)));
        assert_eq!(replace(&*store, &later.head, stale).await, PutResult::Refused, "{name}");
        let changed = edited(&stored, "changed");
        let hidden = turned(&changed, Some(takedown()), 2000);
        let shown = turned(&changed, None, 2001);
        let deleted = shown.page().unwrap().head.tombstone(at(2002));
        let slugs = [stored.head.slug.clone(), taken.head.slug.clone()];
        let mut present = Record::Active(stored.clone());
        for next in [Record::Active(changed), hidden, shown, Record::Deleted(deleted)] {
            assert_eq!(replace(&*store, &present.head(), next.clone()).await, PutResult::Done, "{name}");
            present = next;
        }
        let takedown_of_taken = Record::Deleted(taken.head.taken_down(takedown(), at(2003)));
        assert_eq!(replace(&*store, &taken.head, takedown_of_taken).await, PutResult::Done, "{name}");
        let gone = page("deleted elsewhere").head.tombstone(at(2004));
        let away = turned(&page("hidden elsewhere"), Some(takedown()), 2005);
        let slugs = [slugs.to_vec(), vec![gone.slug.clone(), away.slug().clone()]].concat();
        for (next, result) in [
            (Record::Deleted(gone.clone()), PutResult::Done),
            (Record::Deleted(gone), PutResult::Refused),
            (away, PutResult::Done),
        ] {
            assert_eq!(store.put(Expected::Absent, next, None).await.unwrap(), result, "{name}");
        }

        let line = |kind: &str, slug: &Slug, version: u64, millis: i64| {
            let line = json!({"kind": kind, "slug": slug.as_str(), "version": version, "at": at(millis).to_string()});
            (at(millis).to_string(), line)
        };
        let signed = |(at, mut line): (String, Value)| {
            line["reason"] = "phishing".into();
            line["by"] = "desk, ticket 7".into();
            (at, line)
        };
        let named: HashSet<_> = slugs.iter().map(Slug::as_str).collect();
        let found = lines(&*store).await.into_iter().filter(|line| named.contains(&*line.slug));
        let mut found: Vec<_> = found.map(|line| (line.at.clone(), serde_json::to_value(line).unwrap())).collect();
        found.sort_by(|one, other| one.0.cmp(&other.0));
        let [stored, taken, gone, away] = &slugs[..] else { panic!() };
        let expected = [
            signed(line("hide", stored, 2, 2000)),
            line("show", stored, 2, 2001),
            line("delete", stored, 3, 2002),
            signed(line("takedown", taken, 2, 2003)),
            line("delete", gone, 2, 2004),
            signed(line("hide", away, 1, 2005)),
        ];
        assert_eq!(found, expected, "{name}");
    }
}

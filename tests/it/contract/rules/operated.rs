//! The contract of `OperatedStore` and of `CreatesSwitch`.

use std::collections::HashSet;
use std::sync::Arc;

use handbill_pages::ports::page_store::{Expected, PutResult, Record};
use handbill_pages::values::page::PageVersion;
use handbill_pages::values::slug::Slug;
use handbill_pages::values::takedown::{Takedown, TakedownReason};
use handbill_pages::values::timestamp::UnixMillis;
use serde_json::{Value, json};

use super::super::backends::{empty_stores, stores};
use crate::support::journal::lines;
use crate::support::pages::{CREATED, edited, insert, page, replace, with_head};

#[tokio::test]
async fn creates_are_paused_until_they_are_resumed() {
    for store in empty_stores().await {
        let (name, store) = (store.name, store.backend);
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
    for store in stores().await {
        let (name, store) = (store.name, store.backend);
        let [turned, taken] = ["turned", "taken"].map(|text| Arc::new(page(text)));
        for page in [&turned, &taken] {
            assert_eq!(insert(&*store, page.clone()).await, PutResult::Done, "{name}");
        }
        let swap = async |expected: u64, next| replace(&*store, PageVersion::new(expected), next).await;
        let stale = turned.head.tombstone(at(1));
        assert_eq!(swap(9, Record::Deleted(stale)).await, PutResult::Refused, "{name}");
        let changed = edited(&turned, "changed");
        let hidden = with_head(&changed, |head| head.with_hidden(Some(takedown()), at(2000)));
        let shown = with_head(&hidden, |head| head.with_hidden(None, at(2001)));
        let deleted = shown.head.tombstone(at(2002));
        let slugs = [turned.head.slug.clone(), taken.head.slug.clone()];
        for (expected, next) in [
            (1, Record::Active(changed)),
            (2, Record::Active(hidden)),
            (3, Record::Active(shown)),
            (4, Record::Deleted(deleted)),
            (1, Record::Deleted(taken.head.taken_down(takedown(), at(2003)))),
        ] {
            assert_eq!(swap(expected, next).await, PutResult::Done, "{name}");
        }
        let gone = page("deleted elsewhere").head.tombstone(at(2004));
        let away = with_head(&page("hidden elsewhere"), |head| head.with_hidden(Some(takedown()), at(2005)));
        let slugs = [slugs.to_vec(), vec![gone.slug.clone(), away.head.slug.clone()]].concat();
        for (next, result) in [
            (Record::Deleted(gone.clone()), PutResult::Done),
            (Record::Deleted(gone), PutResult::Refused),
            (Record::Active(away), PutResult::Done),
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
        let [turned, taken, gone, away] = &slugs[..] else { panic!() };
        let expected = [
            signed(line("hide", turned, 3, 2000)),
            line("show", turned, 4, 2001),
            line("delete", turned, 5, 2002),
            signed(line("takedown", taken, 2, 2003)),
            line("delete", gone, 2, 2004),
            signed(line("hide", away, 2, 2005)),
        ];
        assert_eq!(found, expected, "{name}");
    }
}

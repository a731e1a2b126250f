//! Both sides of a cut change the same pages, the side that wrote is lost, and the two meet again.

use std::collections::BTreeSet;
use std::sync::Arc;

use handbill_core::domain::audit::AuditAction;
use handbill_core::domain::content::Content;
use handbill_core::domain::markdown::render;
use handbill_core::domain::page::{HeadChanges, Page};
use handbill_core::domain::slug::Slug;
use handbill_core::domain::takedown::{Hiding, Takedown, TakedownReason};
use handbill_core::domain::timestamp::UnixMillis;
use handbill_core::domain::title::Title;
use handbill_core::ports::audit_log::AuditLog;
use handbill_core::ports::page_store::{CasResult, Lookup, PageStore, Record, StoreError};
use handbill_store_cql::CqlStore;

use super::clients::{Clients, Told};
use super::ring;
use crate::datacenters::moves::{insert, until};
use crate::datacenters::ring::{EAST, Ring, WEST};
use crate::environment::in_time;
use crate::support::pages::{CREATED, page, with_head};

/// Writes that the clients of a side have made before the next thing happens to it.
const WRITES: usize = 40;

/// Pages that all clients of both sides change.
const SHARED: usize = 4;

/// The act of a side on a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    Nothing,
    Edit,
    Rename,
    Hide,
    Delete,
    TakeDown,
}

impl Act {
    const ALL: [Self; 6] = [Self::Nothing, Self::Edit, Self::Rename, Self::Hide, Self::Delete, Self::TakeDown];

    fn deletes(self) -> bool {
        matches!(self, Self::Delete | Self::TakeDown)
    }

    /// The record that `side` makes of `page`.
    fn record(self, page: &Arc<Page>, side: &str, at: i64) -> Record {
        let (at, text) = (UnixMillis::new(at), format!("Changed in the {side}."));
        let takedown = Takedown::new(TakedownReason::Spam, side).unwrap();
        let hiding = Hiding { takedown: takedown.clone(), until: UnixMillis::new(CREATED * 2) };
        let title = HeadChanges { title: Some(Title::parse(&text).ok()) };
        match self {
            Self::Nothing => Record::Active(Arc::clone(page)),
            Self::Edit => Record::Active(changed(page, &text, at)),
            Self::Rename => Record::Active(with_head(page, |head| head.updated(title, at))),
            Self::Hide => Record::Active(with_head(page, |head| head.turned(Some(hiding), at))),
            Self::Delete => Record::Deleted(page.head.tombstone(at)),
            Self::TakeDown => Record::Deleted(page.head.taken_down(takedown, at)),
        }
    }
}

/// `page` after its content became `content`.
pub(super) fn changed(page: &Page, content: &str, at: UnixMillis) -> Arc<Page> {
    let head = page.head.clone().updated(HeadChanges::default(), at);
    Arc::new(Page::new(head, Content::parse(content.to_owned()).unwrap(), render(content)))
}

/// A page, and what each side does with it before they meet again, one later than the other.
struct Case {
    page: Arc<Page>,
    earlier: Change,
    later: Change,
}

/// The act of a side, and its time by the clock there.
#[derive(Clone, Copy, Debug)]
struct Change {
    side: &'static str,
    act: Act,
    at: i64,
}

impl Case {
    /// Every act of one side after every act of the other, with clocks that are behind and ahead of the other's.
    fn all() -> Vec<Self> {
        let pairs = Act::ALL.into_iter().flat_map(|earlier| Act::ALL.map(|later| (earlier, later)));
        let sides = pairs.flat_map(|acts| [(WEST, EAST), (EAST, WEST)].map(|sides| (acts, sides)));
        let cases = sides.flat_map(|(acts, sides)| [1000, 3000].map(|later_at| (acts, sides, CREATED + later_at)));
        let case = |((earlier, later), sides, at): ((Act, Act), (&'static str, &'static str), i64)| Self {
            page: Arc::new(page("before")),
            earlier: Change { side: sides.0, act: earlier, at: CREATED + 2000 },
            later: Change { side: sides.1, act: later, at },
        };
        cases.map(case).collect()
    }

    async fn change(&self, store: &CqlStore, Change { side, act, at }: Change) {
        if act != Act::Nothing {
            // As each request does, so that the replica knows the text, and keeps it.
            let found = store.lookup(&self.page.head.slug).await.unwrap();
            assert_eq!(found, Lookup::Active(Arc::clone(&self.page)), "{act:?} in the {side}");
            let done = store.compare_and_set(self.page.head.version, act.record(&self.page, side, at), None).await;
            assert_eq!(done.unwrap(), CasResult::Swapped, "{act:?} in the {side}");
        }
    }

    fn is_deleted(&self) -> bool {
        self.earlier.act.deletes() || self.later.act.deletes()
    }

    fn is_hidden(&self) -> bool {
        [self.earlier.act, self.later.act].contains(&Act::Hide) && !self.is_deleted()
    }

    /// Whether the head that was written later goes on naming the text that the other side has deleted.
    fn lacks_text(&self) -> bool {
        self.earlier.act == Act::Edit && matches!(self.later.act, Act::Rename | Act::Hide)
    }

    /// The line of `handbill reconcile` about this page at first.
    fn line(&self) -> Option<String> {
        let slug = &self.page.head.slug;
        match (self.earlier.act, self.later.act) {
            (Act::Delete | Act::TakeDown, Act::Edit | Act::Rename | Act::Hide) => {
                Some(format!("deleted again: {slug}"))
            }
            (Act::Hide, Act::Edit | Act::Rename) => Some(format!("hidden again: {slug}")),
            _ => self.missing(),
        }
    }

    /// The line that stays: nothing brings the text back.
    fn missing(&self) -> Option<String> {
        self.lacks_text().then(|| format!("the text is missing: {}", self.page.head.slug))
    }

    async fn check(&self, store: &CqlStore) {
        let found = store.lookup(&self.page.head.slug).await;
        let Change { side, act, at } = if self.later.act == Act::Nothing { self.earlier } else { self.later };
        let is_as_promised = match &found {
            Ok(Lookup::Deleted(_)) => self.is_deleted(),
            _ if self.is_deleted() => false,
            Ok(Lookup::Hidden(_)) => self.is_hidden(),
            Err(StoreError::Unreadable(_)) => self.lacks_text() && !self.is_hidden(),
            Ok(Lookup::Active(found)) if !self.is_hidden() && !self.lacks_text() => {
                Record::Active(Arc::clone(found)) == act.record(&self.page, side, at)
            }
            _ => false,
        };
        assert!(is_as_promised, "{:?}, then {:?}: {found:?}", self.earlier, self.later);
    }
}

/// The lines of `handbill reconcile`, its last one and its exit code. Before a database that is too slow it is run again, as it says.
async fn reconcile(ring: &Ring) -> (BTreeSet<String>, String, Option<i32>) {
    let mut lines = BTreeSet::new();
    let reconciling = async {
        loop {
            let said = ring.command("reconcile", &["--scylla-datacenter", EAST]).await;
            lines.extend(said.output.lines().map(str::to_owned));
            if said.code != Some(2) || !said.errors.contains("run it again") {
                let last = said.output.lines().last().unwrap_or_default().to_owned();
                lines.remove(&last);
                return (last, said.code);
            }
        }
    };
    let (last, code) = in_time("the end of reconcile", reconciling).await;
    (lines, last, code)
}

/// The slugs of pages whose takedown is in the audit.
async fn takedowns(store: &CqlStore) -> BTreeSet<Slug> {
    let (mut slugs, mut last) = (BTreeSet::new(), 0);
    loop {
        let entries = store.list(last, 100).await.unwrap();
        let Some(end) = entries.last() else { return slugs };
        last = end.number;
        slugs.extend(entries.into_iter().filter_map(|entry| match entry.entry.action {
            AuditAction::Takedown { slug, .. } => Some(slug),
            _ => None,
        }));
    }
}

/// The two sides meet again, as the manual says, while the clients of the east go on.
async fn meet(ring: &Ring, cases: &[Case]) {
    ring.heal().await;
    let again = ring.failover(EAST, &[]).await;
    assert!(again.code == Some(0) && again.output.contains("writes already"), "{again:?}");
    ring.repair().await;
    let (lines, _, code) = reconcile(ring).await;
    assert_eq!((lines, code), (cases.iter().filter_map(Case::line).collect(), Some(1)));
    let (lines, last, code) = reconcile(ring).await;
    assert_eq!((lines, code), (cases.iter().filter_map(Case::missing).collect(), Some(1)));
    assert_eq!(last, "Deleted 0 pages and hid 0 again. The text of 8 pages is missing.");
}

#[tokio::test(flavor = "multi_thread")]
async fn after_both_sides_changed_the_same_pages_all_that_was_acknowledged_is_there_but_what_the_manual_says() {
    let ring = ring().await;
    let west = ring.patient_store(WEST).await;
    let (cases, shared) = (Case::all(), [(); SHARED].map(|()| Arc::new(page("before"))));
    for page in cases.iter().map(|case| &case.page).chain(&shared) {
        insert(&west, page).await.unwrap();
    }
    ring.repair().await;
    let of_west = Clients::begin(&ring, WEST, &shared).await;
    let of_east = Clients::begin(&ring, EAST, &shared).await;
    of_west.until_acknowledged(WRITES).await;

    // Nothing of this is copied. The replicas of the west go on, although the operator says that they are stopped.
    ring.cut();
    for case in cases.iter().filter(|case| case.earlier.side == WEST) {
        case.change(&west, case.earlier).await;
    }
    let forced = ring.failover(EAST, &["--force", "--yes", "--force-answers"]).await;
    assert_eq!(forced.code, Some(0), "{forced:?}");
    let east = ring.patient_store(EAST).await;
    until(&east, true).await;
    for case in &cases {
        case.change(&east, if case.earlier.side == EAST { case.earlier } else { case.later }).await;
    }
    for case in cases.iter().filter(|case| case.later.side == WEST) {
        case.change(&west, case.later).await;
    }
    of_east.until_acknowledged(WRITES).await;
    of_west.until_acknowledged(WRITES).await;

    // Then the west is lost.
    ring.kill(WEST).await;
    drop(west);
    let told_west = of_west.end().await;
    of_east.until_acknowledged(WRITES).await;
    assert!(told_west.last_acknowledged() > of_east.first_acknowledged(), "otherwise they did not write at once");
    meet(&ring, &cases).await;
    let told_east = of_east.end().await;
    ring.repair().await;

    let west = ring.patient_store(WEST).await;
    let audited = takedowns(&east).await;
    for store in [&east, &west] {
        for case in &cases {
            case.check(store).await;
        }
        for told in [&told_west, &told_east] {
            told.check_own(store).await;
        }
        Told::check_shared(&[&told_west, &told_east], store).await;
    }
    let of_cases = cases.iter().filter(|case| [case.earlier.act, case.later.act].contains(&Act::TakeDown));
    let confirmed =
        of_cases.map(|case| &case.page.head.slug).chain(told_west.taken_down()).chain(told_east.taken_down());
    assert_eq!(confirmed.filter(|slug| !audited.contains(*slug)).collect::<Vec<_>>(), Vec::<&Slug>::new());
    println!("{told_west} in the west, {told_east} in the east");
}

//! A planned move beside all that goes on in a cluster: two replicas a side with their clients, and sweeps, imports and takedowns.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use handbill_core::domain::archive::{Encoder, Entry};
use handbill_core::domain::page::Page;
use handbill_core::ports::clock::{Clock, SystemClock};
use handbill_core::ports::page_store::{Lookup, PageStore};
use handbill_store_cql::CqlStore;
use tempfile::TempDir;
use tokio::sync::watch;

use super::midway::{Midway, leave_texts};
use super::moves::{insert, until};
use super::ring::{EAST, Ring, Said, WEST};
use crate::cluster::calls::{Published, Reply, create, delete, publish, read, rewrite};
use crate::environment::in_time;
use crate::replica::Replica;
use crate::support::pages::page;

/// Pause of a client between two pages, so that there are not too many to look at afterwards.
const PACE: Duration = Duration::from_millis(100);

/// How often something is asked that is true soon.
const AGAIN: Duration = Duration::from_millis(20);

/// The commands of operators beside the move.
const COMMANDS: [&str; 3] = ["sweep", "import", "takedown"];

/// Pages of one archive, those that one pattern takes down, and texts for one sweep.
const IMPORTED_AT_ONCE: usize = 20;
const TAKEN_DOWN_AT_ONCE: usize = 3;
const SWEPT_AT_ONCE: usize = 4;

/// Pages that an export has, of which half are edited since and half deleted.
const EXPORTED: usize = 16;

/// How far the move is, as those beside it know it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Before,
    /// The old side goes on writing, and both confirm.
    Copying,
    /// The new side writes.
    Moved,
}

/// Two processes in `datacenter`. There is no Redis, since nobody is limited.
async fn replicas(ring: &Ring, datacenter: &str) -> [Replica; 2] {
    let anywhere = "127.0.0.1:0".parse().unwrap();
    let limits = ["--redis-url", "redis://127.0.0.1:1", "--create-limit", "0", "--edit-limit", "0", "--log", "off"];
    let options = [&ring.options()[..], &["--scylla-datacenter", datacenter], &limits].concat();
    let start = async || {
        let replica = Replica::start(anywhere, anywhere, &options).await;
        replica.ready().await;
        replica
    };
    [start().await, start().await]
}

/// The reply to a read, once the database has time to answer.
async fn answered(replica: SocketAddr, page: &Published) -> Reply {
    let reading = async {
        loop {
            let reply = read(replica, page).await;
            if reply.status != 503 {
                return reply;
            }
            tokio::time::sleep(AGAIN).await;
        }
    };
    in_time("an answer to a read", reading).await
}

/// A page that a client has published, and what it may show.
struct Written {
    sent: Instant,
    answered: Instant,
    page: Published,
    contents: Vec<&'static str>,
}

impl Written {
    fn check(&self, reply: &Reply) {
        let Self { page, contents, .. } = self;
        let shows_one = reply.status == 200 && contents.contains(&reply.text("content"));
        assert!(shows_one, "{page:?} with {contents:?}: {reply:?}");
    }
}

/// Publishes pages at `replica` and changes them until the move is over, one at least, and looks at each at the `other` replica of
/// the same side.
async fn write(replica: SocketAddr, other: SocketAddr, phase: watch::Receiver<Phase>) -> Vec<Written> {
    let mut all = Vec::new();
    while all.is_empty() || *phase.borrow() != Phase::Moved {
        let sent = Instant::now();
        let reply = create(replica, Ipv4Addr::LOCALHOST).await;
        if reply.status == 201 {
            let page = Published { slug: reply.text("slug").to_owned(), key: reply.text("edit_key").to_owned() };
            let mut written = Written { sent, answered: Instant::now(), page, contents: vec!["first"] };
            let reply = rewrite(replica, &written.page, "second").await;
            match reply.status {
                200 => (written.answered, written.contents) = (Instant::now(), vec!["second"]),
                // It may have been done.
                _ => written.contents.push("second"),
            }
            written.check(&answered(other, &written.page).await);
            all.push(written);
        }
        tokio::time::sleep(PACE).await;
    }
    all
}

/// The work of operators on the side that writes, one command after the other.
struct Upkeep<'a> {
    ring: &'a Ring,
    west: &'a CqlStore,
    files: TempDir,
    old: PathBuf,
    /// The commands that have succeeded, and how often one that was begun while the move copied.
    done: watch::Sender<BTreeSet<&'static str>>,
    during: BTreeMap<&'static str, usize>,
    /// The pages of imports that succeeded, and of the others.
    imported: Vec<Arc<Page>>,
    offered: Vec<Arc<Page>>,
    /// The slugs that a takedown has confirmed.
    taken_down: BTreeSet<String>,
    /// The last answers.
    last: BTreeMap<&'static str, Said>,
}

impl Upkeep<'_> {
    /// Goes on until each command was called once more after the move.
    async fn go_on(&mut self, phase: watch::Receiver<Phase>) {
        for round in 0.. {
            let is_last = *phase.borrow() == Phase::Moved;
            leave_texts(self.ring, SWEPT_AT_ONCE).await;
            self.command("sweep", &["--min-age", "10m"], &phase).await;
            self.import(round, &phase).await;
            self.take_down(round, is_last, &phase).await;
            if is_last {
                return;
            }
        }
    }

    async fn command(&mut self, name: &'static str, arguments: &[&str], phase: &watch::Receiver<Phase>) -> bool {
        let is_beside = *phase.borrow() == Phase::Copying;
        let said = self.ring.command(name, &[arguments, &["--scylla-datacenter", WEST]].concat()).await;
        let is_done = said.code == Some(0);
        if is_done {
            self.done.send_if_modified(|done| done.insert(name));
        }
        *self.during.entry(name).or_default() += usize::from(is_done && is_beside);
        self.last.insert(name, said);
        is_done
    }

    /// Imports pages that the cluster has never had, and an older export of what it has.
    async fn import(&mut self, round: usize, phase: &watch::Receiver<Phase>) {
        let pages: Vec<_> = (0..IMPORTED_AT_ONCE).map(|number| Arc::new(page(&format!("imported {number}")))).collect();
        let (mut encoder, mut lines) = Encoder::begin(SystemClock::new().now(), "a test".to_owned(), None);
        for page in &pages {
            lines.push_str(&encoder.entry(&Entry::of(page)));
        }
        lines.push_str(&encoder.end());
        let fresh = self.files.path().join(format!("{round}.ndjson"));
        fs::write(&fresh, lines).unwrap();
        let old = self.old.clone();
        let files = [&fresh, &old].map(|file| file.to_str().unwrap());
        let is_done = self.command("import", &files, phase).await;
        let told = if is_done { &mut self.imported } else { &mut self.offered };
        told.extend(pages);
    }

    /// Takes down by a pattern what was published for it. The last pattern finds a page of before the move.
    async fn take_down(&mut self, round: usize, is_last: bool, phase: &watch::Receiver<Phase>) {
        let pattern = if is_last { "the last bargain".to_owned() } else { format!("bargain {round}\\b") };
        if !is_last {
            for _ in 0..TAKEN_DOWN_AT_ONCE {
                // While the fence is closed there may be none.
                drop(insert(self.west, &Arc::new(page(&format!("A bargain {round} for you.")))).await);
            }
        }
        let by = ["--matching", &pattern, "--reason", "spam", "--by", "desk", "--yes"];
        self.command("takedown", &by, phase).await;
        let lines = self.last["takedown"].output.lines();
        let confirmed =
            lines.filter_map(|line| line.split_once('\t').filter(|(_, result)| result.starts_with("taken_down")));
        self.taken_down.extend(confirmed.map(|(slug, _)| slug.to_owned()));
    }
}

/// Pages that an export has in another state than the cluster.
struct Older {
    edited: Vec<Published>,
    deleted: Vec<Published>,
}

impl Older {
    async fn exported(ring: &Ring, replica: SocketAddr, file: &Path) -> Self {
        let pages = join_all((0..EXPORTED).map(|_| publish(replica))).await;
        let written =
            ring.command("export", &[file.to_str().unwrap(), "--scylla-datacenter", WEST, "--by", "desk"]).await;
        assert_eq!(written.code, Some(0), "{written:?}");
        let (edited, deleted) = pages.split_at(EXPORTED / 2);
        for page in edited {
            rewrite(replica, page, "newer than the export").await.expect_status(200);
        }
        for page in deleted {
            delete(replica, page).await.expect_status(204);
        }
        Self { edited: edited.to_vec(), deleted: deleted.to_vec() }
    }
}

/// Checks that every replica serves what was written there, or in time copied there, and nothing that was deleted.
async fn check_served(replicas: &[SocketAddr], written: &[Written], older: &Older, taken_down: &BTreeSet<String>) {
    let gone = taken_down.iter().map(|slug| Published { slug: slug.clone(), key: String::new() });
    let gone: &Vec<_> = &gone.chain(older.deleted.iter().cloned()).collect();
    let check = |&replica: &SocketAddr| async move {
        for written in written {
            written.check(&answered(replica, &written.page).await);
        }
        for page in &older.edited {
            assert_eq!(answered(replica, page).await.expect_status(200).text("content"), "newer than the export");
        }
        for page in gone {
            answered(replica, page).await.expect_status(410);
        }
    };
    join_all(replicas.iter().map(check)).await;
}

/// Checks that each page of an import that succeeded is whole, and each other one whole or absent.
async fn check_imported(store: &CqlStore, imported: &[Arc<Page>], offered: &[Arc<Page>]) {
    for (number, page) in imported.iter().chain(offered).enumerate() {
        match store.lookup(&page.head.slug).await.unwrap() {
            Lookup::Active(found) => assert_eq!((&found.text, found.head.state()), (&page.text, page.head.state())),
            found => assert!(found == Lookup::Absent && number >= imported.len(), "{found:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn beside_two_replicas_a_side_sweeps_imports_and_takedowns_a_planned_move_loses_nothing_and_ends_those_of_the_old_side()
 {
    let ring = Ring::migrated().await;
    let (in_west, in_east) = (replicas(&ring, WEST).await, replicas(&ring, EAST).await);
    let [west, east] = [&in_west, &in_east].map(|replicas| replicas.each_ref().map(|replica| replica.public));
    let (store, new_store) = (ring.patient_store(WEST).await, ring.patient_store(EAST).await);
    let files = tempfile::tempdir().unwrap();
    let old = files.path().join("old.ndjson");
    let older = Older::exported(&ring, west[0], &old).await;
    let last = Arc::new(page("This is the last bargain."));
    insert(&store, &last).await.unwrap();
    let midway = Midway::begin(&ring).await;

    let (phase, watched) = watch::channel(Phase::Before);
    let clients = [(west[0], west[1]), (west[1], west[0]), (east[0], east[1]), (east[1], east[0])];
    let clients = clients.map(|(replica, other)| tokio::spawn(write(replica, other, watched.clone())));
    let mut upkeep = Upkeep {
        ring: &ring,
        west: &store,
        files,
        old,
        done: watch::Sender::default(),
        during: BTreeMap::new(),
        imported: Vec::new(),
        offered: Vec::new(),
        taken_down: BTreeSet::new(),
        last: BTreeMap::new(),
    };
    let mut done = upkeep.done.subscribe();
    let moving = async {
        // They go on without a pause, however long each takes.
        in_time("each command once", done.wait_for(|done| done.len() == COMMANDS.len())).await.unwrap();
        let copying = async { _ = phase.send_replace(Phase::Copying) };
        let moved = ring.failover_and(EAST, "west goes on writing", copying).await;
        assert!(moved.code == Some(0) && moved.output.contains("east writes from now on"), "{moved:?}");
        until(&new_store, true).await;
        phase.send_replace(Phase::Moved);
    };
    tokio::join!(moving, upkeep.go_on(watched.clone()));
    let written =
        in_time("a page of each client", join_all(clients)).await.into_iter().map(Result::unwrap).collect::<Vec<_>>();
    let [first, second, third, fourth] = <[Vec<Written>; 4]>::try_from(written).ok().unwrap();
    let [of_west, of_east] =
        [(first, second), (third, fourth)].map(|(one, other)| one.into_iter().chain(other).collect::<Vec<_>>());

    let last_in_west = of_west.iter().map(|written| written.answered).max().expect("there is one");
    assert!(of_east.iter().all(|written| written.sent > last_in_west), "both sides wrote at once");
    println!("{} pages in the west, {} in the east, {:?}", of_west.len(), of_east.len(), upkeep.during);
    for name in COMMANDS {
        let said = &upkeep.last[name];
        assert!(said.code != Some(0) && said.errors.contains(EAST), "{name} on the side that closed: {said:?}");
    }
    midway.end(&ring, &new_store).await;

    let all = [east, west].concat();
    check_served(&all, &of_west, &older, &upkeep.taken_down).await;
    check_imported(&new_store, &upkeep.imported, &upkeep.offered).await;
    assert_eq!(new_store.lookup(&last.head.slug).await.unwrap(), Lookup::Active(last), "its takedown was refused");
    ring.repair().await;
    check_served(&all, &of_east, &older, &upkeep.taken_down).await;
    let checked = ring.command("check", &["--scylla-datacenter", EAST]).await;
    assert!(checked.code == Some(0) && checked.output.starts_with("whole;"), "{checked:?}");
}

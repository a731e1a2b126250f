//! Commands that operators run while clients are at work: exports, and imports of older exports; and commands that are interrupted.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use handbill_pages::ports::clock::{Clock, SystemClock};
use handbill_pages::ports::page_store::PageStore;
use handbill_pages::ports::random::Random;
use handbill_pages::values::record::Record;
use handbill_pages::values::slug::Slug;
use handbill_pages::values::timestamp::UnixMillis;
use handbill_store_scylla::{Limits, ScyllaStore};
use handbill_test_support::client::get;
use handbill_test_support::environment::until;
use handbill_test_support::interruption::interrupted_takedown;
use handbill_test_support::journal::lines;
use handbill_test_support::server::{Server, program};
use serde_json::Value;
use tempfile::{TempDir, tempdir};
use tokio::sync::watch;

use super::calls::publish;
use super::service::{Service, Settings};
use crate::deployment::ending_with_us;

/// The commands, one after the other, each as a process of its own, which asks a replica.
pub(crate) struct Upkeep {
    socket: PathBuf,
    files: TempDir,
    done: BTreeMap<&'static str, usize>,
}

impl Upkeep {
    pub(crate) fn of(service: &Service) -> Self {
        Self { socket: service.socket(1), files: tempdir().expect("there is room"), done: BTreeMap::new() }
    }

    /// Goes on until `is_over`. How often each command succeeded; one that meets a fault may fail.
    pub(crate) async fn go_on(mut self, is_over: watch::Receiver<bool>) -> BTreeMap<&'static str, usize> {
        let mut before: Option<PathBuf> = None;
        for number in 1.. {
            let file = self.files.path().join(format!("{number}.ndjson"));
            let output = File::create(&file).expect("there is room");
            let is_whole = self.command("export", None, output.into()).await;
            // By now clients have changed, hidden and deleted what an older file has.
            if let Some(older) = &before {
                self.command("import", Some(older), Stdio::null()).await;
            }
            if is_whole {
                before = Some(file);
            }
            if *is_over.borrow() {
                break;
            }
        }
        self.done
    }

    async fn command(&mut self, name: &'static str, file: Option<&Path>, output: Stdio) -> bool {
        let mut command = ending_with_us(&program());
        command.env_clear().arg(name).args(file).arg("--admin-socket").arg(&self.socket).kill_on_drop(true);
        let ended = command.stdout(output).stderr(Stdio::null()).status().await.expect("it starts");
        *self.done.entry(name).or_default() += usize::from(ended.success());
        ended.success()
    }
}

/// A minute ahead: an export settles what is open of acts that are not of this moment.
struct Later(SystemClock);

impl Clock for Later {
    fn now(&self) -> UnixMillis {
        UnixMillis::new(self.0.now().get() + 60_000)
    }

    fn monotonic(&self) -> Duration {
        self.0.monotonic()
    }
}

/// How often takedowns had each outcome, by the metrics of all replicas.
fn counted(replicas: &[Server]) -> BTreeMap<String, usize> {
    let mut counted = BTreeMap::new();
    for replica in replicas {
        for line in get(replica.admin, "/metrics").unwrap().text().lines() {
            let Some((_, rest)) = line.split_once("{action=\"takedown\",outcome=\"") else { continue };
            let (outcome, count) = rest.split_once("\"} ").unwrap();
            *counted.entry(outcome.to_owned()).or_default() += count.parse::<usize>().unwrap();
        }
    }
    counted
}

/// Acts that the database decides late, as the last ones here and any on a busy machine, have the outcome `failed`, and the page
/// may be gone.
#[tokio::test(flavor = "multi_thread")]
async fn each_act_of_an_interrupted_command_is_logged_and_counted_and_what_is_gone_is_in_the_journal() {
    const MOMENTS: u8 = 50;
    const AT_ONCE: usize = 8;
    let mut service = Service::start(Settings { drain_delay: Duration::ZERO, ..Settings::unlimited() }).await;
    let mut pages = BTreeSet::new();
    for moment in 1..=MOMENTS {
        let published = join_all((0..AT_ONCE).map(|_| publish(service.balancer))).await;
        let named: Vec<_> = published.into_iter().map(|page| page.slug).collect();
        let number = moment % 3 + 1;
        let admin = service.replicas[usize::from(number) - 1].admin;
        interrupted_takedown(&service.socket(number), &named, || {
            // Each answer takes the replica a little longer.
            (0..4 * u32::from(moment % MOMENTS)).for_each(|_| drop(get(admin, "/livez").unwrap()));
            if moment == MOMENTS {
                service.nodes.hang(2);
                service.nodes.hang(3);
            }
        });
        pages.extend(named);
    }
    let all_are_over = async || counted(&service.replicas).values().sum::<usize>() >= pages.len();
    until("each act ends, whether or not its command waits", all_are_over).await;
    let counted = counted(&service.replicas);
    service.nodes.heal().await;

    let log: String = service.replicas.drain(..).map(|replica| replica.stop().2).collect();
    let acts = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let acts: Vec<_> = acts.filter(|act| act["audit"] == true).collect();
    let field = |act: &Value, name: &str| act[name].as_str().unwrap().to_owned();
    let mut outcomes = BTreeMap::new();
    for act in &acts {
        *outcomes.entry(field(act, "outcome")).or_default() += 1;
    }
    assert_eq!(outcomes, counted);
    assert_eq!(acts.iter().map(|act| field(act, "slug")).collect::<BTreeSet<_>>(), pages);

    let store = ScyllaStore::new(Limits::OF_COMMANDS, Random::System, Arc::new(Later(SystemClock::new())));
    store.connect(&service.store_settings(), |_| {}).await.expect("it is migrated");
    let journal: BTreeSet<_> = lines(&store).await.into_iter().map(|line| line.slug).collect();
    let mut gone = BTreeSet::new();
    for slug in &pages {
        let found = store.lookup(&Slug::parse(slug).unwrap()).await.expect("the nodes are up");
        gone.extend(matches!(found, Some(Record::Deleted(_))).then(|| slug.clone()));
    }
    println!("{} pages are gone; {outcomes:?}", gone.len());
    // Other tests have their lines in the same journal.
    assert_eq!(journal.intersection(&pages).cloned().collect::<BTreeSet<_>>(), gone);
    let done = acts.iter().filter(|act| act["outcome"] == "taken_down").map(|act| field(act, "slug"));
    let done: BTreeSet<_> = done.collect();
    assert!(done.is_subset(&gone) && !done.is_empty(), "{:?} can be read", done.difference(&gone));
}

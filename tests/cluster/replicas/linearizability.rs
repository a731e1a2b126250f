//! Many clients and operators over three replicas while nodes, their network, replicas and clocks fail one after the other,
//! and while exports and imports go on.
//!
//! `./tests/run` has one fault of each kind, with less quiet between them; `tests/tools/histories` makes a long history.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use handbill_test_support::environment::{FAR_TOO_LONG, setting};
use handbill_test_support::histories::workload::{Plan, Progress, run};
use tokio::sync::watch;
use tokio::time::sleep;

use super::nemesis::{Fault, KINDS, Nemesis};
use super::service::{Service, Settings};
use super::upkeep::Upkeep;

const REMEMBERED: u64 = 8;

/// Calls that are answered at least between two faults, so that each finds a service that has recovered.
const BETWEEN: usize = 40;

/// After this many faults the pages so far are checked, so that a run that is stopped has said something.
const CHECKED_EVERY: usize = 10;

const AGAIN: Duration = Duration::from_millis(100);

#[tokio::test(flavor = "multi_thread")]
async fn pages_are_linearizable_while_everything_fails() {
    let mut service = Service::start(Settings { has_movable_clocks: true, ..Settings::unlimited() }).await;
    service.check_clocks().await;
    let (seed, calls) = (setting("LIN_SEED", 4), setting("LIN_OPS", 2500));
    let groups = setting("LIN_PAGES", 6);
    let plan = Plan { seed, calls, groups, clients: 4, burst: 10, has_operators: true };
    let (faults, minutes) = (setting("LIN_FAULTS", KINDS), setting("LIN_MINUTES", 60));
    let began = Instant::now();
    let until = began + Duration::from_mins(minutes);
    let (mut struck, mut falsified) = (BTreeMap::new(), 0);
    let transport = service.transport();
    let mut upkeep = BTreeMap::new();
    let outcome = run(&transport, plan, async |progress| {
        let is_over = watch::Sender::new(false);
        let going_on = tokio::spawn(Upkeep::of(&service).go_on(is_over.subscribe()));
        (struck, falsified) = strike(&mut service, plan, faults, until, progress).await;
        is_over.send_replace(true);
        upkeep = going_on.await.expect("it does not panic");
    })
    .await;

    let (often, in_doubt) = outcome.changed_more_often_than(REMEMBERED);
    let violations = outcome.violations().len();
    println!("seed {}, {:.1} minutes: {outcome}", plan.seed, began.elapsed().as_secs_f64() / 60.0);
    println!("{} faults: {struck:?}; {falsified} answers lost or forged", struck.values().sum::<usize>());
    println!("beside them, and successful: {upkeep:?}");
    println!("{often} pages with more than {REMEMBERED} changes, {in_doubt} of them with a call of unknown outcome");
    println!("{violations} of {} histories are not those of one page", outcome.histories.len());
    outcome.assert_linearizable();
    assert!(outcome.slowest < FAR_TOO_LONG, "{outcome}");
    assert!(upkeep.len() == 2 && upkeep.values().all(|done| *done > 0), "not each command succeeded once: {upkeep:?}");
    assert!(often > 0, "no page was changed more than {REMEMBERED} times");
    let is_falsified = struck.contains_key(&Fault::VerdictsLost) || struck.contains_key(&Fault::VerdictsDenied);
    assert!(falsified > 0 || !is_falsified, "no answer to a conditional write was lost or replaced");
}

/// Lets `faults` faults strike, spread evenly over the calls, unless it is too late for more. How many of each did, and how
/// many answers to conditional writes were lost or replaced.
async fn strike(
    service: &mut Service,
    plan: Plan,
    faults: usize,
    until: Instant,
    mut progress: Progress,
) -> (BTreeMap<Fault, usize>, usize) {
    let began = Instant::now();
    let mut nemesis = Nemesis::new(plan.seed, setting("LIN_REPLACED", 0));
    let (mut struck, mut checked) = (BTreeMap::new(), 0);
    for number in 1..=faults {
        progress.more(BETWEEN).await;
        while progress.so_far().0 < number * plan.calls / (faults + 1) && Instant::now() < until {
            sleep(AGAIN).await;
        }
        if Instant::now() >= until {
            progress.cut_short();
            break;
        }
        let fault = nemesis.strike(service).await;
        *struck.entry(fault.fault).or_default() += 1;
        let (answered, failed) = progress.so_far();
        let after = began.elapsed().as_secs();
        println!("{after:>5} s  fault {number} of {faults}: {fault}; {answered} calls answered, {failed} failed");
        if number.is_multiple_of(CHECKED_EVERY) {
            let (violations, pages) = progress.violations_from(checked);
            println!(
                "{after:>5} s  {violations} of the pages {checked} to {pages} have a history that no page can have"
            );
            if violations > 0 {
                progress.cut_short();
                break;
            }
            // Some of the last pages are still in use. They are checked again at the end, as all are.
            checked = pages;
        }
    }
    (struck, nemesis.falsified)
}

//! Checks a model of the cluster's protocol.
//!
//! | part | content |
//! |---|---|
//! | [`database`] | a page's head and texts on three copies |
//! | [`protocol`] | the steps of a write and of a read, and the rules that can be left out |
//! | [`page`], [`writing`], [`state`] | both together, and what must hold in every state |
//! | [`ledger`], [`deleting`] | a page's deletion beyond the page: the ledger, the audit, and a restore |
//! | [`copies`] | copies of the ledger that go on from the copy before them |
//! | [`hiding`] | a page that operators hide and show, the ledger of that, and a restore |
//! | [`fence`] | two datacentres, the fence between them, and the moves of an operator |
//! | [`moves`] | several moves at the same time, each of which reads and changes the rows of the fence |
//!
//! `tests/model/run` runs it.

mod copies;
mod database;
mod deleting;
mod fence;
mod hiding;
mod ledger;
mod moves;
mod page;
mod protocol;
mod state;
mod writing;

use std::fmt::Debug;
use std::hash::Hash;
use std::process::ExitCode;
use std::time::Instant;

use stateright::{Checker, HasDiscoveries, Model};

use crate::copies::CopiesModel;
use crate::fence::FenceModel;
use crate::hiding::HidingModel;
use crate::ledger::LedgerModel;
use crate::moves::MovesModel;
use crate::page::{PageModel, Scenario};
use crate::protocol::Kind::{self, Create, Delete, KeyedCreate, NewText, NewTitle};
use crate::protocol::{Record, Weakening};
use crate::state::{
    FALSE_CONFIRMATION, FALSE_DENIAL, LOST_UPDATE, MIXTURE, NO_TEXT, OLD_READ, OLDER_RECORD, READABLE_TEXT, REVIVAL,
    State,
};

/// How far a fast clock is ahead.
const FAST: u8 = 20;

/// A time that is much later than a tombstone's.
const MUCH_LATER: u8 = 120;

/// The import of a page of an archive.
const fn page(version: u8, time: u8) -> Kind {
    Kind::Import(Record { version, time, is_tombstone: false })
}

/// The import of a tombstone of an archive.
const fn tombstone(version: u8, time: u8) -> Kind {
    Kind::Import(Record { version, time, is_tombstone: true })
}

/// Threads that look for states. The service's machines have two cores.
const THREADS: usize = 1;

/// A page as it usually is, without faults.
const CALM: Scenario = Scenario { name: "", has_page: true, writers: &[], reads: &[], faults: 0, kept: 16 };

// The scenarios that show what a rule is for.
const CREATES: &str = "two creates of one slug, one fast clock, two faults";
const REPEAT: &str =
    "a create and its repeat with one key, and a new title, of which the head keeps one nonce, one fault";
const REPEAT_READ: &str = "a create and its repeat with one key, one fast clock, a read, two faults";
const READERS: &str = "a new text, a reader who reads twice and one who reads once, one fault";
const TITLE_AND_TEXT: &str = "a new title and a new text, one read, one fault";
const DELETION: &str = "a new text by a fast clock and a deletion, two faults";
const ONE_NONCE: &str = "a new title and two others, of which the head keeps one nonce";
const TWO_ARCHIVES: &str = "two records of one page imported where there is none, the newer one twice, two faults";
const ONE_VERSION: &str = "two records of the page's own version imported, one later than the other, a read, one fault";
const SAME_VERSION: &str = "a new text, and a record of its version imported, two faults";
const OLD_TOMBSTONE: &str = "a new text, and a tombstone imported that is much older, one read, one fault";
const DELETED: &str = "a deletion, and a newer record imported twice, one read, two faults";

/// Everything that is checked. Each scenario is small enough that all of its states are visited.
const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: CREATES,
        has_page: false,
        writers: &[(&[Create], 0), (&[Create], FAST)],
        reads: &[1],
        faults: 2,
        ..CALM
    },
    Scenario {
        name: REPEAT,
        has_page: false,
        writers: &[(&[KeyedCreate], 0), (&[KeyedCreate], 0), (&[NewTitle], 0)],
        reads: &[],
        faults: 1,
        kept: 1,
    },
    Scenario {
        name: REPEAT_READ,
        has_page: false,
        writers: &[(&[KeyedCreate], 0), (&[KeyedCreate], FAST)],
        reads: &[1],
        faults: 2,
        ..CALM
    },
    Scenario {
        name: "a create and its repeat with one key, and a deletion, one fault",
        has_page: false,
        writers: &[(&[KeyedCreate], 0), (&[KeyedCreate], FAST), (&[Delete], 0)],
        reads: &[],
        faults: 1,
        ..CALM
    },
    Scenario {
        name: "a create, then its deletion by another, two faults",
        has_page: false,
        writers: &[(&[Create], FAST), (&[Delete], 0)],
        reads: &[1],
        faults: 2,
        ..CALM
    },
    Scenario { name: READERS, writers: &[(&[NewText], 0)], reads: &[2, 1], faults: 1, ..CALM },
    Scenario {
        name: "two new texts, one fast clock, one read, one fault",
        writers: &[(&[NewText], 0), (&[NewText], FAST)],
        reads: &[1],
        faults: 1,
        ..CALM
    },
    Scenario { name: TITLE_AND_TEXT, writers: &[(&[NewTitle], 0), (&[NewText], 0)], reads: &[1], faults: 1, ..CALM },
    Scenario {
        name: "two new titles after each other and a new text, one fault",
        writers: &[(&[NewTitle, NewTitle], 0), (&[NewText], 0)],
        reads: &[],
        faults: 1,
        ..CALM
    },
    Scenario { name: DELETION, writers: &[(&[NewText], FAST), (&[Delete], 0)], reads: &[1], faults: 2, ..CALM },
    Scenario {
        name: ONE_NONCE,
        writers: &[(&[NewTitle], 0), (&[NewTitle, NewTitle], 0)],
        reads: &[],
        faults: 2,
        kept: 1,
        ..CALM
    },
    Scenario {
        name: "two deletions and a new title, three faults",
        writers: &[(&[Delete], 0), (&[Delete], 0), (&[NewTitle], 0)],
        reads: &[],
        faults: 3,
        ..CALM
    },
    Scenario {
        name: TWO_ARCHIVES,
        has_page: false,
        writers: &[(&[page(1, 5)], 0), (&[page(3, 9), page(3, 9)], 0)],
        reads: &[],
        faults: 2,
        ..CALM
    },
    Scenario { name: ONE_VERSION, writers: &[(&[page(1, 9)], 0), (&[page(1, 20)], 0)], reads: &[1], faults: 1, ..CALM },
    Scenario { name: SAME_VERSION, writers: &[(&[NewText], 0), (&[page(2, 9)], 0)], reads: &[], faults: 2, ..CALM },
    Scenario {
        name: OLD_TOMBSTONE,
        writers: &[(&[NewText], MUCH_LATER), (&[tombstone(3, 2)], MUCH_LATER)],
        reads: &[1],
        faults: 1,
        ..CALM
    },
    Scenario {
        name: DELETED,
        writers: &[(&[Delete], 0), (&[page(9, 9), page(9, 9)], 0)],
        reads: &[1],
        faults: 2,
        ..CALM
    },
    Scenario {
        name: "a new title, a newer record and a newer tombstone imported, one fault",
        writers: &[(&[NewTitle], 0), (&[page(3, 9)], 0), (&[tombstone(4, 10)], 0)],
        reads: &[],
        faults: 1,
        ..CALM
    },
];

/// Each rule that is left out, the scenario that shows it, and what then must be found.
const WEAKENINGS: &[(Weakening, &str, &str)] = &[
    (Weakening::PointerBeforeText, READERS, NO_TEXT),
    (Weakening::TextDeletedFirst, READERS, NO_TEXT),
    (Weakening::NoReadBack, CREATES, FALSE_DENIAL),
    (Weakening::UnchangedMeansNotDone, CREATES, FALSE_DENIAL),
    (Weakening::ForgottenMeansNotDone, ONE_NONCE, FALSE_DENIAL),
    (Weakening::MixedImage, TITLE_AND_TEXT, MIXTURE),
    (Weakening::NoComparison, TITLE_AND_TEXT, LOST_UPDATE),
    (Weakening::DeletionByItsClock, DELETION, READABLE_TEXT),
    (Weakening::StaleCache, READERS, OLD_READ),
    (Weakening::NoReadRepair, READERS, OLD_READ),
    (Weakening::CommitAtOne, READERS, OLD_READ),
    (Weakening::NewestText, READERS, MIXTURE),
    (Weakening::ImportWithoutComparing, ONE_VERSION, OLDER_RECORD),
    (Weakening::ImportComparesVersionAlone, ONE_VERSION, OLDER_RECORD),
    (Weakening::ImportOverTombstone, DELETED, REVIVAL),
    (Weakening::ImportKnownByKey, TWO_ARCHIVES, FALSE_CONFIRMATION),
    (Weakening::RepeatKnownByKey, REPEAT, FALSE_CONFIRMATION),
    (Weakening::TextNamedByKey, REPEAT_READ, NO_TEXT),
    (Weakening::NonceInWrongPlace, SAME_VERSION, FALSE_DENIAL),
    (Weakening::ImportedDeletionAtItsTime, OLD_TOMBSTONE, READABLE_TEXT),
];

/// The findings of a run.
struct Found {
    states: usize,
    depth: usize,
    /// The broken rules, with the steps that lead to each.
    broken: Vec<(&'static str, Vec<String>)>,
}

/// Visits the states of `model`: all of them, or until a rule is broken: `rule`, or any if none is named.
fn check<M>(model: M, representative: fn(&M::State) -> M::State, rule: Option<&'static str>) -> Found
where
    M: Model + Send + Sync + 'static,
    M::State: Hash + Send + Sync + Clone + PartialEq + Debug + 'static,
    M::Action: Clone + PartialEq + Debug,
{
    let end = rule.map_or(HasDiscoveries::AnyFailures, |rule| HasDiscoveries::AllOf([rule].into()));
    let checker = model.checker().threads(THREADS).finish_when(end);
    // Depth first needs the least memory, and can treat states that differ by the numbers of copies as one.
    let checker = checker.symmetry_fn(representative).spawn_dfs().join();
    let discoveries = checker.discoveries().into_iter();
    let steps = |path: stateright::Path<M::State, M::Action>| {
        path.into_actions().iter().map(|action| format!("{action:?}")).collect()
    };
    let broken = discoveries.map(|(name, path)| (name, steps(path))).collect();
    Found { states: checker.unique_state_count(), depth: checker.max_depth(), broken }
}

/// The choice of what is checked and printed.
struct Run<'a> {
    shows_steps: bool,
    is_wanted: &'a dyn Fn(&str) -> bool,
}

impl Run<'_> {
    /// Checks a model and prints the result. Returns whether it is as expected; `None` if nobody asked for it.
    fn check<M>(
        &self,
        subject: &str,
        expected: Option<&'static str>,
        model: impl FnOnce() -> M,
        representative: fn(&M::State) -> M::State,
    ) -> Option<bool>
    where
        M: Model + Send + Sync + 'static,
        M::State: Hash + Send + Sync + Clone + PartialEq + Debug + 'static,
        M::Action: Clone + PartialEq + Debug,
    {
        (self.is_wanted)(subject).then(|| {
            let began = Instant::now();
            let found = check(model(), representative, expected);
            report(subject, &found, expected, self.shows_steps, began)
        })
    }
}

/// Prints what was found, and whether it is what must be found.
fn report(subject: &str, found: &Found, expected: Option<&str>, shows_steps: bool, began: Instant) -> bool {
    let Found { states, depth, broken } = found;
    let took = began.elapsed().as_secs_f32();
    let as_expected = match expected {
        None => broken.is_empty(),
        Some(rule) => broken.iter().any(|(name, _)| *name == rule),
    };
    let verdict = match (as_expected, expected) {
        (true, None) => "all rules hold in all states".to_owned(),
        (true, Some(rule)) => format!("found: \"{rule}\" is broken"),
        (false, None) => format!("FAILED: broken: {:?}", broken.iter().map(|(name, _)| name).collect::<Vec<_>>()),
        (false, Some(rule)) => format!("FAILED: \"{rule}\" was not found broken"),
    };
    println!("{subject}: {verdict} ({states} states, {depth} steps deep, {took:.1} s)");
    if shows_steps || (!as_expected && expected.is_none()) {
        for (name, steps) in broken {
            println!("    {name}:");
            steps.iter().for_each(|step| println!("      {step}"));
        }
    }
    as_expected
}

fn main() -> ExitCode {
    let (options, names): (Vec<_>, Vec<_>) = std::env::args().skip(1).partition(|argument| argument.starts_with("--"));
    let is_wanted = |subject: &str| names.is_empty() || names.iter().any(|name| subject.contains(name.as_str()));
    let run = Run { shows_steps: options.iter().any(|option| option == "--steps"), is_wanted: &is_wanted };
    let mut as_expected = Vec::new();
    println!("# The protocol");
    for scenario in SCENARIOS {
        let model = || PageModel { scenario: scenario.clone(), weakening: None };
        as_expected.push(run.check(scenario.name, None, model, State::representative));
    }
    for (model, name) in LedgerModel::as_it_is() {
        as_expected.push(run.check(name, None, || model, ledger::State::clone));
    }
    for (model, name) in CopiesModel::as_it_is() {
        as_expected.push(run.check(name, None, || model, copies::State::clone));
    }
    for (model, name) in HidingModel::as_it_is() {
        as_expected.push(run.check(name, None, || model, hiding::State::clone));
    }
    for (model, name) in FenceModel::as_it_is() {
        as_expected.push(run.check(name, None, || model, fence::State::clone));
    }
    for (model, name) in MovesModel::as_it_is() {
        as_expected.push(run.check(name, None, || model, moves::State::clone));
    }
    println!("# The protocol without one of its rules");
    for &(weakening, name, rule) in WEAKENINGS {
        let scenario = SCENARIOS.iter().find(|scenario| scenario.name == name).expect("it is listed").clone();
        let model = || PageModel { scenario, weakening: Some(weakening) };
        as_expected.push(run.check(&format!("{weakening:?}"), Some(rule), model, State::representative));
    }
    for (model, rule) in LedgerModel::weakened() {
        as_expected.push(run.check(&model.subject(), Some(rule), || model, ledger::State::clone));
    }
    for (model, rule) in CopiesModel::weakened() {
        let subject = format!("{:?}, copies", model.weakening.expect("it is weakened"));
        as_expected.push(run.check(&subject, Some(rule), || model, copies::State::clone));
    }
    for (model, rule) in HidingModel::weakened() {
        as_expected.push(run.check(&model.subject(), Some(rule), || model, hiding::State::clone));
    }
    for (model, rule) in FenceModel::weakened() {
        let subject = format!("{:?}", model.weakening.expect("it is weakened"));
        as_expected.push(run.check(&subject, Some(rule), || model, fence::State::clone));
    }
    for (model, rule) in MovesModel::weakened() {
        let subject = format!("{:?}", model.weakening.expect("it is weakened"));
        as_expected.push(run.check(&subject, Some(rule), || model, moves::State::clone));
    }
    let checked: Vec<bool> = as_expected.into_iter().flatten().collect();
    if checked.is_empty() {
        println!("nothing has such a name");
    }
    if !checked.is_empty() && checked.into_iter().all(|is_expected| is_expected) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

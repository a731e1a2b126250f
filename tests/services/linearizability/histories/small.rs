//! Small random histories, of which about half are not those of one page: they compare the checker's verdicts with every
//! order of the calls, tried one by one.
//!
//! `LIN_SMALL` is how many there are, `LIN_SEED` decides what they have.

use std::time::Instant;

use handbill::admin::acts::Outcome as ActOutcome;
use todc_utils::specifications::Specification;

use super::history::{History, Recorded};
use super::page::{Answer, Call, Page, State, Text};
use super::workload::Chance;
use crate::environment::setting;

/// Most calls of a history. Every order of so many can be tried.
const MOST_CALLS: usize = 8;

/// Calls that are under way at once, at most.
const AT_ONCE: usize = 4;

/// A part of a history. The number is the call's.
#[derive(Clone, Debug)]
enum Event {
    Invoked(usize, Call),
    Answered(usize, Answer),
}

/// The call of an event.
fn number(event: &Event) -> usize {
    match event {
        Event::Invoked(number, _) | Event::Answered(number, _) => *number,
    }
}

/// One of `values`.
fn one_of<T: Clone>(chance: &mut Chance, values: &[T]) -> T {
    values[index(chance, values.len())].clone()
}

fn index(chance: &mut Chance, length: usize) -> usize {
    usize::try_from(chance.below(length as u64)).expect("it is below a length")
}

/// Texts repeat, unlike those of [`super::workload`], so that more than one order may explain an answer.
fn text(chance: &mut Chance) -> Text {
    one_of(chance, &["a", "b"]).into()
}

/// A call that suits a page in `state` often enough.
fn call(chance: &mut Chance, state: &State) -> Call {
    let if_match = match (state, chance.below(3)) {
        (_, 0) => Some(1 + chance.below(3)),
        (State::Active { version, .. }, 1) => Some(*version),
        _ => None,
    };
    if *state == State::Absent && chance.below(3) > 0 {
        return Call::Create { title: text(chance), content: text(chance) };
    }
    match chance.below(20) {
        0..2 => Call::Create { title: text(chance), content: text(chance) },
        2..7 => Call::Get,
        7..9 => Call::Patch { title: Some(Some(text(chance))), content: None, if_match },
        9 => Call::Patch { title: Some(None), content: None, if_match },
        10..13 => Call::Patch { title: None, content: Some(text(chance)), if_match },
        13 => Call::Patch { title: None, content: None, if_match },
        14 => Call::Delete { if_match },
        15..17 => Call::Hide,
        17..19 => Call::Show,
        _ => Call::TakeDown,
    }
}

/// A call that is under way or may come late.
struct Open {
    number: usize,
    call: Call,
    /// The page's answer, once the call has taken effect.
    answer: Option<Answer>,
    is_told: bool,
}

/// The events of a history that is possible: several clients call one page.
fn possible(chance: &mut Chance) -> Vec<Event> {
    let calls = 2 + index(chance, MOST_CALLS - 1);
    let (mut state, mut open, mut events, mut invoked) = (State::Absent, Vec::<Open>::new(), Vec::new(), 0);
    loop {
        let waiting = open.iter().filter(|open| !open.is_told).count();
        if invoked == calls && (waiting == 0 || chance.below(20) == 0) {
            return events;
        }
        if open.is_empty() || (invoked < calls && waiting < AT_ONCE && chance.below(3) == 0) {
            let call = call(chance, &state);
            events.push(Event::Invoked(invoked, call.clone()));
            open.push(Open { number: invoked, call, answer: None, is_told: false });
            invoked += 1;
            continue;
        }
        let place = index(chance, open.len());
        let Open { number, call, answer, is_told } = &mut open[place];
        match (answer.clone(), *is_told, chance.below(10)) {
            (None, false, 0) => {
                events.push(Event::Answered(*number, Answer::NothingChanged));
                open.remove(place);
            }
            (_, false, 1) => {
                events.push(Event::Answered(*number, Answer::Unknown));
                *is_told = true;
            }
            (None, ..) => {
                let (told, next) = state.after(call);
                (*answer, state) = (Some(told), next);
            }
            (Some(told), false, _) => {
                events.push(Event::Answered(*number, told));
                open.remove(place);
            }
            (Some(_), true, _) => drop(open.remove(place)),
        }
    }
}

/// An answer that some page might give.
fn any_answer(chance: &mut Chance) -> Answer {
    use ActOutcome::{AlreadyDeleted, AlreadyHidden, AlreadyShown, Hidden, NotFound, Shown, TakenDown};
    match chance.below(13) {
        0 => Answer::Created { version: 1 + chance.below(3) },
        1 => Answer::KeyInUse,
        2 => Answer::Deleted,
        3 => Answer::NotFound,
        4 => Answer::Gone,
        5 => Answer::PreconditionFailed,
        6 => Answer::Unknown,
        7 => Answer::NothingChanged,
        8 => Answer::Page { version: 1 + chance.below(3), title: None, content: text(chance) },
        9 => Answer::Page { version: 1 + chance.below(3), title: Some(text(chance)), content: text(chance) },
        10 => Answer::Unexpected("500".to_owned()),
        _ => Answer::Outcome(one_of(
            chance,
            &[TakenDown, Hidden, AlreadyHidden, Shown, AlreadyShown, AlreadyDeleted, NotFound],
        )),
    }
}

/// Changes one answer, or when a call began or was answered. The history may still be possible afterwards.
fn spoil(chance: &mut Chance, events: &mut Vec<Event>) {
    let place = index(chance, events.len());
    match (&events[place], chance.below(4)) {
        (Event::Invoked(..), 0..2) => {
            let event = events.remove(place);
            let answered = events.iter().skip(place).position(|other| number(other) == number(&event));
            let latest = answered.map_or(events.len(), |after| place + after);
            events.insert(place + index(chance, latest - place + 1), event);
        }
        (Event::Answered(..), 0) => {
            let event = events.remove(place);
            let invoked = events.iter().position(|other| number(other) == number(&event)).expect("it was invoked");
            events.insert(invoked + 1 + index(chance, place - invoked), event);
        }
        (Event::Answered(number, Answer::Page { version, title, content }), 1) => {
            let (version, title, content) = match chance.below(3) {
                0 => (version + 1, title.clone(), content.clone()),
                1 => (version.saturating_sub(1), title.clone(), content.clone()),
                _ => (*version, title.clone(), text(chance)),
            };
            events[place] = Event::Answered(*number, Answer::Page { version, title, content });
        }
        (Event::Answered(number, _), 2) => {
            let others = events.iter().filter_map(|event| match event {
                Event::Answered(_, answer) => Some(answer.clone()),
                Event::Invoked(..) => None,
            });
            let other = one_of(chance, &others.collect::<Vec<_>>());
            events[place] = Event::Answered(*number, other);
        }
        (Event::Answered(number, _), _) => events[place] = Event::Answered(*number, any_answer(chance)),
        (Event::Invoked(number, _), _) => events[place] = Event::Invoked(*number, call(chance, &State::Deleted)),
    }
}

fn small(chance: &mut Chance) -> History {
    let mut events = possible(chance);
    for _ in 0..chance.below(4) {
        spoil(chance, &mut events);
    }
    let history = History::new(Instant::now());
    let mut ids = [None; MOST_CALLS];
    for event in events {
        match event {
            Event::Invoked(number, call) => ids[number] = Some(history.invoked(number, call)),
            Event::Answered(number, answer) => history.answered(ids[number].expect("it was invoked"), answer),
        }
    }
    history
}

/// Whether an order of `rest` explains every answer, if the page is in `state` before all of them. It tries each call as
/// the first one that was made before any other was answered. It knows no shortcut.
fn has_order(state: &State, rest: &[Recorded]) -> bool {
    // A call without an answer need not take effect.
    let is_open = |recorded: &Recorded| matches!(&recorded.answered, None | Some((_, Answer::Unknown)));
    rest.iter().all(is_open)
        || (0..rest.len()).any(|place| {
            let Recorded { call, invoked, answered, .. } = &rest[place];
            let is_late = |other: &Recorded| !is_open(other) && other.answered.as_ref().unwrap().0 < *invoked;
            if rest.iter().any(is_late) {
                return false;
            }
            let answer = answered.as_ref().map_or(Answer::Unknown, |(_, answer)| answer.clone());
            let (is_possible, next) = Page::apply(&(call.clone(), answer), state);
            let others: Vec<_> = [&rest[..place], &rest[place + 1..]].concat();
            is_possible && has_order(&next, &others)
        })
}

#[test]
fn the_verdict_on_a_small_history_is_that_of_every_order_tried_one_by_one() {
    let mut chance = Chance::new(setting("LIN_SEED", 4));
    let histories: Vec<_> = (0..setting("LIN_SMALL", 5000)).map(|_| small(&mut chance)).collect();
    let mut impossible = 0;
    for history in &histories {
        let mut calls = history.recorded();
        // These say that they had no effect.
        calls.retain(|recorded| !matches!(recorded.answered, Some((_, Answer::NothingChanged))));
        let is_possible = has_order(&State::Absent, &calls);
        assert_eq!(history.is_linearizable(), is_possible, "{history}");
        impossible += usize::from(!is_possible);
    }
    println!("{impossible} of {} histories are not those of one page", histories.len());
    let third = histories.len() / 3;
    assert!((third..=2 * third).contains(&impossible), "{impossible} of {}", histories.len());
}

//! Histories that only an unsound checker would pass.

use std::time::Instant;

use handbill_test_support::histories::history::History;
use handbill_test_support::histories::page::{Answer, Call, Shown, Text};

fn text(text: &str) -> Text {
    text.into()
}

fn page(version: u64, title: &str, content: &str) -> Answer {
    Answer::Page(Shown { version, title: Some(text(title)), content: text(content) })
}

fn rewrite(content: &str) -> Call {
    Call::Patch { title: None, content: Some(text(content)), if_match: None }
}

/// A page that was created as `t`, `c`.
fn created() -> History {
    let history = History::new(Instant::now());
    told(&history, Call::Create { title: text("t"), content: text("c") }, Answer::Created { version: 1 });
    history
}

/// A call that was answered before anything else happened.
fn told(history: &History, call: Call, answer: Answer) {
    let id = history.invoked(0, call);
    history.answered(id, answer);
}

#[test]
fn a_call_that_was_told_nothing_takes_effect_once_and_for_good() {
    let twice = created();
    told(&twice, rewrite("d"), Answer::Unknown);
    told(&twice, Call::Get, page(2, "t", "d"));
    told(&twice, Call::Get, page(3, "t", "d"));
    let undone = created();
    told(&undone, rewrite("d"), Answer::Unknown);
    told(&undone, Call::Get, page(2, "t", "d"));
    told(&undone, Call::Get, page(1, "t", "c"));
    for history in [twice, undone] {
        assert!(!history.is_linearizable(), "{history}");
    }
}

#[test]
fn the_time_of_the_last_change_grows_with_each_version() {
    for (third, is_possible) in [("2026-01-01T00:00:00.002Z", true), ("2026-01-01T00:00:00.001Z", false)] {
        let history = created();
        told(&history, rewrite("d"), page(2, "t", "d"));
        let retitle = Call::Patch { title: Some(Some(text("u"))), content: None, if_match: None };
        told(&history, retitle, page(3, "u", "d"));
        history.dated(2, "2026-01-01T00:00:00.001Z");
        history.dated(3, third);
        assert_eq!(history.is_possible(), is_possible, "{history}");
        assert_eq!(history.newest(), 3);
        history.dated(3, "2026-01-01T00:00:00.003Z");
        assert!(!history.is_possible(), "{history}");
    }
}

//! Histories as JSON lines, each with our checker's verdict, for a second checker: `tests/histories/porcupine`.
//!
//! A line has the calls as they were recorded. The second checker translates them for itself, so that it also checks our
//! translation.

use std::fs::File;
use std::io::Write;
use std::thread;

use serde_json::{Map, Value, json};

use super::history::{History, Recorded};
use super::page::{Answer, Call, Text};
use crate::environment::variable;

/// Appends `histories` to the file that `LIN_HISTORIES` names, if it is set.
pub(crate) fn keep<'a>(histories: impl IntoIterator<Item = &'a History>) {
    let Some(path) = variable("LIN_HISTORIES") else { return };
    let mut file = File::options().create(true).append(true).open(&path).expect("LIN_HISTORIES can be written");
    for history in histories {
        // One write for each line: other tests append to the same file.
        file.write_all(format!("{}\n", line(history)).as_bytes()).expect("LIN_HISTORIES can be written");
    }
}

fn line(history: &History) -> Value {
    json!({
        // The test harness gives the thread of a test its name.
        "test": thread::current().name(),
        "page": history.slug(),
        "is_linearizable": history.is_linearizable(),
        "calls": history.recorded().iter().map(recorded).collect::<Vec<_>>(),
    })
}

fn recorded(Recorded { call, invoked, answered, .. }: &Recorded) -> Value {
    let (answered, answer) = answered.as_ref().map(|(moment, answer)| (moment, self::answer(answer))).unzip();
    json!({"invoked": invoked, "call": self::call(call), "answered": answered, "answer": answer})
}

/// A field that is not sent is left out; a title that is cleared is null.
fn call(call: &Call) -> Value {
    let (kind, title, content, if_match) = match call {
        Call::Create { title, content } => ("create", Some(Some(title)), Some(content), None),
        Call::Get => ("get", None, None, None),
        Call::Patch { title, content, if_match } => {
            ("patch", title.as_ref().map(Option::as_ref), content.as_ref(), *if_match)
        }
        Call::Delete { if_match } => ("delete", None, None, *if_match),
        Call::Hide => ("hide", None, None, None),
        Call::Show => ("show", None, None, None),
        Call::TakeDown => ("take_down", None, None, None),
    };
    let mut fields = Map::from_iter([("kind".to_owned(), json!(kind))]);
    fields.extend(title.map(|title| ("title".to_owned(), json!(title.map(AsRef::<str>::as_ref)))));
    fields.extend(content.map(|content| ("content".to_owned(), json!(&**content))));
    fields.extend(if_match.map(|version| ("if_match".to_owned(), json!(version))));
    Value::Object(fields)
}

fn answer(answer: &Answer) -> Value {
    let text = |text: &Text| text.to_string();
    match answer {
        Answer::Created { version } => json!({"kind": "created", "version": version}),
        Answer::KeyInUse => json!({"kind": "key_in_use"}),
        Answer::Page { version, title, content } => {
            json!({"kind": "page", "version": version, "title": title.as_ref().map(text), "content": text(content)})
        }
        Answer::Deleted => json!({"kind": "deleted"}),
        Answer::NotFound => json!({"kind": "not_found"}),
        Answer::Gone => json!({"kind": "gone"}),
        Answer::PreconditionFailed => json!({"kind": "precondition_failed"}),
        Answer::Outcome(code) => json!({"kind": "outcome", "code": code}),
        Answer::NothingChanged => json!({"kind": "nothing_changed"}),
        Answer::Unknown => json!({"kind": "unknown"}),
        Answer::Unexpected(_) => json!({"kind": "unexpected"}),
    }
}

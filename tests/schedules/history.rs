//! The answers that clients got, and the rules that hold for them.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use handbill_core::domain::page::Page;

/// A field of a page. Every edit changes one, to a value that no other edit has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Field {
    Title,
    Content,
}

/// A state of the page, as an answer shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    Page { version: u64, title: String, content: String },
    Gone,
}

/// An answer, and when its request began and it came, in steps of all clients.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) began: u64,
    pub(crate) ended: u64,
    pub(crate) seen: Seen,
    /// The edit that was acknowledged.
    pub(crate) wrote: Option<(Field, String)>,
}

/// All answers of one order.
#[derive(Default)]
pub(crate) struct History {
    steps: AtomicU64,
    answers: Mutex<Vec<Answer>>,
    /// Edits of which it was said that nothing was changed.
    denied: Mutex<Vec<(Field, String)>>,
    unexpected: Mutex<Vec<String>>,
}

impl Seen {
    pub(crate) fn of(page: &Page) -> Self {
        Self::Page {
            version: page.head.version.get(),
            title: page.head.title.as_ref().map(|title| title.as_str().to_owned()).unwrap_or_default(),
            content: page.text.content.as_str().to_owned(),
        }
    }

    /// Later states have higher ranks.
    fn rank(&self) -> u64 {
        match self {
            Self::Page { version, .. } => *version,
            Self::Gone => u64::MAX,
        }
    }

    fn value(&self, field: Field) -> Option<&str> {
        match (self, field) {
            (Self::Page { title, .. }, Field::Title) => Some(title),
            (Self::Page { content, .. }, Field::Content) => Some(content),
            (Self::Gone, _) => None,
        }
    }
}

impl History {
    /// The next step.
    pub(crate) fn tick(&self) -> u64 {
        self.steps.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn answered(&self, answer: Answer) {
        self.answers.lock().unwrap().push(answer);
    }

    pub(crate) fn denied(&self, edit: (Field, String)) {
        self.denied.lock().unwrap().push(edit);
    }

    pub(crate) fn unexpected(&self, error: String) {
        self.unexpected.lock().unwrap().push(error);
    }

    /// Checks all answers against `log`, the states that the store had, in their order.
    pub(crate) fn check(&self, log: &[Seen]) -> Result<(), String> {
        if let Some(error) = self.unexpected.lock().unwrap().first() {
            return Err(format!("an unexpected failure: {error}"));
        }
        for (before, after) in log.iter().zip(log.iter().skip(1)) {
            check_step(before, after)?;
        }
        let answers = self.answers.lock().unwrap();
        for answer in answers.iter() {
            if !log.contains(&answer.seen) {
                return Err(format!("no write made what {answer:?} shows"));
            }
            if let Some((field, value)) = &answer.wrote
                && answer.seen.value(*field) != Some(value.as_str())
            {
                return Err(format!("{answer:?} does not show its own edit"));
            }
            for earlier in answers.iter().filter(|earlier| earlier.ended < answer.began) {
                let is_newer = answer.seen.rank() > earlier.seen.rank();
                let is_as_new = answer.seen.rank() == earlier.seen.rank() && answer.wrote.is_none();
                if !is_newer && !is_as_new {
                    return Err(format!("{answer:?} came after {earlier:?}"));
                }
            }
        }
        for (field, value) in self.denied.lock().unwrap().iter() {
            if log.iter().any(|state| state.value(*field) == Some(value.as_str())) {
                return Err(format!("the edit {field:?} {value} was made and denied"));
            }
        }
        Ok(())
    }
}

/// Each write makes the next version and changes one field, or deletes the page.
fn check_step(before: &Seen, after: &Seen) -> Result<(), String> {
    let is_allowed = match (before, after) {
        (Seen::Page { .. }, Seen::Gone) => true,
        (
            Seen::Page { version, title, content },
            Seen::Page { version: next, title: new_title, content: new_content },
        ) => *next == version + 1 && (title != new_title) != (content != new_content),
        (Seen::Gone, _) => false,
    };
    if is_allowed { Ok(()) } else { Err(format!("{after:?} was written over {before:?}")) }
}

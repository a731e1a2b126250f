//! The behaviour of one page when nobody else uses it: the specification against which histories are checked.
//!
//! Every answer with an entity tag carries a version, and each write has values of its own, so almost every answer
//! fixes its place in the order. This makes checking fast and the specification sharp.

use std::sync::Arc;

use todc_utils::specifications::Specification;

/// A title or content, unique to the call that wrote it.
pub type Text = Arc<str>;

#[derive(Clone, Debug)]
pub enum Call {
    /// Always with the key that the client made for the page, so that it may be sent again.
    Create {
        title: Text,
        content: Text,
    },
    Get,
    /// `Some(None)` clears the title. Without both fields, nothing changes.
    Patch {
        title: Option<Option<Text>>,
        content: Option<Text>,
        if_match: Option<u64>,
    },
    Delete {
        if_match: Option<u64>,
    },
    /// An operator's.
    Hide,
    Show,
    TakeDown,
}

/// What a reader sees of a page.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Shown {
    pub version: u64,
    pub title: Option<Text>,
    pub content: Text,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The page was created, or found again in this version.
    Created {
        version: u64,
    },
    /// The page has another title or content by now, or was deleted.
    KeyInUse,
    Page(Shown),
    Deleted,
    NotFound,
    Gone,
    PreconditionFailed,
    Outcome(String),
    /// A failure that says that nothing was changed. This must be true.
    NothingChanged,
    /// No answer, or a failure that leaves the outcome open: the call may take effect at any later time, or never.
    Unknown,
    /// An answer that the service must not give to such a call.
    Unexpected(String),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum State {
    Absent,
    Active(Shown),
    /// The page as it would be shown again.
    Hidden(Shown),
    Deleted,
}

impl State {
    /// The answer to `call` in this state, and the state after it.
    pub(super) fn after(&self, call: &Call) -> (Answer, Self) {
        match (self, call) {
            (Self::Absent, Call::Create { title, content }) => {
                let (title, content) = (Some(Arc::clone(title)), Arc::clone(content));
                (Answer::Created { version: 1 }, Self::Active(Shown { version: 1, title, content }))
            }
            (Self::Active(page), Call::Create { title, content })
                if (page.title.as_ref(), &page.content) == (Some(title), content) =>
            {
                (Answer::Created { version: page.version }, self.clone())
            }
            (_, Call::Create { .. }) => (Answer::KeyInUse, self.clone()),
            (_, Call::Hide | Call::Show | Call::TakeDown) => {
                let (outcome, next) = self.after_operator(call);
                (Answer::Outcome(outcome.to_owned()), next)
            }
            (Self::Hidden(_), _) => (Answer::Gone, self.clone()),
            (Self::Absent, _) => (Answer::NotFound, Self::Absent),
            (Self::Deleted, _) => (Answer::Gone, Self::Deleted),
            (
                Self::Active(page),
                Call::Patch { if_match: Some(required), .. } | Call::Delete { if_match: Some(required) },
            ) if *required != page.version => (Answer::PreconditionFailed, self.clone()),
            (Self::Active(page), Call::Get | Call::Patch { title: None, content: None, .. }) => {
                (Answer::Page(page.clone()), self.clone())
            }
            (Self::Active(page), Call::Patch { title, content, .. }) => {
                let next = Shown {
                    version: page.version + 1,
                    title: title.clone().unwrap_or_else(|| page.title.clone()),
                    content: content.clone().unwrap_or_else(|| page.content.clone()),
                };
                (Answer::Page(next.clone()), Self::Active(next))
            }
            (Self::Active(_), Call::Delete { .. }) => (Answer::Deleted, Self::Deleted),
        }
    }

    /// The outcome of an operator's `call` in this state, and the state after it. To hide or to show a page is no change of it: its version stays.
    fn after_operator(&self, call: &Call) -> (&'static str, Self) {
        match (self, call) {
            (Self::Absent, _) => ("not_found", Self::Absent),
            (Self::Deleted, _) => ("already_deleted", Self::Deleted),
            (Self::Active(_) | Self::Hidden(_), Call::TakeDown) => ("taken_down", Self::Deleted),
            (Self::Active(page), Call::Hide) => ("hidden", Self::Hidden(page.clone())),
            (Self::Hidden(page), Call::Show) => ("shown", Self::Active(page.clone())),
            (Self::Hidden(_), _) => ("already_hidden", self.clone()),
            (Self::Active(_), _) => ("already_shown", self.clone()),
        }
    }
}

/// A page, as the checker takes it.
pub struct Page;

impl Specification for Page {
    type State = State;
    type Operation = (Call, Answer);

    fn init() -> State {
        State::Absent
    }

    fn apply((call, answer): &(Call, Answer), state: &State) -> (bool, State) {
        let (expected, next) = state.after(call);
        let is_possible = match (answer, &expected) {
            // A call without an answer could have had any answer.
            (Answer::Unknown, _) => true,
            _ => *answer == expected,
        };
        (is_possible, next)
    }
}

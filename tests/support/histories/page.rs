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

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The page was created, or found again in this version.
    Created {
        version: u64,
    },
    /// The page has another title or content by now, or was deleted.
    KeyInUse,
    Page {
        version: u64,
        title: Option<Text>,
        content: Text,
    },
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
    Active {
        version: u64,
        title: Option<Text>,
        content: Text,
    },
    /// The page as it would be shown again, but for its version.
    Hidden {
        version: u64,
        title: Option<Text>,
        content: Text,
    },
    Deleted,
}

impl State {
    /// The answer to `call` in this state, and the state after it.
    pub(super) fn after(&self, call: &Call) -> (Answer, Self) {
        match (self, call) {
            (Self::Absent, Call::Create { title, content }) => {
                let (title, content) = (Some(Arc::clone(title)), Arc::clone(content));
                (Answer::Created { version: 1 }, Self::Active { version: 1, title, content })
            }
            (
                Self::Active { version, title: Some(title), content },
                Call::Create { title: sent_title, content: sent_content },
            ) if (title, content) == (sent_title, sent_content) => {
                (Answer::Created { version: *version }, self.clone())
            }
            (_, Call::Create { .. }) => (Answer::KeyInUse, self.clone()),
            (_, Call::Hide | Call::Show | Call::TakeDown) => {
                let (outcome, next) = self.after_operator(call);
                (Answer::Outcome(outcome.to_owned()), next)
            }
            (Self::Hidden { .. }, _) => (Answer::Gone, self.clone()),
            (Self::Absent, _) => (Answer::NotFound, Self::Absent),
            (Self::Deleted, _) => (Answer::Gone, Self::Deleted),
            (
                Self::Active { version, .. },
                Call::Patch { if_match: Some(required), .. } | Call::Delete { if_match: Some(required) },
            ) if required != version => (Answer::PreconditionFailed, self.clone()),
            (Self::Active { .. }, Call::Get | Call::Patch { title: None, content: None, .. }) => {
                (self.shown(), self.clone())
            }
            (Self::Active { version, title, content }, Call::Patch { title: new_title, content: new_content, .. }) => {
                let next = Self::Active {
                    version: version + 1,
                    title: new_title.clone().unwrap_or_else(|| title.clone()),
                    content: new_content.clone().unwrap_or_else(|| content.clone()),
                };
                (next.shown(), next)
            }
            (Self::Active { .. }, Call::Delete { .. }) => (Answer::Deleted, Self::Deleted),
        }
    }

    /// The outcome of an operator's `call` in this state, and the state after it. To hide or to show a page is no change of it: its version stays.
    fn after_operator(&self, call: &Call) -> (&'static str, Self) {
        match (self, call) {
            (Self::Absent, _) => ("not_found", Self::Absent),
            (Self::Deleted, _) => ("already_deleted", Self::Deleted),
            (Self::Active { .. } | Self::Hidden { .. }, Call::TakeDown) => ("taken_down", Self::Deleted),
            (Self::Active { version, title, content }, Call::Hide) => {
                ("hidden", Self::Hidden { version: *version, title: title.clone(), content: Arc::clone(content) })
            }
            (Self::Hidden { version, title, content }, Call::Show) => {
                ("shown", Self::Active { version: *version, title: title.clone(), content: Arc::clone(content) })
            }
            (Self::Hidden { .. }, _) => ("already_hidden", self.clone()),
            (Self::Active { .. }, _) => ("already_shown", self.clone()),
        }
    }

    fn shown(&self) -> Answer {
        match self {
            Self::Absent => Answer::NotFound,
            Self::Deleted | Self::Hidden { .. } => Answer::Gone,
            Self::Active { version, title, content } => {
                Answer::Page { version: *version, title: title.clone(), content: Arc::clone(content) }
            }
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

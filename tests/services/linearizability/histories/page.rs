//! What one page does when nobody else is about: the specification that histories are held against.
//!
//! Versions come with every answer that has an entity tag, and each write's values are its own, so almost every answer
//! fixes its place in the order. That is what makes checking fast and the specification sharp.

use std::sync::Arc;

use todc_utils::specifications::Specification;

/// A title or content, unique to the call that wrote it.
pub(crate) type Text = Arc<str>;

/// What a client asked for.
#[derive(Clone, Debug)]
pub(crate) enum Call {
    Create {
        title: Text,
        content: Text,
    },
    Get,
    /// A title of `Some(None)` is cleared. Both fields absent change nothing.
    Patch {
        title: Option<Option<Text>>,
        content: Option<Text>,
        if_match: Option<u64>,
    },
    Delete {
        if_match: Option<u64>,
    },
}

/// What it was told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Created {
        version: u64,
    },
    Page {
        version: u64,
        title: Option<Text>,
        content: Text,
    },
    Deleted,
    NotFound,
    Gone,
    PreconditionFailed,
    /// A failure which says that nothing was changed, and is held to it.
    NothingChanged,
    /// Nothing, or a failure that leaves it open: the call may take effect at any later time, or never.
    Unknown,
    /// Something that the service must not say to such a call.
    Unexpected(String),
}

/// What stands under a slug.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum State {
    Absent,
    Active { version: u64, title: Option<Text>, content: Text },
    Deleted,
}

impl State {
    /// What `call` answers here, and what stands there afterwards.
    fn after(&self, call: &Call) -> (Answer, Self) {
        match (self, call) {
            (Self::Absent, Call::Create { title, content }) => {
                let (title, content) = (Some(Arc::clone(title)), Arc::clone(content));
                (Answer::Created { version: 1 }, Self::Active { version: 1, title, content })
            }
            (_, Call::Create { .. }) => (Answer::Unexpected("the slug is taken".to_owned()), self.clone()),
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

    fn shown(&self) -> Answer {
        match self {
            Self::Absent => Answer::NotFound,
            Self::Deleted => Answer::Gone,
            Self::Active { version, title, content } => {
                Answer::Page { version: *version, title: title.clone(), content: Arc::clone(content) }
            }
        }
    }
}

/// A page, as the checker takes it.
pub(crate) struct Page;

impl Specification for Page {
    type State = State;
    type Operation = (Call, Answer);

    fn init() -> State {
        State::Absent
    }

    fn apply((call, answer): &(Call, Answer), state: &State) -> (bool, State) {
        let (expected, next) = state.after(call);
        // Whatever it would have been told fits a call that was told nothing.
        (*answer == Answer::Unknown || *answer == expected, next)
    }
}

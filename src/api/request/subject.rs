//! The subject that a request names: one of those who share the client's address.

use http::{HeaderMap, HeaderName};
use serde_json::{Map, Value};

use handbill_core::domain::subject::Subject;

/// The member of `_meta` in which a large host of agents names the user of a call, as an opaque text. No other host is known
/// to send any (2026-11).
pub const SUBJECT_IN_META: &str = "openai/subject";

/// The places in which requests name their subject: a header, and a member of `_meta` in calls of tools. Only networks with
/// limits for subjects are believed.
#[derive(Clone, Debug, Default)]
pub struct SubjectNames {
    pub header: Option<HeaderName>,
}

impl SubjectNames {
    /// The subject in the header. If the header is there twice, it is not known which one the trusted network wrote.
    pub fn in_headers(&self, headers: &HeaderMap) -> Option<Subject> {
        let mut values = headers.get_all(self.header.as_ref()?).iter();
        let (value, another) = (values.next()?, values.next());
        Subject::named(value.to_str().ok()?).filter(|_| another.is_none())
    }

    pub fn in_meta(&self, meta: &Map<String, Value>) -> Option<Subject> {
        Subject::named(meta.get(SUBJECT_IN_META)?.as_str()?)
    }
}

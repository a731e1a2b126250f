//! The subject that a request names: one of those who share the client's address.

use http::{HeaderMap, HeaderName};
use serde_json::{Map, Value};

use crate::domain::subject::Subject;

/// The places in which requests name their subject. The default is none.
#[derive(Clone, Debug, Default)]
pub struct SubjectNames {
    pub header: Option<HeaderName>,
    /// A member of `_meta` in calls of MCP tools.
    pub meta: Option<String>,
}

impl SubjectNames {
    /// The subject in the header. If the header is there twice, it is not known which one the trusted network wrote.
    pub fn in_headers(&self, headers: &HeaderMap) -> Option<Subject> {
        let mut values = headers.get_all(self.header.as_ref()?).iter();
        let (value, another) = (values.next()?, values.next());
        Subject::named(value.to_str().ok()?).filter(|_| another.is_none())
    }

    /// The subject in `_meta`.
    pub fn in_meta(&self, meta: &Map<String, Value>) -> Option<Subject> {
        Subject::named(meta.get(self.meta.as_ref()?)?.as_str()?)
    }
}

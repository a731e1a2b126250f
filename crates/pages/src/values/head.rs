//! What a slug has, besides a page's text: one value, and one JSON object wherever it is kept.
//!
//! ```text
//! {"slug":"…","version":3,"created_at":"2026-11-21T04:30:00.123Z","updated_at":"…","changed_at":"…","state":"active",
//!  "key_sha256":"…","details":{"title":"…"},"links":["https://…"],"renderer_version":4}
//! {…,"state":"hidden",…,"takedown":{"reason":"spam","by":"…"}}
//! {…,"state":"deleted","takedown":{…}}
//! ```
//!
//! Both stores, the archive and `inspect` have these bytes. A replica of an older version meets members that it does not know, and
//! keeps them when it writes the page. A deletion drops them: nothing of a deleted page may stay.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use thiserror::Error;

use super::details::{Details, DetailsPatch, UnknownMembers};
use super::{edit_key::EditKeyHash, origin::Origin, slug::Slug, takedown::Takedown, timestamp::UnixMillis};

/// Begins with 1 and grows by one with each change of details or text. An import may skip or repeat some.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u64")]
pub struct PageVersion(u64);

impl PageVersion {
    pub const FIRST: Self = Self(1);

    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }

    pub fn get(self) -> u64 {
        self.0
    }
}

impl TryFrom<u64> for PageVersion {
    type Error = &'static str;

    fn try_from(version: u64) -> Result<Self, Self::Error> {
        if version > 0 { Ok(Self(version)) } else { Err("the version is 0") }
    }
}

/// What readers hold of a page: its entity tag, and the name of a cached answer. A restored page continues from an older version, so
/// the version alone is not enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PageState {
    pub version: PageVersion,
    pub updated_at: UnixMillis,
}

/// `S` is what is known of the state: [`State`] of any slug, [`Live`] of a page, or the takedown of a [`Tombstone`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head<S = State> {
    pub slug: Slug,
    pub version: PageVersion,
    pub created_at: UnixMillis,
    /// The last change of details or text, for readers.
    pub updated_at: UnixMillis,
    /// The last write, hiding and showing too. It orders the states of one version.
    pub changed_at: UnixMillis,
    pub state: S,
    pub unknown: UnknownMembers,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    Active(Live),
    /// To everybody but operators the page is deleted.
    Hidden(Live, Takedown),
    /// Keeps the slug from being used again. Without a takedown the page was deleted with its edit key.
    Deleted(Option<Takedown>),
}

/// What a page has, and a deleted page has not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Live {
    pub key_hash: EditKeyHash,
    pub details: Details,
    /// The first two different origins of the text's http and https links.
    pub links: Vec<String>,
    /// Of the HTML that is stored with the text.
    pub renderer_version: u16,
    /// The operator who showed the page last after it was hidden.
    pub shown_by: Option<String>,
}

/// Enough to check a key or a precondition, to delete, and to answer 304.
pub type PageHead = Head<Live>;

/// What remains of a deleted page. `changed_at` is when it was deleted.
pub type Tombstone = Head<Option<Takedown>>;

impl<S> Head<S> {
    pub fn map_state<T>(self, map: impl FnOnce(S) -> T) -> Head<T> {
        let Self { slug, version, created_at, updated_at, changed_at, state, unknown } = self;
        Head { slug, version, created_at, updated_at, changed_at, state: map(state), unknown }
    }

    /// Orders the states of a page: a later write of one version is the later state.
    pub fn order(&self) -> (PageVersion, UnixMillis) {
        (self.version, self.changed_at)
    }

    fn deleted(&self, takedown: Option<Takedown>, now: UnixMillis) -> Tombstone {
        let now = now.strictly_after(self.changed_at);
        Head {
            slug: self.slug.clone(),
            version: self.version.next(),
            created_at: self.created_at,
            updated_at: now,
            changed_at: now,
            state: takedown,
            unknown: UnknownMembers::new(),
        }
    }
}

impl Head {
    /// Whether there is a page, hidden or not.
    pub fn live(&self) -> Option<&Live> {
        match &self.state {
            State::Active(live) | State::Hidden(live, _) => Some(live),
            State::Deleted(_) => None,
        }
    }

    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("texts and numbers are JSON")
    }

    pub fn from_json(json: &[u8]) -> Result<Self, HeadError> {
        Ok(serde_json::from_slice(json)?)
    }
}

impl PageHead {
    pub fn first(slug: Slug, details: Details, key_hash: EditKeyHash, now: UnixMillis) -> Self {
        Self {
            slug,
            version: PageVersion::FIRST,
            created_at: now,
            updated_at: now,
            changed_at: now,
            state: Live { key_hash, details, links: Vec::new(), renderer_version: 0, shown_by: None },
            unknown: UnknownMembers::new(),
        }
    }

    #[must_use]
    pub fn updated(mut self, patch: &DetailsPatch, now: UnixMillis) -> Self {
        self.version = self.version.next();
        // An import may bring an `updated_at` that is later than `changed_at`.
        self.updated_at = now.strictly_after(self.updated_at.max(self.changed_at));
        self.changed_at = self.updated_at;
        patch.apply(&mut self.state.details);
        self
    }

    /// Hidden or shown: for readers nothing changes.
    #[must_use]
    pub fn changed(self, now: UnixMillis) -> Self {
        Self { changed_at: now.strictly_after(self.changed_at), ..self }
    }

    pub fn state(&self) -> PageState {
        PageState { version: self.version, updated_at: self.updated_at }
    }

    pub fn has_external_links(&self, own: &Origin) -> bool {
        self.state.links.iter().any(|origin| origin != own.as_str())
    }

    pub fn tombstone(&self, now: UnixMillis) -> Tombstone {
        self.deleted(None, now)
    }

    pub fn taken_down(&self, takedown: Takedown, now: UnixMillis) -> Tombstone {
        self.deleted(Some(takedown), now)
    }
}

impl Tombstone {
    /// Of a page of which nothing else is known.
    pub fn alone(slug: Slug, version: PageVersion, at: UnixMillis, takedown: Option<Takedown>) -> Self {
        let unknown = UnknownMembers::new();
        Self { slug, version, created_at: at, updated_at: at, changed_at: at, state: takedown, unknown }
    }
}

#[derive(Debug, Error)]
#[error("the head is not one of this Handbill: {0}")]
pub struct HeadError(#[from] serde_json::Error);

/// The members of a head's object.
#[derive(Serialize, Deserialize)]
struct Members {
    slug: Slug,
    version: PageVersion,
    created_at: UnixMillis,
    updated_at: UnixMillis,
    changed_at: UnixMillis,
    state: StateName,
    #[serde(skip_serializing_if = "Option::is_none")]
    key_sha256: Option<EditKeyHash>,
    #[serde(skip_serializing_if = "Option::is_none")]
    details: Option<Details>,
    #[serde(skip_serializing_if = "Option::is_none")]
    links: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    renderer_version: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    shown_by: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    takedown: Option<Takedown>,
    #[serde(flatten)]
    unknown: UnknownMembers,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum StateName {
    Active,
    Hidden,
    Deleted,
}

impl Serialize for Head {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { slug, version, created_at, updated_at, changed_at, state, unknown } = self.clone();
        let (state, live, takedown) = match state {
            State::Active(live) => (StateName::Active, Some(live), None),
            State::Hidden(live, takedown) => (StateName::Hidden, Some(live), Some(takedown)),
            State::Deleted(takedown) => (StateName::Deleted, None, takedown),
        };
        let (key_sha256, details, links, renderer_version, shown_by) = match live {
            Some(Live { key_hash, details, links, renderer_version, shown_by }) => {
                (Some(key_hash), Some(details), Some(links), Some(renderer_version), shown_by)
            }
            None => (None, None, None, None, None),
        };
        Members {
            slug,
            version,
            created_at,
            updated_at,
            changed_at,
            state,
            key_sha256,
            details,
            links,
            renderer_version,
            shown_by,
            takedown,
            unknown,
        }
        .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Head {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let found = Members::deserialize(deserializer)?;
        let live = match (found.state, found.key_sha256, found.details) {
            (StateName::Deleted, ..) => None,
            (_, None, _) => return Err(missing("key_sha256")),
            (_, _, None) => return Err(missing("details")),
            (_, Some(key_hash), Some(details)) => Some(Live {
                key_hash,
                details,
                links: found.links.unwrap_or_default(),
                renderer_version: found.renderer_version.unwrap_or_default(),
                shown_by: found.shown_by,
            }),
        };
        let state = match (found.state, live, found.takedown) {
            (StateName::Hidden, Some(live), Some(takedown)) => State::Hidden(live, takedown),
            (StateName::Hidden, ..) => return Err(missing("takedown")),
            (_, Some(live), _) => State::Active(live),
            (_, None, takedown) => State::Deleted(takedown),
        };
        let Members { slug, version, created_at, updated_at, changed_at, unknown, .. } = found;
        Ok(Self { slug, version, created_at, updated_at, changed_at, state, unknown })
    }
}

fn missing<E: serde::de::Error>(member: &str) -> E {
    E::custom(format_args!("a page in this state has no {member}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::values::takedown::TakedownReason;

    const ACTIVE: &str = r#"{"slug":"a-page-22222222","version":3,"created_at":"1970-01-01T00:00:00.001Z","updated_at":"1970-01-01T00:00:00.002Z","changed_at":"1970-01-01T00:00:00.003Z","state":"active","key_sha256":"9fed3393ecfaa31c1f0fd6f4bd321d1caad16c54b6d3ea8d801595de55a7dbd0","details":{"title":"T","series":["x"]},"links":["https://a.example"],"renderer_version":4,"pinned":{"by":1}}"#;

    fn hidden() -> String {
        ACTIVE
            .replace("active", "hidden")
            .replace(r#""pinned""#, r#""takedown":{"reason":"spam","by":"desk"},"pinned""#)
    }

    #[test]
    fn members_that_are_not_known_come_back_as_they_were() {
        for json in [ACTIVE, &hidden()] {
            assert_eq!(Head::from_json(json.as_bytes()).unwrap().to_json(), json);
        }
    }

    #[test]
    fn an_update_carries_members_that_are_not_known_and_a_deletion_drops_them() {
        let head = Head::from_json(ACTIVE.as_bytes()).unwrap();
        let live = head.live().unwrap().clone();
        let page = head.map_state(|_| live).updated(&DetailsPatch::default(), UnixMillis::new(9));
        let json = page.clone().map_state(State::Active).to_json();
        assert!(json.contains(r#""series":["x"]"#) && json.contains(r#""pinned":{"by":1}"#), "{json}");
        let tombstone = page.tombstone(UnixMillis::new(10));
        let json = tombstone.map_state(State::Deleted).to_json();
        assert!(!json.contains("series") && !json.contains("pinned"), "{json}");
    }

    #[test]
    fn what_is_no_head_of_this_version_is_refused_by_what_is_wrong() {
        for (from, to, reason) in [
            (r#""active""#, r#""archived""#, "unknown variant `archived`"),
            (r#""version":3"#, r#""version":0"#, "the version is 0"),
            ("a-page-22222222", "A-page", "slug"),
            (r#""key_sha256":"9f"#, r#""key":"9f"#, "no key_sha256"),
            (r#""details":{"#, r#""detail":{"#, "no details"),
            (r#""active""#, r#""hidden""#, "no takedown"),
            ("1970-01-01T00:00:00.003Z", "yesterday", "time"),
        ] {
            let error = Head::from_json(ACTIVE.replacen(from, to, 1).as_bytes()).unwrap_err().to_string();
            assert!(error.contains(reason), "{to}: {error}");
        }
    }

    #[test]
    fn hiding_and_showing_move_only_the_time_of_the_last_write() {
        let head = Head::from_json(ACTIVE.as_bytes()).unwrap();
        let live = head.live().unwrap().clone();
        let page = head.map_state(|_| live);
        let changed = page.clone().changed(UnixMillis::new(1));
        assert_eq!(changed.state(), page.state());
        assert_eq!(changed.changed_at, UnixMillis::new(4), "the clock stood still");
        let takedown = Takedown::new(TakedownReason::Spam, "desk").unwrap();
        let tombstone = changed.taken_down(takedown.clone(), UnixMillis::new(1));
        assert_eq!((tombstone.version.get(), tombstone.changed_at.get()), (4, 5));
        assert_eq!(tombstone.state, Some(takedown));
    }
}

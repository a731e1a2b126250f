//! One line: checksum, JSON, values.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::{Entry, EntryError, Header, VERSION};
use crate::values::content::Content;
use crate::values::edit_key::EditKeyHash;
use crate::values::hex;
use crate::values::page::{PageHead, PageVersion, Tombstone};
use crate::values::slug::Slug;
use crate::values::takedown::Takedown;
use crate::values::timestamp::UnixMillis;
use crate::values::title::Title;

const FORMAT: &str = "handbill-archive";

const BEFORE_SUM: &str = "{\"sum\":\"";

const AFTER_SUM: &str = "\",";

/// 128 bits.
const SUM_DIGITS: usize = 32;

/// Without the checksum.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum LineBody<'a> {
    Header(HeaderJson),
    Page(PageLine<'a>),
    Tombstone(TombstoneJson<'a>),
    Trailer(TrailerJson),
}

#[derive(Serialize, Deserialize)]
pub(super) struct HeaderJson {
    format: String,
    pub(super) version: u32,
    created_at_ms: i64,
    generator: String,
}

/// A format that stays when the types of values change.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PageLine<'a> {
    slug: Cow<'a, str>,
    version: u64,
    created_at_ms: i64,
    updated_at_ms: i64,
    key_sha256: Cow<'a, str>,
    title: Option<Cow<'a, str>>,
    content: Cow<'a, str>,
    /// An older version refuses this field, so it shows no hidden page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    hidden: Option<TakedownJson<'a>>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TombstoneJson<'a> {
    slug: Cow<'a, str>,
    version: u64,
    created_at_ms: i64,
    deleted_at_ms: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    takedown: Option<TakedownJson<'a>>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TakedownJson<'a> {
    reason: Cow<'a, str>,
    by: Cow<'a, str>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TrailerJson {
    pub(super) records: u64,
    pub(super) unreadable: u64,
    pub(super) sha256: String,
}

pub(super) fn encode(body: &LineBody<'_>) -> String {
    let json = serde_json::to_string(body).expect("texts and numbers are JSON");
    let covered = &json[1..];
    let mut line = String::with_capacity(BEFORE_SUM.len() + SUM_DIGITS + AFTER_SUM.len() + covered.len() + 1);
    line.push_str(BEFORE_SUM);
    line.push_str(&sum(covered.as_bytes()));
    line.push_str(AFTER_SUM);
    line.push_str(covered);
    line.push('\n');
    line
}

/// `None` if the checksum does not match.
pub(super) fn covered(line: &[u8]) -> Option<&[u8]> {
    let rest = line.strip_suffix(b"\n")?.strip_prefix(BEFORE_SUM.as_bytes())?;
    let (claimed, rest) = rest.split_at_checked(SUM_DIGITS)?;
    let covered = rest.strip_prefix(AFTER_SUM.as_bytes())?;
    (claimed == sum(covered).as_bytes()).then_some(covered)
}

pub(super) fn decode(covered: &[u8]) -> Result<LineBody<'static>, EntryError> {
    Ok(serde_json::from_slice(&[b"{", covered].concat())?)
}

fn sum(covered: &[u8]) -> String {
    hex::encode(&Sha256::digest(covered)[..SUM_DIGITS / 2])
}

fn key_hash(digits: &str) -> Option<EditKeyHash> {
    // Each record has one form only.
    let is_lower_case = !digits.bytes().any(|digit| digit.is_ascii_uppercase());
    let bytes = hex::decode(digits).filter(|_| is_lower_case)?;
    bytes.try_into().ok().map(EditKeyHash::from_bytes)
}

fn time(millis: i64) -> Result<UnixMillis, EntryError> {
    let time = UnixMillis::new(millis);
    if time.get() == millis { Ok(time) } else { Err(EntryError::Time) }
}

fn version(version: u64) -> Result<PageVersion, EntryError> {
    if version == 0 { Err(EntryError::Version) } else { Ok(PageVersion::new(version)) }
}

impl HeaderJson {
    pub(super) fn of(header: &Header) -> Self {
        Self {
            format: FORMAT.to_owned(),
            version: VERSION,
            created_at_ms: header.created_at.get(),
            generator: header.generator.clone(),
        }
    }

    /// `None` if the file has another format.
    pub(super) fn into_header(self) -> Option<Header> {
        let Self { created_at_ms, generator, .. } = self;
        let header = Header { created_at: UnixMillis::new(created_at_ms), generator };
        (self.format == FORMAT).then_some(header)
    }
}

impl<'a> LineBody<'a> {
    pub(super) fn of(entry: &'a Entry) -> Self {
        match entry {
            Entry::Page(head, content) => Self::Page(PageLine {
                slug: head.slug.as_str().into(),
                version: head.version.get(),
                created_at_ms: head.created_at.get(),
                updated_at_ms: head.updated_at.get(),
                key_sha256: hex::encode(head.key_hash.as_bytes()).into(),
                title: head.title.as_ref().map(|title| title.as_str().into()),
                content: content.as_str().into(),
                hidden: head.hidden.as_deref().map(TakedownJson::of),
            }),
            Entry::Tombstone(tombstone) => Self::Tombstone(TombstoneJson::of(tombstone)),
        }
    }
}

impl<'a> TombstoneJson<'a> {
    fn of(tombstone: &'a Tombstone) -> Self {
        Self {
            slug: tombstone.slug.as_str().into(),
            version: tombstone.version.get(),
            created_at_ms: tombstone.created_at.get(),
            deleted_at_ms: tombstone.deleted_at.get(),
            takedown: tombstone.takedown.as_ref().map(TakedownJson::of),
        }
    }

    pub(super) fn into_tombstone(self) -> Result<Tombstone, EntryError> {
        Ok(Tombstone {
            slug: Slug::parse(&self.slug)?,
            version: version(self.version)?,
            created_at: time(self.created_at_ms)?,
            deleted_at: time(self.deleted_at_ms)?,
            takedown: self.takedown.map(TakedownJson::into_takedown).transpose()?,
        })
    }
}

impl<'a> TakedownJson<'a> {
    fn of(takedown: &'a Takedown) -> Self {
        Self { reason: takedown.reason.code().into(), by: takedown.by.as_str().into() }
    }

    fn into_takedown(self) -> Result<Takedown, EntryError> {
        Ok(Takedown::new(self.reason.parse()?, &self.by)?)
    }
}

impl PageLine<'_> {
    pub(super) fn into_entry(self) -> Result<Entry, EntryError> {
        let head = PageHead {
            slug: Slug::parse(&self.slug)?,
            title: self.title.map(|title| Title::parse(&title)).transpose()?,
            key_hash: key_hash(&self.key_sha256).ok_or(EntryError::KeyHash)?,
            version: version(self.version)?,
            created_at: time(self.created_at_ms)?,
            updated_at: time(self.updated_at_ms)?,
            link_origins: Vec::new(),
            renderer_version: 0,
            hidden: self.hidden.map(TakedownJson::into_takedown).transpose()?.map(Box::new),
        };
        Ok(Entry::Page(head, Content::parse(self.content.into_owned())?))
    }
}

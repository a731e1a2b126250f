//! One line: checksum, JSON, values; and the encoder, which writes line by line.

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
pub(super) enum LineBody {
    Header(HeaderJson),
    Page(PageLine),
    Tombstone(Tombstone),
    Trailer(TrailerJson),
}

#[derive(Serialize, Deserialize)]
pub(super) struct HeaderJson {
    format: String,
    pub(super) version: u32,
    created_at_ms: i64,
    generator: String,
}

/// Has no HTML.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PageLine {
    slug: Slug,
    version: PageVersion,
    created_at_ms: UnixMillis,
    updated_at_ms: UnixMillis,
    key_sha256: EditKeyHash,
    title: Option<Title>,
    content: Content,
    /// An older version refuses this field, so it shows no hidden page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    hidden: Option<Takedown>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TrailerJson {
    pub(super) records: u64,
    pub(super) unreadable: u64,
    pub(super) sha256: String,
}

pub(super) fn encode(body: &LineBody) -> String {
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

pub(super) fn decode(covered: &[u8]) -> Result<LineBody, EntryError> {
    Ok(serde_json::from_slice(&[b"{", covered].concat())?)
}

fn sum(covered: &[u8]) -> String {
    hex::encode(&Sha256::digest(covered)[..SUM_DIGITS / 2])
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

impl LineBody {
    pub(super) fn of(entry: &Entry) -> Self {
        match entry.clone() {
            Entry::Page(head, content) => Self::Page(PageLine {
                slug: head.slug,
                version: head.version,
                created_at_ms: head.created_at,
                updated_at_ms: head.updated_at,
                key_sha256: head.key_hash,
                title: head.title,
                content,
                hidden: head.hidden.map(|hidden| *hidden),
            }),
            Entry::Tombstone(tombstone) => Self::Tombstone(tombstone),
        }
    }
}

impl PageLine {
    pub(super) fn into_entry(self) -> Result<Entry, EntryError> {
        let head = PageHead {
            slug: self.slug,
            title: self.title,
            key_hash: self.key_sha256,
            version: self.version,
            created_at: self.created_at_ms,
            updated_at: self.updated_at_ms,
            link_origins: Vec::new(),
            renderer_version: 0,
            hidden: self.hidden.map(Box::new),
        };
        // What a store has may be longer than is allowed today.
        Ok(Entry::Page(head, Content::parse(self.content.as_str())?))
    }
}

#[derive(Debug)]
pub struct Encoder {
    digest: Sha256,
    records: u64,
    unreadable: u64,
}

impl Encoder {
    /// Returns the first line.
    pub fn begin(created_at: UnixMillis, generator: String) -> (Self, String) {
        let header = Header { created_at, generator };
        let mut encoder = Self { digest: Sha256::new(), records: 0, unreadable: 0 };
        let line = encoder.digested(&LineBody::Header(HeaderJson::of(&header)));
        (encoder, line)
    }

    pub fn entry(&mut self, entry: &Entry) -> String {
        self.records += 1;
        self.digested(&LineBody::of(entry))
    }

    pub fn line(&mut self, line: &str) {
        self.records += 1;
        self.digest.update(line.as_bytes());
    }

    pub fn unreadable(&mut self, records: u64) {
        self.unreadable += records;
    }

    pub fn unreadable_count(&self) -> u64 {
        self.unreadable
    }

    pub fn end(self) -> String {
        let Self { digest, records, unreadable } = self;
        encode(&LineBody::Trailer(TrailerJson { records, unreadable, sha256: hex::encode(&digest.finalize()) }))
    }

    fn digested(&mut self, body: &LineBody) -> String {
        let line = encode(body);
        self.digest.update(line.as_bytes());
        line
    }
}

pub fn entry_line(entry: &Entry) -> String {
    encode(&LineBody::of(entry))
}

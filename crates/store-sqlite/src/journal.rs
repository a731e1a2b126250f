//! The journal: one line of JSON for each deletion, takedown, hiding and showing, in a file beside the database (contract,
//! decision 18).
//!
//! A line is on disk before the transaction with its act is committed, so the journal has every act whose caller got an answer. A
//! backup of the database is older than the journal. When the store is opened, it applies the lines that the database does not have
//! yet, and so no page returns that was deleted or hidden after the backup. If a commit fails after the line was written, a line
//! with the kind `void` takes it back.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::Path;

use handbill_core::domain::page::{PageVersion, Tombstone};
use handbill_core::domain::slug::Slug;
use handbill_core::domain::takedown::{Takedown, TakedownReason, Visibility};
use handbill_core::domain::timestamp::UnixMillis;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use super::directory::create_file;

/// Longest line, in bytes: far more than slug, time, reason and an operator's name.
const MAX_LINE_BYTES: usize = 4096;

/// An act as a line of the journal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Line {
    kind: Kind,
    slug: String,
    /// The version of the page after the act.
    version: u64,
    at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<TakedownReason>,
    #[serde(skip_serializing_if = "Option::is_none")]
    by: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Kind {
    Delete,
    Takedown,
    Hide,
    Show,
    /// Takes back the last line with the same slug, version and time.
    Void,
}

/// What a line says.
pub(super) enum Act {
    Deleted(Tombstone),
    Turned(Visibility),
}

impl Line {
    pub(super) fn of_tombstone(tombstone: &Tombstone) -> Self {
        let kind = if tombstone.takedown.is_some() { Kind::Takedown } else { Kind::Delete };
        Self::new(kind, &tombstone.slug, tombstone.version, tombstone.deleted_at, tombstone.takedown.as_ref())
    }

    /// The page under the slug of `visibility`, which has `version`, was hidden or shown.
    pub(super) fn of_visibility(visibility: &Visibility, version: PageVersion) -> Self {
        let takedown = visibility.hidden.as_ref();
        let kind = if takedown.is_some() { Kind::Hide } else { Kind::Show };
        Self::new(kind, &visibility.slug, version, visibility.at, takedown)
    }

    fn new(kind: Kind, slug: &Slug, version: PageVersion, at: UnixMillis, takedown: Option<&Takedown>) -> Self {
        Self {
            kind,
            slug: slug.to_string(),
            version: version.get(),
            at: at.to_string(),
            reason: takedown.map(|takedown| takedown.reason),
            by: takedown.map(|takedown| takedown.by.clone()),
        }
    }

    /// The line that takes this one back.
    pub(super) fn void(&self) -> Self {
        Self { kind: Kind::Void, reason: None, by: None, ..self.clone() }
    }

    fn parse(line: &[u8]) -> Option<Self> {
        let line: Self = serde_json::from_slice(line).ok()?;
        (line.kind == Kind::Void || line.act().is_some()).then_some(line)
    }

    /// What the line says; `None` if that makes no sense.
    pub(super) fn act(&self) -> Option<Act> {
        let (slug, at) = (Slug::parse(&self.slug).ok()?, UnixMillis::parse(&self.at)?);
        let takedown = match (self.reason, &self.by) {
            (Some(reason), Some(by)) => Some(Takedown::new(reason, by).ok()?),
            _ => None,
        };
        Some(match self.kind {
            Kind::Delete | Kind::Takedown => {
                let version = PageVersion::new(self.version);
                Act::Deleted(Tombstone { slug, version, created_at: at, deleted_at: at, takedown })
            }
            Kind::Hide => Act::Turned(Visibility { slug, at, hidden: Some(takedown?) }),
            Kind::Show => Act::Turned(Visibility { slug, at, hidden: None }),
            Kind::Void => return None,
        })
    }

    fn key(&self) -> (String, u64, String) {
        (self.slug.clone(), self.version, self.at.clone())
    }
}

/// A line that makes no sense.
struct Damaged;

/// A place in the journal: how far it was applied to a database. The hash of the line before the place tells another journal with
/// as many bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Place {
    offset: u64,
    last: u64,
}

/// Why lines were not written.
#[derive(Debug)]
pub(super) struct AppendError {
    pub(super) reason: io::Error,
    /// Whether a part of the lines may be on disk.
    pub(super) is_certain: bool,
}

/// The file, open for appending.
#[derive(Debug)]
pub(super) struct Journal {
    file: File,
    end: Place,
    /// Whether bytes of a failed append may be behind the end.
    is_torn: bool,
}

impl Journal {
    /// Opens the journal at `path`, creates it if it is missing, and cuts off an unfinished last line.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let file = create_file(path)?;
        let len = file.metadata()?.len();
        let mut journal = Self { file, end: Place::default(), is_torn: false };
        let tail = journal.before(len)?;
        let whole = tail.iter().rposition(|&byte| byte == b'\n').map_or(0, |last| last + 1);
        let end = len - (tail.len() - whole) as u64;
        journal.end = journal.place(end)?;
        if end < len {
            tracing::warn!(bytes = len - end, "the journal ended with an unfinished line, which is cut off");
            journal.file.set_len(end)?;
            journal.file.sync_all()?;
        }
        Ok(journal)
    }

    /// The place behind the last line.
    pub(super) fn end(&self) -> &Place {
        &self.end
    }

    /// Adds `lines` and puts them on disk. After an error the file is as it was, or the next call makes it so.
    pub(super) fn append(&mut self, lines: &[Line]) -> Result<(), AppendError> {
        let uncertain = |reason| AppendError { reason, is_certain: false };
        if self.is_torn {
            self.cut().map_err(uncertain)?;
        }
        let (mut bytes, mut last) = (Vec::new(), 0);
        for line in lines {
            let begin = bytes.len();
            serde_json::to_writer(&mut bytes, line).map_err(|error| uncertain(error.into()))?;
            bytes.push(b'\n');
            last = xxh3_64(&bytes[begin..]);
        }
        let written = self.file.write_all_at(&bytes, self.end.offset).and_then(|()| self.file.sync_data());
        if let Err(reason) = written {
            self.is_torn = self.cut().is_err();
            return Err(AppendError { reason, is_certain: !self.is_torn });
        }
        self.end = Place { offset: self.end.offset + bytes.len() as u64, last };
        Ok(())
    }

    fn cut(&mut self) -> io::Result<()> {
        self.file.set_len(self.end.offset)?;
        self.file.sync_data()?;
        self.is_torn = false;
        Ok(())
    }

    /// The lines after `applied` that no later line takes back, oldest first, each to `line`. All lines, if `applied` is a place in
    /// another journal: applying a line twice changes nothing.
    pub(super) fn lines_after<E: From<io::Error>>(
        &self,
        applied: &Place,
        mut line: impl FnMut(Line) -> Result<(), E>,
    ) -> Result<(), E> {
        let is_here = applied.offset <= self.end.offset && self.place(applied.offset)? == *applied;
        if !is_here {
            tracing::warn!("the database was written with another journal, so the whole journal is applied to it");
        }
        let from = if is_here { applied.offset } else { 0 };
        let mut voids = HashMap::new();
        self.each_after(from, |offset, line| {
            if let Ok(line) = line
                && line.kind == Kind::Void
            {
                voids.insert(line.key(), offset);
            }
            Ok::<_, E>(())
        })?;
        self.each_after(from, |offset, read| {
            match read {
                Ok(Line { kind: Kind::Void, .. }) => {}
                Ok(read) if voids.get(&read.key()).is_some_and(|&void| void > offset) => {}
                Ok(read) => line(read)?,
                Err(Damaged) => tracing::error!(byte = offset, "a line of the journal is damaged, and is left out"),
            }
            Ok(())
        })
    }

    /// Each line after `from`, with its offset.
    fn each_after<E: From<io::Error>>(
        &self,
        from: u64,
        mut each: impl FnMut(u64, Result<Line, Damaged>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut file = &self.file;
        file.seek(SeekFrom::Start(from))?;
        let mut input = BufReader::new(file.take(self.end.offset - from));
        let (mut line, mut offset) = (Vec::new(), from);
        loop {
            line.clear();
            let read = input.read_until(b'\n', &mut line)? as u64;
            if read == 0 {
                return Ok(());
            }
            each(offset, Line::parse(&line).ok_or(Damaged))?;
            offset += read;
        }
    }

    /// The place at `offset`, where a line ends.
    fn place(&self, offset: u64) -> io::Result<Place> {
        let before = self.before(offset)?;
        let Some((_, line)) = before.split_last() else { return Ok(Place::default()) };
        let begin = line.iter().rposition(|&byte| byte == b'\n').map_or(0, |last| last + 1);
        Ok(Place { offset, last: xxh3_64(&before[begin..]) })
    }

    /// The bytes before `offset`, as many as a line may have.
    fn before(&self, offset: u64) -> io::Result<Vec<u8>> {
        let from = offset.saturating_sub(MAX_LINE_BYTES as u64);
        let mut bytes = vec![0; usize::try_from(offset - from).unwrap_or(MAX_LINE_BYTES)];
        self.file.read_exact_at(&mut bytes, from)?;
        Ok(bytes)
    }
}

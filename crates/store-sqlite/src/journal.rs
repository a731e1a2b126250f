//! The journal: one line of JSON for each deletion, takedown, hiding and showing, in a file beside the database
//! (contract, decision 18).
//!
//! A line is on disk before its act is committed. Opening a store applies the lines that its database lacks, so a
//! restored backup brings no such page back. If the commit fails, a `void` line takes the line back.

use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::{fs::File, os::unix::fs::FileExt, path::Path};

use handbill_pages::values::journal::{Kind, Line};
use xxhash_rust::xxh3::xxh3_64;

use super::directory::create_file;

/// Longest line, far more than slug, time, reason and operator take.
const MAX_LINE_BYTES: usize = 4096;

pub(super) fn void(line: &Line) -> Line {
    Line { kind: Kind::Void, reason: None, by: None, ..line.clone() }
}

fn parse(line: &[u8]) -> Option<Line> {
    let line: Line = serde_json::from_slice(line).ok()?;
    (line.kind == Kind::Void || line.act().is_some()).then_some(line)
}

/// A position in the journal: how far it was applied to a database. The hash of the line before tells another journal with
/// as many bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct JournalPosition {
    offset: u64,
    last: u64,
}

impl JournalPosition {
    pub(super) fn to_text(&self) -> String {
        format!("{} {}", self.offset, self.last)
    }

    /// The position that `text` names; the beginning, if it makes no sense.
    pub(super) fn parse(text: &str) -> Self {
        let numbers = text.split_once(' ').and_then(|(offset, last)| Some((offset.parse().ok()?, last.parse().ok()?)));
        numbers.map_or_else(Self::default, |(offset, last)| Self { offset, last })
    }
}

#[derive(Debug)]
pub(super) struct Journal {
    file: File,
    end: JournalPosition,
    /// Bytes of a failed append may follow the end.
    pub(super) is_torn: bool,
}

impl Journal {
    /// Creates a missing file, and cuts off an unfinished last line.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let file = create_file(path)?;
        let len = file.metadata()?.len();
        let mut journal = Self { file, end: JournalPosition::default(), is_torn: false };
        let tail = journal.before(len)?;
        let whole = tail.iter().rposition(|&byte| byte == b'\n').map_or(0, |last| last + 1);
        let end = len - (tail.len() - whole) as u64;
        journal.end = journal.position(end)?;
        if end < len {
            tracing::warn!(bytes = len - end, "the journal ended with an unfinished line, which is cut off");
            journal.file.set_len(end)?;
            journal.file.sync_all()?;
        }
        Ok(journal)
    }

    pub(super) fn end(&self) -> &JournalPosition {
        &self.end
    }

    /// Appends lines, which are on disk afterwards. After an error the file is as before, or torn until the next call.
    pub(super) fn append(&mut self, lines: &[Line]) -> io::Result<()> {
        if self.is_torn {
            self.cut()?;
        }
        let mut bytes = Vec::new();
        let mut last = 0;
        for line in lines {
            let begin = bytes.len();
            serde_json::to_writer(&mut bytes, line)?;
            bytes.push(b'\n');
            last = xxh3_64(&bytes[begin..]);
        }
        let written = self.file.write_all_at(&bytes, self.end.offset).and_then(|()| self.file.sync_data());
        if written.is_err() {
            self.is_torn = self.cut().is_err();
            return written;
        }
        self.end = JournalPosition { offset: self.end.offset + bytes.len() as u64, last };
        Ok(())
    }

    fn cut(&mut self) -> io::Result<()> {
        self.file.set_len(self.end.offset)?;
        self.file.sync_data()?;
        self.is_torn = false;
        Ok(())
    }

    /// Where the lines after `applied` begin. If `applied` is of another journal, all lines do: applying twice changes
    /// nothing.
    pub(super) fn begin_after(&self, applied: &JournalPosition) -> io::Result<u64> {
        let is_here = applied.offset <= self.end.offset && self.position(applied.offset)? == *applied;
        if !is_here {
            tracing::warn!("the database was written with another journal, so the whole journal is applied to it");
        }
        Ok(if is_here { applied.offset } else { 0 })
    }

    /// The lines from `offset` on, oldest first, each with its place; `None` for a damaged one.
    pub(super) fn lines_from(
        &self,
        mut offset: u64,
    ) -> io::Result<impl Iterator<Item = io::Result<(u64, Option<Line>)>>> {
        let mut file = &self.file;
        file.seek(SeekFrom::Start(offset))?;
        let lines = BufReader::new(file.take(self.end.offset - offset)).split(b'\n');
        Ok(lines.map(move |bytes| {
            let bytes = bytes?;
            let place = offset;
            offset += bytes.len() as u64 + 1;
            Ok((place, parse(&bytes)))
        }))
    }

    fn position(&self, offset: u64) -> io::Result<JournalPosition> {
        let before = self.before(offset)?;
        let Some((_, line)) = before.split_last() else { return Ok(JournalPosition::default()) };
        let begin = line.iter().rposition(|&byte| byte == b'\n').map_or(0, |last| last + 1);
        Ok(JournalPosition { offset, last: xxh3_64(&before[begin..]) })
    }

    fn before(&self, offset: u64) -> io::Result<Vec<u8>> {
        let from = offset.saturating_sub(MAX_LINE_BYTES as u64);
        let mut bytes = vec![0; usize::try_from(offset - from).unwrap_or(MAX_LINE_BYTES)];
        self.file.read_exact_at(&mut bytes, from)?;
        Ok(bytes)
    }
}

use sha2::{Digest, Sha256};

use super::line::{self, HeaderJson, LineBody, TrailerJson};
use super::{Entry, Header};
use crate::values::hex;
use crate::values::timestamp::UnixMillis;

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
        line::encode(&LineBody::Trailer(TrailerJson { records, unreadable, sha256: hex::encode(&digest.finalize()) }))
    }

    fn digested(&mut self, body: &LineBody<'_>) -> String {
        let line = line::encode(body);
        self.digest.update(line.as_bytes());
        line
    }
}

pub fn entry_line(entry: &Entry) -> String {
    line::encode(&LineBody::of(entry))
}

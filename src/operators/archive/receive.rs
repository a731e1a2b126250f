//! An archive that arrives in pieces, checked line by line.

use handbill_core::domain::archive::{ArchiveError, Decoded, Decoder, Encoder, MAX_LINE_BYTES, Summary};

#[derive(Debug, Default)]
pub struct Receiver {
    decoder: Decoder,
    /// The beginning of a line whose end has not arrived.
    line: Vec<u8>,
    records: u64,
    expected: Option<u64>,
}

impl Receiver {
    pub fn take(&mut self, bytes: &[u8]) -> Result<(), ArchiveError> {
        for part in bytes.split_inclusive(|&byte| byte == b'\n') {
            self.line.extend_from_slice(part);
            if !part.ends_with(b"\n") && self.line.len() <= MAX_LINE_BYTES {
                continue;
            }
            match self.decoder.line(&self.line)? {
                Decoded::Header(header) => self.expected = header.expected_records,
                Decoded::Entry(_) => self.records += 1,
                Decoded::Trailer(_) => {}
            }
            self.line.clear();
        }
        Ok(())
    }

    /// An encoder that goes on after the last whole line.
    pub fn encoder(&self, unreadable: u64) -> Encoder {
        self.decoder.encoder(unreadable)
    }

    pub fn records(&self) -> u64 {
        self.records
    }

    /// About how many records there are in all, if the sender knew.
    pub fn expected(&self) -> Option<u64> {
        self.expected
    }

    /// Ends the archive. It must be complete.
    pub fn end(mut self) -> Result<Summary, ArchiveError> {
        if !self.line.is_empty() {
            self.decoder.line(&self.line)?;
        }
        self.decoder.end()
    }
}

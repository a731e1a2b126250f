//! Reads an archive line by line, and refuses changed lines.

use sha2::{Digest, Sha256};

use super::{
    ArchiveError, Entry, EntryError, FORMAT, LineBody, MAX_LINE_BYTES, Trailer, VERSION, covered, decode, hex_digest,
};

#[derive(Debug, Default)]
pub struct Decoder {
    digest: Sha256,
    lines: u64,
    records: u64,
    has_header: bool,
    trailer: Option<Trailer>,
}

impl Decoder {
    /// The record in `line`; `None` for the header and the trailer. After an error, refuse the whole archive.
    pub fn line(&mut self, line: &[u8]) -> Result<Option<Entry>, ArchiveError> {
        self.lines += 1;
        let number = self.lines;
        if self.trailer.is_some() {
            return Err(ArchiveError::AfterTheEnd { line: number });
        }
        if line.len() > MAX_LINE_BYTES {
            return Err(ArchiveError::TooLong { line: number });
        }
        let Some(covered) = covered(line) else {
            return Err(if self.has_header {
                ArchiveError::Damaged { line: number }
            } else {
                ArchiveError::NotAnArchive
            });
        };
        let body = decode(covered);
        if !self.has_header {
            check_header(body)?;
            self.has_header = true;
            self.digest.update(line);
            return Ok(None);
        }
        let malformed = |reason| ArchiveError::Malformed { line: number, reason };
        let entry = match body.map_err(malformed)? {
            LineBody::Header(_) => return Err(malformed(EntryError::SecondHeader)),
            LineBody::Trailer(trailer) => {
                if trailer.sha256 != hex_digest(self.digest.clone()) || trailer.records != self.records {
                    return Err(ArchiveError::WrongDigest);
                }
                self.trailer = Some(trailer);
                return Ok(None);
            }
            LineBody::Page(page) => page.into_entry().map_err(malformed)?,
            LineBody::Tombstone(tombstone) => Entry::Tombstone(tombstone),
        };
        self.digest.update(line);
        self.records += 1;
        Ok(Some(entry))
    }

    pub fn end(self) -> Result<Trailer, ArchiveError> {
        match self.trailer {
            Some(trailer) => Ok(trailer),
            None if self.has_header => Err(ArchiveError::Cut { lines: self.lines }),
            None => Err(ArchiveError::NotAnArchive),
        }
    }
}

fn check_header(body: Result<LineBody, EntryError>) -> Result<(), ArchiveError> {
    match body {
        Ok(LineBody::Header(header)) if header.version != VERSION => Err(ArchiveError::Newer(header.version)),
        Ok(LineBody::Header(header)) if header.format == FORMAT => Ok(()),
        _ => Err(ArchiveError::NotAnArchive),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::{Encoder, encode, entry_line, sum};
    use super::*;
    use crate::values::content::Content;
    use crate::values::edit_key::EditKey;
    use crate::values::page::{HeadChanges, PageHead, PageVersion, Tombstone};
    use crate::values::slug::Slug;
    use crate::values::takedown::{Takedown, TakedownReason};
    use crate::values::timestamp::UnixMillis;
    use crate::values::title::Title;

    fn page(title: Option<&str>, content: &str) -> Entry {
        let (slug, first) = (Slug::parse("a-page-22222222").unwrap(), Title::parse("A page").unwrap());
        let title = title.map(|title| Title::parse(title).unwrap());
        let head = PageHead::first(slug, first, EditKey::random(|_| 7).hash(), UnixMillis::new(-5))
            .updated(HeadChanges { title: Some(title) }, UnixMillis::new(1_795_235_400_123));
        let head = PageHead { version: PageVersion::new(3), ..head };
        Entry::Page(head, Content::parse(content.to_owned()).unwrap())
    }

    fn tombstone() -> Tombstone {
        Tombstone {
            slug: Slug::parse("gone-33333333").unwrap(),
            version: PageVersion::new(2),
            created_at: UnixMillis::new(1),
            deleted_at: UnixMillis::new(2),
            takedown: None,
        }
    }

    fn taken_down() -> Tombstone {
        let takedown = Takedown::new(TakedownReason::Spam, "Ada \"ü\"").unwrap();
        Tombstone { takedown: Some(takedown), ..tombstone() }
    }

    fn archive(entries: &[Entry]) -> Vec<u8> {
        let (mut encoder, mut text) = Encoder::begin(UnixMillis::new(9), "handbill 0".to_owned());
        for entry in entries {
            let line = entry_line(entry);
            encoder.line(&line);
            text.push_str(&line);
        }
        text.push_str(&encoder.end());
        text.into_bytes()
    }

    fn hidden() -> Entry {
        let Entry::Page(head, content) = page(Some("Hidden"), "x") else { unreachable!() };
        let takedown = Takedown::new(TakedownReason::Spam, "Ada \"ü\"").unwrap();
        Entry::Page(PageHead { hidden: Some(Box::new(takedown)), ..head }, content)
    }

    /// Every record of `bytes`, and the trailer.
    fn read(bytes: &[u8]) -> Result<(Vec<Entry>, Trailer), ArchiveError> {
        let (mut decoder, mut entries) = (Decoder::default(), Vec::new());
        for line in bytes.split_inclusive(|&byte| byte == b'\n') {
            if let Some(entry) = decoder.line(line)? {
                entries.push(entry);
            }
        }
        Ok((entries, decoder.end()?))
    }

    #[test]
    fn an_archive_gives_back_every_record_as_it_was() {
        let entries = [
            page(Some("Titel \" ü"), "a\n\u{0}\r\n\"b\" \u{10ffff}"),
            page(None, " "),
            Entry::Tombstone(tombstone()),
            Entry::Tombstone(taken_down()),
            hidden(),
        ];
        let (found, trailer) = read(&archive(&entries)).unwrap();
        assert_eq!(found, entries);
        assert_eq!((trailer.records, trailer.unreadable), (5, 0));
        assert!(read(&archive(&[])).unwrap().0.is_empty());
    }

    #[test]
    fn every_flipped_bit_of_an_archive_is_refused() {
        let whole = archive(&[
            page(Some("Title"), "Text <b>&amp;"),
            Entry::Tombstone(tombstone()),
            Entry::Tombstone(taken_down()),
            hidden(),
        ]);
        for bit in 0..whole.len() * 8 {
            let mut flipped = whole.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(read(&flipped).is_err(), "bit {bit} of {}", String::from_utf8_lossy(&whole));
        }
    }

    #[test]
    fn every_cut_of_an_archive_is_refused() {
        let whole = archive(&[page(Some("Title"), "Text"), Entry::Tombstone(tombstone())]);
        for end in 0..whole.len() {
            assert!(read(&whole[..end]).is_err(), "cut to {end} bytes");
        }
        assert!(matches!(read(&[&whole[..], b"\n"].concat()), Err(ArchiveError::AfterTheEnd { line: 5 })));
    }

    #[test]
    fn missing_doubled_or_reordered_lines_are_refused() {
        let whole = archive(&[page(None, "one"), page(None, "two")]);
        let lines: Vec<_> = whole.split_inclusive(|&byte| byte == b'\n').collect();
        for order in [&[0, 1, 3][..], &[0, 1, 1, 2, 3], &[0, 2, 1, 3], &[0, 3]] {
            let other = order.iter().map(|&at| lines[at]).collect::<Vec<_>>().concat();
            assert!(matches!(read(&other), Err(ArchiveError::WrongDigest)), "{order:?}");
        }
        assert!(matches!(read(&[lines[0], lines[0]].concat()), Err(ArchiveError::Malformed { line: 2, .. })));
    }

    #[test]
    fn a_whole_line_that_no_store_may_have_is_refused() {
        let good = encode(&LineBody::of(&page(Some("T"), "x")));
        let covered = String::from_utf8(covered(good.as_bytes()).unwrap().to_vec()).unwrap();
        let header = archive(&[]).split_inclusive(|&byte| byte == b'\n').next().unwrap().to_vec();
        for (from, to) in [
            ("a-page-22222222", "A-page-22222222"),
            ("\"version\":3", "\"version\":0"),
            ("\"version\":3", "\"version\":3,\"html\":\"<script>\""),
            ("\"title\":\"T\"", "\"title\":\"a\\u202eb\""),
            ("\"content\":\"x\"", "\"content\":\"\""),
            ("\"created_at_ms\":-5", "\"created_at_ms\":-62167219200001"),
            ("\"key_sha256\":\"", "\"key_sha256\":\"+"),
        ] {
            let changed = covered.replacen(from, to, 1);
            assert_ne!(changed, covered, "{from}");
            let digits = sum(changed.as_bytes());
            let line = format!("{{\"sum\":\"{digits}\",{changed}\n");
            let mut decoder = Decoder::default();
            decoder.line(&header).unwrap();
            assert!(matches!(decoder.line(line.as_bytes()), Err(ArchiveError::Malformed { line: 2, .. })), "{to}");
        }
    }

    #[test]
    fn a_later_version_is_refused_by_its_number() {
        let covered =
            r#""header":{"format":"handbill-archive","version":2,"created_at_ms":0,"generator":"x","new":1}}"#;
        let digits = sum(covered.as_bytes());
        let error = Decoder::default().line(format!("{{\"sum\":\"{digits}\",{covered}\n").as_bytes()).unwrap_err();
        assert!(matches!(error, ArchiveError::Newer(2)), "{error}");
    }

    #[test]
    fn the_bytes_of_version_1_stay_as_they_are() {
        let expected = include_str!("version_1.ndjson");
        let entries = [page(Some("T"), "x\n"), Entry::Tombstone(tombstone())];
        assert_eq!(String::from_utf8(archive(&entries)).unwrap(), expected);
    }

    #[test]
    fn the_largest_page_fits_in_a_line() {
        let line = encode(&LineBody::of(&page(Some(&"\u{10ffff}".repeat(200)), &"\u{1}".repeat(102_400))));
        assert!(line.len() < MAX_LINE_BYTES, "{}", line.len());
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_decoder_panic(lines in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 0..4)) {
            let mut decoder = Decoder::default();
            for line in lines {
                if decoder.line(&line).is_err() {
                    return Ok(());
                }
            }
            prop_assert!(decoder.end().is_err());
        }

        #[test]
        fn any_text_travels_byte_for_byte(content in any::<String>().prop_filter("not empty", |text| !text.is_empty())) {
            let entries = [page(None, &content)];
            prop_assert_eq!(&read(&archive(&entries)).unwrap().0, &entries);
        }
    }
}

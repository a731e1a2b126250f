//! The ledger's file in the data directory.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::thread;

use super::folders::{FileSystem, Folders, create_file};
use crate::domain::archive::{ArchiveError, Decoded, Decoder, MAX_LINE_BYTES, ledger_header};
use crate::ports::clock::{Clock, SystemClock};
use handbill_core::niceness::give_way;

/// The file in the data directory that holds the ledger of deletions.
pub const LEDGER_FILE: &str = "handbill.ledger";

/// The name of the ledger while its first lines are written.
const UNFINISHED_FILE: &str = "handbill.ledger.new";

/// The file of the ledger, open for appending.
#[derive(Debug)]
pub struct LedgerFile {
    directory: PathBuf,
    file: File,
    /// The length of the whole lines, in bytes. Bytes after it come from an append that failed. 0 until the first line is
    /// written.
    len: u64,
}

impl LedgerFile {
    /// Opens the ledger in `directory`. An unfinished last line does not count, and the next append replaces it.
    ///
    /// [`io::ErrorKind::InvalidData`] if there is another file under the ledger's name.
    pub(super) fn open(directory: &Path) -> io::Result<Self> {
        let file = create_file(&directory.join(LEDGER_FILE))?;
        let mut ledger = Self { directory: directory.to_owned(), file, len: 0 };
        let (first, len) = ledger.first_and_whole_lines()?;
        // Not even the first line was finished.
        if first.is_empty() {
            return Ok(ledger);
        }
        match Decoder::default().line(&first) {
            Ok(Decoded::Header(_)) => {}
            Ok(_) => return Err(io::Error::new(io::ErrorKind::InvalidData, "its first line is not a header")),
            Err(reason) => return Err(io::Error::new(io::ErrorKind::InvalidData, reason)),
        }
        ledger.len = len;
        Ok(ledger)
    }

    /// Writes the first lines to a file of their own, which then takes the ledger's name. So a ledger has all of its first
    /// lines, or is still new.
    fn begin(&mut self, lines: &[u8]) -> io::Result<()> {
        let unfinished = self.directory.join(UNFINISHED_FILE);
        let mut file = create_file(&unfinished)?;
        let header = ledger_header(SystemClock::new().now(), "handbill".to_owned());
        file.set_len(0)?;
        file.write_all(header.as_bytes())?;
        file.write_all(lines)?;
        file.sync_data()?;
        fs::rename(unfinished, self.directory.join(LEDGER_FILE))?;
        FileSystem.sync(&self.directory)?;
        self.file = file;
        self.len = (header.len() + lines.len()) as u64;
        Ok(())
    }

    /// The first line, if it is whole, and the length of all whole lines.
    fn first_and_whole_lines(&mut self) -> io::Result<(Vec<u8>, u64)> {
        self.file.seek(SeekFrom::Start(0))?;
        let mut input = BufReader::new(&self.file);
        let mut first = Vec::new();
        input.by_ref().take(MAX_LINE_BYTES as u64).read_until(b'\n', &mut first)?;
        if !first.ends_with(b"\n") {
            // A file that is long or has other text is not ours. An unfinished header of ours begins like a whole one.
            let is_ours = b"{\"sum\":\"".starts_with(&first[..first.len().min(8)]);
            let foreign = || io::Error::new(io::ErrorKind::InvalidData, "its first line is not a header");
            return if is_ours { Ok((Vec::new(), 0)) } else { Err(foreign()) };
        }
        let len = self.file.metadata()?.len();
        // Only the last line may be unfinished, and no line is longer than the bound.
        let from = len.saturating_sub(MAX_LINE_BYTES as u64);
        self.file.seek(SeekFrom::Start(from))?;
        let mut end = Vec::new();
        (&self.file).take(len - from).read_to_end(&mut end)?;
        let whole = end.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
        Ok((first, from + whole as u64))
    }

    /// Whether nothing was ever appended.
    pub(super) fn is_new(&self) -> bool {
        self.len == 0
    }

    /// Adds `lines`, which may be none, at the end and puts them on disk. A new file then has all of them, or is still
    /// new. After an error the file is as it was, or the next call makes it so.
    pub(super) fn append(&mut self, lines: &[u8]) -> io::Result<()> {
        if self.is_new() {
            return self.begin(lines);
        }
        if lines.is_empty() {
            return Ok(());
        }
        self.file.set_len(self.len)?;
        self.file.seek(SeekFrom::Start(self.len))?;
        self.file.write_all(lines)?;
        self.file.sync_data()?;
        self.len += lines.len() as u64;
        Ok(())
    }
}

/// Reads the ledger in `data_dir`, if there is one, and gives each of its whole lines to `each`. Other lines may be added meanwhile.
pub(super) fn read_ledger(data_dir: &Path, mut each: impl FnMut(Result<Decoded, ArchiveError>)) -> io::Result<()> {
    let mut input = match File::open(data_dir.join(LEDGER_FILE)) {
        Ok(file) => BufReader::new(file),
        Err(reason) if reason.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(reason) => return Err(reason),
    };
    let (mut decoder, mut line) = (Decoder::default(), Vec::new());
    loop {
        line.clear();
        if input.by_ref().take(MAX_LINE_BYTES as u64 + 1).read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        let content = decoder.line(&line);
        if let Ok(Decoded::Torn) = content {
            return Ok(());
        }
        each(content);
    }
}

/// Reads the ledger in `data_dir` on a thread that gives way to all others. `damaged` gets each line that cannot be read, with its
/// number among those, and `ended` how many there are.
pub fn read_ledger_in_background(
    data_dir: PathBuf,
    damaged: impl Fn(ArchiveError, u64) + Send + 'static,
    ended: impl FnOnce(io::Result<u64>) + Send + 'static,
) -> io::Result<()> {
    let read = move || {
        give_way();
        let mut count = 0;
        let read = read_ledger(&data_dir, |line| {
            if let Err(error) = line {
                count += 1;
                damaged(error, count);
            }
        });
        ended(read.map(|()| count));
    };
    thread::Builder::new().name("handbill-ledger".to_owned()).spawn(read).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ledger_grows_by_whole_lines_and_drops_an_unfinished_one() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(LEDGER_FILE);
        let mut ledger = LedgerFile::open(directory.path()).unwrap();
        assert!(ledger.is_new());
        ledger.append(b"first\n").unwrap();
        drop(ledger);
        let whole = fs::read(&path).unwrap();
        for torn in ["", "s", "second"] {
            fs::write(&path, [&whole, torn.as_bytes()].concat()).unwrap();
            let mut ledger = LedgerFile::open(directory.path()).unwrap();
            assert!(!ledger.is_new());
            ledger.append(b"third\n").unwrap();
            assert_eq!(fs::read(&path).unwrap(), [&whole[..], b"third\n"].concat());
        }
    }

    #[test]
    fn an_unfinished_first_line_is_begun_again_and_a_file_of_somebody_else_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(LEDGER_FILE);
        LedgerFile::open(directory.path()).unwrap().append(b"").unwrap();
        let header = fs::read(&path).unwrap();
        for end in 0..header.len() {
            fs::write(&path, &header[..end]).unwrap();
            assert!(LedgerFile::open(directory.path()).unwrap().is_new(), "{end}");
        }
        for foreign in ["a", "a list of mine\n", "{\"sum\":\"00\",\"header\":{}}\n"] {
            fs::write(&path, foreign).unwrap();
            let error = LedgerFile::open(directory.path()).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{foreign}");
            assert_eq!(fs::read_to_string(&path).unwrap(), foreign);
        }
    }
}

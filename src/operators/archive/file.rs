//! Files of archives, compressed with zstd if their name ends in `.zst`.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, BufRead, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::export::Place;
use super::receive::Receiver;
use handbill_core::domain::archive::{ArchiveError, Decoded, Decoder, Entry, MAX_LINE_BYTES, Summary};

/// Only the user who exports may read the file: a page may be a draft with an address that nobody else knows.
const FILE_MODE: u32 = 0o600;

/// The end of a compressed file's name.
const ZSTD_EXTENSION: &str = "zst";

/// The end of the name of a file that is not complete.
pub(super) const UNFINISHED_EXTENSION: &str = "part";

/// Level of compression: zstd's own default. Higher levels take much longer and save little of such text.
const ZSTD_LEVEL: i32 = 3;

#[derive(Debug, Error)]
pub enum FileError {
    /// The operating system refuses.
    #[error("{} cannot be {action}: {reason}", path.display())]
    Io {
        path: PathBuf,
        /// The attempt: `read` or `written`.
        action: &'static str,
        /// The operating system's reason, or that of zstd.
        reason: io::Error,
    },
    #[error("{}: {reason}", path.display())]
    Refused { path: PathBuf, reason: ArchiveError },
    #[error("{} is not a regular file, and it must be read twice: save it in a file first", .0.display())]
    NotAFile(PathBuf),
    #[error("{} exists: choose another name, or remove it first", .0.display())]
    Exists(PathBuf),
}

fn is_compressed(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == ZSTD_EXTENSION)
}

/// A file that gets its name when it is complete. A compressed one has a frame for each piece.
pub struct NewFile {
    path: PathBuf,
    unfinished: PathBuf,
    output: BufWriter<File>,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Begun,
    /// Another attempt can go on with it.
    Kept,
    Finished,
}

/// How far an unfinished file is. It is in a file beside that.
#[derive(Deserialize, Serialize)]
struct Mark {
    /// The name of the store and of what is read of it.
    of: String,
    /// Bytes of the unfinished file until there.
    bytes: u64,
    place: Place,
}

impl NewFile {
    /// Begins the file `path`, which must not exist. An unfinished file of an earlier attempt is replaced.
    pub fn create(path: &Path) -> Result<Self, FileError> {
        if path.symlink_metadata().is_ok() {
            return Err(FileError::Exists(path.to_owned()));
        }
        let unfinished = with_ending(path, UNFINISHED_EXTENSION);
        let refused = |reason| FileError::Io { path: unfinished.clone(), action: "written", reason };
        let file = OpenOptions::new().write(true).create(true).truncate(false).mode(FILE_MODE).open(&unfinished);
        let file = file.and_then(|file| own(file, &unfinished)).map_err(refused)?;
        remove_if_there(&mark_of(&unfinished)).and_then(|()| file.set_len(0)).map_err(refused)?;
        let output = BufWriter::new(file);
        Ok(Self { path: path.to_owned(), unfinished, output, state: State::Begun })
    }

    /// Goes on with the file `path` at the last place that an earlier attempt to write the same `of` has kept; `None` if there is
    /// none, or what is in the file until there is not whole. Also returns what that is.
    pub fn go_on(path: &Path, of: &str) -> Result<Option<(Self, Place, Receiver)>, FileError> {
        let unfinished = with_ending(path, UNFINISHED_EXTENSION);
        let mark = fs::read(mark_of(&unfinished)).ok().and_then(|mark| serde_json::from_slice::<Mark>(&mark).ok());
        let Some(mark) = mark.filter(|mark| mark.of == of && path.symlink_metadata().is_err()) else { return Ok(None) };
        let refused = |reason| FileError::Io { path: unfinished.clone(), action: "written", reason };
        let file = OpenOptions::new().read(true).write(true).open(&unfinished);
        let mut file = file.and_then(|file| own(file, &unfinished)).map_err(refused)?;
        file.set_len(mark.bytes).map_err(refused)?;
        let mut written = Receiver::default();
        let mut reader = reader(path, file.try_clone().map_err(refused)?).map_err(refused)?;
        loop {
            let Ok(bytes) = reader.fill_buf() else { return Ok(None) };
            let read = bytes.len();
            if read == 0 {
                break;
            }
            if written.take(bytes).is_err() {
                return Ok(None);
            }
            reader.consume(read);
        }
        file.seek(SeekFrom::End(0)).map_err(refused)?;
        let output = BufWriter::new(file);
        Ok(Some((Self { path: path.to_owned(), unfinished, output, state: State::Kept }, mark.place, written)))
    }

    pub fn write(&mut self, bytes: &[u8]) -> Result<(), FileError> {
        self.copy(&mut &*bytes)
    }

    /// Adds what is left of `source`.
    pub fn copy(&mut self, source: &mut impl Read) -> Result<(), FileError> {
        let copied = if is_compressed(&self.path) {
            compress(source, &mut self.output)
        } else {
            io::copy(source, &mut self.output).map(drop)
        };
        copied.map_err(|reason| self.refused(reason))
    }

    /// Notes that another attempt to write `of` can go on from here, at `place`.
    pub fn keep(&mut self, of: &str, place: &Place) -> Result<(), FileError> {
        let kept = self.output.flush().and_then(|()| {
            let bytes = self.output.get_mut().stream_position()?;
            self.output.get_ref().sync_data()?;
            let (mark, next) = (mark_of(&self.unfinished), with_ending(&self.unfinished, "new"));
            fs::write(&next, serde_json::to_vec(&Mark { of: of.to_owned(), bytes, place: place.clone() })?)?;
            fs::rename(next, mark)
        });
        kept.map_err(|reason| self.refused(reason))?;
        self.state = State::Kept;
        Ok(())
    }

    /// Puts the file on disk and gives it its name.
    pub fn finish(mut self) -> Result<(), FileError> {
        let finished = self.output.flush().and_then(|()| {
            self.output.get_ref().sync_all()?;
            fs::rename(&self.unfinished, &self.path)?;
            File::open(folder_of(&self.path))?.sync_all()?;
            remove_if_there(&mark_of(&self.unfinished))
        });
        finished.map_err(|reason| self.refused(reason))?;
        self.state = State::Finished;
        Ok(())
    }

    fn refused(&self, reason: io::Error) -> FileError {
        FileError::Io { path: self.unfinished.clone(), action: "written", reason }
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if self.state == State::Begun {
            // On a full disk the unfinished file would take the space that is left.
            let _ = fs::remove_file(&self.unfinished);
        }
    }
}

/// `file` at `path`, which no other process writes until this one has closed it. Two that begin at the same time may choose the same
/// name. On a file system without locks nobody is kept from it.
fn own(file: File, path: &Path) -> io::Result<File> {
    let is_owned = !matches!(file.try_lock(), Err(TryLockError::WouldBlock));
    // The other one may have given the file its name since it was opened here.
    if is_owned && fs::metadata(path)?.ino() == file.metadata()?.ino() {
        return Ok(file);
    }
    Err(io::Error::new(io::ErrorKind::ResourceBusy, "another process writes it"))
}

/// Adds a frame with what is left of `source` to `output`.
fn compress(source: &mut impl Read, output: &mut BufWriter<File>) -> io::Result<()> {
    let mut encoder = zstd::Encoder::new(output, ZSTD_LEVEL)?;
    encoder.include_checksum(true)?;
    io::copy(source, &mut encoder)?;
    encoder.finish().map(drop)
}

fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(ending);
    PathBuf::from(name)
}

fn mark_of(unfinished: &Path) -> PathBuf {
    with_ending(unfinished, "place")
}

/// The content of `file`, which is called `path` when it is finished.
fn reader(path: &Path, mut file: File) -> io::Result<Box<dyn BufRead + Send>> {
    file.rewind()?;
    Ok(if is_compressed(path) {
        Box::new(BufReader::new(zstd::Decoder::new(file)?))
    } else {
        Box::new(BufReader::new(file))
    })
}

pub(super) fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

pub fn remove_if_there(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// The records of an archive, in order. The last item may be an error; what came before it is whole.
pub struct Records {
    path: PathBuf,
    lines: Lines,
    /// `None` after the end or an error.
    decoder: Option<Decoder>,
    summary: Option<Summary>,
}

impl Records {
    pub fn open(path: &Path) -> Result<Self, FileError> {
        let refused = |reason| FileError::Io { path: path.to_owned(), action: "read", reason };
        let file = File::open(path).map_err(refused)?;
        if !file.metadata().map_err(refused)?.is_file() {
            return Err(FileError::NotAFile(path.to_owned()));
        }
        let lines = Lines { input: reader(path, file).map_err(refused)?, line: Vec::new() };
        let mut records = Self { path: path.to_owned(), lines, decoder: Some(Decoder::default()), summary: None };
        match records.read()? {
            Some(Decoded::Header(_)) => Ok(records),
            _ => Err(FileError::Refused { path: path.to_owned(), reason: ArchiveError::NotAnArchive }),
        }
    }

    /// The next line.
    fn read(&mut self) -> Result<Option<Decoded>, FileError> {
        let refused = |reason| FileError::Refused { path: self.path.clone(), reason };
        let Some(mut decoder) = self.decoder.take() else { return Ok(None) };
        match self.lines.next() {
            Ok(Some(line)) => {
                let content = decoder.line(line).map_err(refused)?;
                self.decoder = Some(decoder);
                Ok(Some(content))
            }
            Ok(None) => {
                self.summary = Some(decoder.end().map_err(refused)?);
                Ok(None)
            }
            Err(reason) => Err(FileError::Io { path: self.path.clone(), action: "read", reason }),
        }
    }
}

impl Iterator for Records {
    type Item = Result<Entry, FileError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.read().transpose()? {
                Ok(Decoded::Entry(entry)) => return Some(Ok(entry)),
                Ok(_) => {}
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

struct Lines {
    input: Box<dyn BufRead + Send>,
    line: Vec<u8>,
}

impl Lines {
    /// The next line with its line break. A line that is too long is cut after the bound, so that its reader sees that it
    /// is too long.
    fn next(&mut self) -> io::Result<Option<&[u8]>> {
        self.line.clear();
        let bound = MAX_LINE_BYTES as u64 + 1;
        let read = self.input.by_ref().take(bound).read_until(b'\n', &mut self.line)?;
        Ok((read > 0).then_some(self.line.as_slice()))
    }
}

/// Reads the whole file. Returns what it holds, if all of it is whole.
pub fn verify(path: &Path, mut progress: impl FnMut(u64)) -> Result<Summary, FileError> {
    let mut records = Records::open(path)?;
    let mut count = 0;
    for entry in records.by_ref() {
        entry?;
        count += 1;
        progress(count);
    }
    records.summary.ok_or(FileError::Refused { path: path.to_owned(), reason: ArchiveError::Cut { lines: count } })
}

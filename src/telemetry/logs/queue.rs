//! Log lines on their way to standard error: a bounded queue, and a thread that writes them.
//!
//! The reader of standard error may stop reading. A thread that wrote to standard error directly would then wait for
//! ever, and so would every request, probe and signal that this thread serves. So a line is put into the queue. If the
//! queue is full, the line is dropped and counted. Once lines can be written again, a line says how many are missing.
//!
//! `tracing-appender` has such a queue too. But it bounds the number of lines and not of bytes, and at the end of the
//! process it prints to standard error by itself, which blocks if nobody reads from there.

use std::env;
use std::fs::File;
use std::io::{self, Write};
use std::mem;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::sync::{Arc, OnceLock};
use std::thread::{self, ThreadId};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use prometheus_client::metrics::counter::Counter;
use tracing::{Level, Metadata};
use tracing_subscriber::fmt::MakeWriter;

/// Maximum bytes of lines that wait. The writer may hold as many again. Each of these two buffers holds the lines of
/// about 4000 requests: enough for a short pause of a disk or a collector, and little compared with the memory of the
/// requests themselves.
const MAX_BYTES: usize = 1024 * 1024;

/// Largest buffer that is reused once its lines are written.
const REUSED_BYTES: usize = 64 * 1024;

/// How long lines are gathered, so that one write takes many.
const GATHER_TIME: Duration = Duration::from_millis(5);

/// How long to wait before the next attempt if standard error is full. A write returns instead of waiting only if
/// another process that shares standard error has made it non-blocking.
const FULL_PAUSE: Duration = Duration::from_millis(10);

/// The target of an event that says what an operator did. Its line is never dropped while it waits.
pub const AUDIT: &str = "handbill::audit";

/// The priority of an error, as systemd's journal reads it at the beginning of a line.
const ERROR: &str = "<3>";

/// The queue. Clones share it.
#[derive(Clone, Debug)]
pub struct LogQueue(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    waiting: Mutex<Waiting>,
    /// Signalled when lines arrive and when lines are written.
    changed: Condvar,
    max_bytes: usize,
    dropped: Counter,
    /// The thread that writes. Its own lines are never dropped, since they report the dropped ones.
    writer: OnceLock<ThreadId>,
    /// Whether systemd's journal reads the lines: it takes the priority of a line from its beginning (`man sd-daemon`).
    to_journal: bool,
}

#[derive(Debug, Default)]
struct Waiting {
    lines: Vec<u8>,
    /// Whether the writer took lines that it has not written yet.
    is_writing: bool,
    /// Lines dropped since the last report in the log.
    unreported: u64,
}

impl LogQueue {
    /// A queue whose lines go to standard error.
    #[expect(clippy::disallowed_methods, reason = "systemd sets it, so it is no setting of ours")]
    pub fn to_stderr() -> io::Result<Self> {
        // A separate handle, so that no lock is held while a write waits.
        let stderr = File::from(io::stderr().as_fd().try_clone_to_owned()?);
        let to_journal = is_journal(env::var("JOURNAL_STREAM").ok().as_deref(), &stderr);
        Self::start(stderr, MAX_BYTES, to_journal)
    }

    fn start(sink: impl Write + Send + 'static, max_bytes: usize, to_journal: bool) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            waiting: Mutex::default(),
            changed: Condvar::new(),
            max_bytes,
            dropped: Counter::default(),
            writer: OnceLock::new(),
            to_journal,
        });
        let writing = Arc::clone(&shared);
        let writer = thread::Builder::new().name("log-writer".to_owned()).spawn(move || writing.write_to(sink))?;
        shared.writer.get_or_init(|| writer.thread().id());
        Ok(Self(shared))
    }

    pub fn dropped(&self) -> Counter {
        self.0.dropped.clone()
    }

    /// Appends a line that is not an event, and says why the process ends.
    pub fn last_line(&self, text: &str) {
        self.0.push(if self.0.to_journal { ERROR } else { "" }, format!("{text}\n").as_bytes());
    }

    /// Appends a line that is not an event.
    pub fn line(&self, text: &str) {
        self.0.push("", format!("{text}\n").as_bytes());
    }

    /// Appends `line`, which ends with a line break.
    pub(super) fn whole_line(&self, line: &[u8]) {
        self.0.push("", line);
    }

    /// Waits until all lines are written, for at most `time`. Returns whether all lines are written.
    pub fn flush(&self, time: Duration) -> bool {
        let is_behind = |waiting: &mut Waiting| waiting.is_writing || !waiting.lines.is_empty();
        let mut waiting = self.0.waiting.lock();
        self.0.changed.wait_while_for(&mut waiting, is_behind, time);
        !is_behind(&mut waiting)
    }
}

impl Shared {
    fn push(&self, priority: &str, line: &[u8]) {
        self.push_line(priority, line, false);
    }

    /// Appends a line, unless the queue is full and the line may be dropped.
    fn push_line(&self, priority: &str, line: &[u8], is_kept: bool) {
        let mut waiting = self.waiting.lock();
        let is_full = priority.len() + line.len() > self.max_bytes.saturating_sub(waiting.lines.len());
        if is_full && !is_kept && self.writer.get() != Some(&thread::current().id()) {
            waiting.unreported += 1;
            self.dropped.inc();
            return;
        }
        let (half, before) = (self.max_bytes / 2, waiting.lines.len());
        waiting.lines.extend_from_slice(priority.as_bytes());
        waiting.lines.extend_from_slice(line);
        let after = waiting.lines.len();
        drop(waiting);
        // Waking the writer for every line would cost more than the line.
        if before == 0 || (before < half && after >= half) {
            self.changed.notify_all();
        }
    }

    fn write_to(&self, mut sink: impl Write) {
        let mut taken = Vec::new();
        loop {
            let mut waiting = self.waiting.lock();
            waiting.is_writing = false;
            self.changed.notify_all();
            self.changed.wait_while(&mut waiting, |waiting| waiting.lines.is_empty());
            let is_small = |waiting: &mut Waiting| waiting.lines.len() < self.max_bytes / 2;
            self.changed.wait_while_for(&mut waiting, is_small, GATHER_TIME);
            mem::swap(&mut waiting.lines, &mut taken);
            waiting.is_writing = true;
            drop(waiting);
            let lost = write_lines(&mut sink, &taken);
            taken.clear();
            taken.shrink_to(REUSED_BYTES);
            self.dropped.inc_by(lost);
            let mut waiting = self.waiting.lock();
            waiting.unreported += lost;
            let unreported = if lost == 0 { mem::take(&mut waiting.unreported) } else { 0 };
            drop(waiting);
            if unreported > 0 {
                tracing::warn!(lines = unreported, "log lines were dropped: standard error was not read fast enough");
            }
        }
    }
}

/// Writes whole lines. Returns how many could not be written.
fn write_lines(sink: &mut impl Write, mut lines: &[u8]) -> u64 {
    while !lines.is_empty() {
        match sink.write(lines) {
            Ok(written @ 1..) => lines = &lines[written..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => thread::sleep(FULL_PAUSE),
            // The disk is full, or the reader has closed its end. Later lines may still be written.
            Ok(0) | Err(_) => return lines.split_inclusive(|&byte| byte == b'\n').count() as u64,
        }
    }
    0
}

impl<'a> MakeWriter<'a> for LogQueue {
    type Writer = Line<'a>;

    fn make_writer(&'a self) -> Line<'a> {
        Line { shared: &self.0, priority: "", is_kept: false }
    }

    fn make_writer_for(&'a self, event: &Metadata<'_>) -> Line<'a> {
        let priority = match *event.level() {
            _ if !self.0.to_journal => "",
            Level::ERROR => ERROR,
            Level::WARN => "<4>",
            // The journal takes lines without one for informational.
            _ => "",
        };
        Line { shared: &self.0, priority, is_kept: event.target() == AUDIT }
    }
}

/// Whether `stderr` is the journal's, by what systemd says in the variable `JOURNAL_STREAM`. A process of the service may have
/// turned its standard error elsewhere.
fn is_journal(stream: Option<&str>, stderr: &File) -> bool {
    let found = stderr.metadata().map(|file| format!("{}:{}", file.dev(), file.ino()));
    stream.is_some_and(|stream| found.is_ok_and(|found| found == stream))
}

/// Writes one event, which `tracing-subscriber` passes as a whole.
#[derive(Debug)]
pub struct Line<'a> {
    shared: &'a Shared,
    priority: &'static str,
    is_kept: bool,
}

impl Write for Line<'_> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.shared.push_line(self.priority, line, self.is_kept);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// Longest wait for something that must happen. Nothing depends on it being short.
    const TEST_TIMEOUT: Duration = Duration::from_mins(2);

    /// Reports the lines that it is given. Each write waits until the test lets it through.
    struct Gate {
        given: mpsc::Sender<String>,
        let_through: mpsc::Receiver<io::Result<()>>,
    }

    impl Write for Gate {
        fn write(&mut self, lines: &[u8]) -> io::Result<usize> {
            self.given.send(String::from_utf8(lines.to_vec()).unwrap()).unwrap();
            self.let_through.recv().unwrap_or(Ok(())).map(|()| lines.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// A queue of 8 bytes whose writer is blocked on its first line.
    fn held_up() -> (LogQueue, mpsc::Receiver<String>, mpsc::Sender<io::Result<()>>) {
        let ((given, takes), (open, let_through)) = (mpsc::channel(), mpsc::channel());
        let queue = LogQueue::start(Gate { given, let_through }, 8, false).unwrap();
        queue.line("first");
        assert_eq!(takes.recv_timeout(TEST_TIMEOUT).unwrap(), "first\n");
        (queue, takes, open)
    }

    #[test]
    fn lines_are_written_in_order_and_a_flush_waits_for_them() {
        let (queue, takes, open) = held_up();
        queue.line("a");
        queue.line("b");
        drop(open);
        assert!(queue.flush(TEST_TIMEOUT));
        assert_eq!(takes.try_iter().collect::<Vec<_>>(), ["a\nb\n"]);
        assert_eq!(queue.dropped().get(), 0);
    }

    #[test]
    fn a_line_that_finds_the_queue_full_is_dropped_and_counted_and_nobody_waits() {
        let (queue, takes, open) = held_up();
        for line in ["123", "too long for it", "456", "7"] {
            queue.line(line);
        }
        assert_eq!(queue.dropped().get(), 2);
        assert!(!queue.flush(Duration::from_millis(1)), "a flush gives up on a blocked writer");
        drop(open);
        assert!(queue.flush(TEST_TIMEOUT));
        assert_eq!(takes.try_iter().collect::<Vec<_>>(), ["123\n456\n"]);
    }

    #[test]
    fn the_line_about_an_act_of_an_operator_is_kept_by_a_full_queue() {
        let (queue, takes, open) = held_up();
        queue.line("1234567");
        let lines = tracing_subscriber::fmt().with_writer(queue.clone()).with_level(false).with_target(false);
        tracing::subscriber::with_default(lines.without_time().finish(), || {
            tracing::info!("dropped");
            tracing::info!(target: AUDIT, "kept");
        });
        drop(open);
        assert!(queue.flush(TEST_TIMEOUT));
        let written = takes.try_iter().collect::<String>();
        assert!(written.starts_with("1234567\nkept\n") && !written.contains("dropped\n"), "{written}");
        assert_eq!(queue.dropped().get(), 1);
    }

    #[test]
    fn lines_that_cannot_be_written_are_counted_and_later_ones_are_written() {
        let (queue, takes, open) = held_up();
        queue.line("a");
        open.send(Err(io::ErrorKind::StorageFull.into())).unwrap();
        assert_eq!(takes.recv_timeout(TEST_TIMEOUT).unwrap(), "a\n");
        drop(open);
        assert!(queue.flush(TEST_TIMEOUT));
        assert_eq!(queue.dropped().get(), 1);
        queue.line("b");
        assert_eq!(takes.recv_timeout(TEST_TIMEOUT).unwrap(), "b\n");
    }

    #[test]
    fn the_journal_gets_the_priority_of_errors_and_warnings_and_nobody_else_does() {
        for (to_journal, expected) in
            [(true, ["<3>full\n", "<4>nearly\n", "fine\n"]), (false, ["full\n", "nearly\n", "fine\n"])]
        {
            let (given, takes) = mpsc::channel();
            let queue = LogQueue::start(Gate { given, let_through: mpsc::channel().1 }, 1024, to_journal).unwrap();
            let lines = tracing_subscriber::fmt()
                .with_writer(queue.clone())
                .with_level(false)
                .with_target(false)
                .without_time();
            tracing::subscriber::with_default(lines.finish(), || {
                tracing::error!("full");
                tracing::warn!("nearly");
                tracing::info!("fine");
            });
            assert!(queue.flush(TEST_TIMEOUT));
            assert_eq!(takes.try_iter().collect::<String>(), expected.concat());
        }
    }

    #[test]
    fn standard_error_is_the_journals_only_if_it_is_the_file_that_systemd_names() {
        let file = tempfile::tempfile().unwrap();
        let data = file.metadata().unwrap();
        let name = format!("{}:{}", data.dev(), data.ino());
        assert!(is_journal(Some(&name), &file));
        assert!(!is_journal(Some("1:2"), &file));
        assert!(!is_journal(None, &file));
    }
}

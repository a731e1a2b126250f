//! The binary under test: started with a free port and a directory of its own, and ended with the test.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, ioctl_tiocgptpeer, openpt, unlockpt};
use tempfile::{TempDir, tempdir};

use crate::client::get;
use crate::environment::TEST_TIMEOUT;

pub const FREE_PORTS: [&str; 4] = ["--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"];

/// The binary under test, which Cargo builds beside the folder of the test programs.
pub fn program() -> String {
    let test = std::env::current_exe().expect("it has a path");
    let folder = test.ancestors().nth(2).expect("it is in `deps`");
    folder.join("handbill").into_os_string().into_string().expect("the path is UTF-8")
}

/// The binary, with no settings from the environment of the test.
pub fn handbill<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> Command {
    let mut command = Command::new(program());
    command.env_clear().args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// The same, but a shell first runs `first`, for example to set a limit, and then becomes the binary.
pub fn handbill_after(first: &str) -> Command {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", &format!("{first} && exec \"$0\" \"$@\"")]).arg(program());
    command.env_clear().stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Runs a command that ends by itself, and gives it `input`.
pub fn run(mut command: Command, input: &[u8]) -> Output {
    use std::io::Write;
    let mut child = command.stdin(Stdio::piped()).spawn().expect("it starts");
    let mut stdin = child.stdin.take().expect("it is a pipe");
    let input = input.to_owned();
    // A command that is refused does not read its input.
    let feeder = thread::spawn(move || drop(stdin.write_all(&input)));
    let watchdog = Watchdog::over(&child);
    let output = child.wait_with_output().expect("it can be waited for");
    watchdog.call_off();
    feeder.join().expect("the input was given");
    output
}

pub fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("it is UTF-8")
}

/// `command`, for the process that uses `data`.
pub fn with_data(mut command: Command, data: &Path) -> Command {
    command.arg("--data-dir").arg(data);
    command
}

/// Imports `file` into the store of the process that uses `data`.
pub fn import(data: &Path, file: &Path) -> String {
    succeeded(&on(data, [OsStr::new("import"), file.as_os_str()])).to_owned()
}

/// Runs a command that looks for a process that uses `data`.
pub fn on<S: AsRef<OsStr>>(data: &Path, args: impl IntoIterator<Item = S>) -> Output {
    run(with_data(handbill(args), data), b"")
}

pub fn succeeded(output: &Output) -> &str {
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}

/// The one line of a command that was refused, with exit code 2 and nothing else.
pub fn refused(output: &Output) -> &str {
    let line = text(&output.stderr);
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(2), ""), "{line}");
    assert!(line.starts_with("handbill: ") && line.ends_with('\n'), "{line}");
    assert_eq!(line.lines().count(), 1, "{line}");
    line
}

/// A text of about `len` bytes, of which compression cannot make much: numbers in hexadecimal.
pub fn noise(len: usize) -> String {
    let words = (0u64..).map(|number| format!("{:016x} ", number.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
    words.take(len.div_ceil(17)).collect()
}

/// A running server. It is killed when this is dropped.
pub struct Server {
    pub child: Child,
    pub address: SocketAddr,
    pub admin: SocketAddr,
    pub announcement: Vec<String>,
    stdout: Option<JoinHandle<String>>,
    log: Log,
    data: Option<TempDir>,
}

impl Server {
    /// Starts on free ports, with no rate limits and whatever `args` add.
    pub fn start(data_dir: &Path, args: &[&str]) -> Self {
        Self::start_as(handbill(["--create-limit", "0", "--edit-limit", "0"]), data_dir, args)
    }

    /// Starts as [`Server::start`] does, with a data directory that goes with the server.
    pub fn temporary(args: &[&str]) -> Self {
        Self::temporary_as(handbill(["--create-limit", "0", "--edit-limit", "0"]), args)
    }

    pub fn temporary_as(command: Command, args: &[&str]) -> Self {
        let data = tempdir().expect("a folder");
        let mut server = Self::start_as(command, data.path(), args);
        server.data = Some(data);
        server
    }

    /// Starts `command`, which runs the binary, on free ports.
    pub fn start_as(command: Command, data_dir: &Path, args: &[&str]) -> Self {
        let mut command = with_data(command, data_dir);
        command.args(FREE_PORTS).args(args);
        Self::spawn(command)
    }

    /// Starts `command`, whose arguments say where it listens. Its standard output is a terminal, where it announces
    /// its addresses.
    pub fn spawn(mut command: Command) -> Self {
        let (terminal, its_end) = terminal();
        let mut child = command.stdin(Stdio::null()).stdout(its_end).spawn().expect("it starts");
        // It has the other end of the terminal.
        drop(command);
        let log = child.stderr.take().map_or_else(Log::nowhere, Log::of);
        let mut stdout = BufReader::new(terminal).lines().map_while(Result::ok);
        let watchdog = Watchdog::over(&child);
        let mut announcement = Vec::new();
        while announcement.len() < 4 {
            let Some(line) = stdout.next() else {
                let _ = child.wait();
                panic!("it ended instead of starting: {:?}", log.to_end());
            };
            announcement.extend((!line.starts_with("This starts a server")).then_some(line));
        }
        watchdog.call_off();
        let address = address_in(&announcement[0], "listens on http://");
        let admin = address_in(&announcement[1], "Operators: http://");
        let stdout = thread::spawn(move || stdout.collect());
        Self { child, address, admin, announcement, stdout: Some(stdout), log, data: None }
    }

    pub fn ready(&self) {
        let began = Instant::now();
        while get(self.admin, "/readyz").unwrap().status != 200 {
            assert!(began.elapsed() < TEST_TIMEOUT, "{:?}", get(self.admin, "/readyz"));
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// The value of a metric without labels.
    pub fn metric(&self, name: &str) -> u64 {
        let metrics = get(self.admin, "/metrics").expect("it answers");
        let value = metrics.text().lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok());
        value.unwrap_or_else(|| panic!("{name} in {metrics:?}"))
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(pid(&self.child), signal).expect("it runs");
    }

    pub fn wait_for_log(&self, text: &str) {
        self.log.wait_for(text);
    }

    pub fn wait(&mut self) -> ExitStatus {
        let watchdog = Watchdog::over(&self.child);
        let status = self.child.wait().expect("it can be waited for");
        watchdog.call_off();
        status
    }

    /// Waits for its end. Returns what it wrote to standard output after the start, and to standard error.
    pub fn finish(mut self) -> (ExitStatus, String, String) {
        let status = self.wait();
        let stdout = self.stdout.take().map(|thread| thread.join().expect("it reads")).unwrap_or_default();
        (status, stdout, self.log.to_end())
    }

    pub fn stop_now(&self) {
        self.signal(Signal::KILL);
    }

    pub fn stop(self) -> (ExitStatus, String, String) {
        self.signal(Signal::TERM);
        self.finish()
    }
}

/// A new terminal, and the end of it that a process gets.
fn terminal() -> (File, OwnedFd) {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let terminal = openpt(flags).expect("there are terminals");
    unlockpt(&terminal).expect("it is new");
    let its_end = ioctl_tiocgptpeer(&terminal, flags).expect("it is unlocked");
    (terminal.into(), its_end)
}

/// The process id of `child`, which must be running.
pub fn pid(child: &Child) -> Pid {
    i32::try_from(child.id()).ok().and_then(Pid::from_raw).expect("it has a process id")
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        drop(self.data.take());
        if thread::panicking() {
            eprintln!("{}", self.log.to_end());
        }
    }
}

fn address_in(line: &str, before: &str) -> SocketAddr {
    let (_, rest) = line.split_once(before).unwrap_or_else(|| panic!("no {before:?} in {line:?}"));
    let end = rest.find(|character| " /".contains(character)).unwrap_or(rest.len());
    rest[..end].parse().unwrap_or_else(|_| panic!("no address in {line:?}"))
}

/// Standard error, gathered while it is written.
struct Log(Arc<(Mutex<Gathered>, Condvar)>);

#[derive(Default)]
struct Gathered {
    text: String,
    is_whole: bool,
}

impl Log {
    /// An empty log, for a process with a standard error that the test itself keeps.
    fn nowhere() -> Self {
        Self(Arc::new((Mutex::new(Gathered { text: String::new(), is_whole: true }), Condvar::new())))
    }

    fn of(stderr: impl Read + Send + 'static) -> Self {
        let shared = Arc::new((Mutex::new(Gathered::default()), Condvar::new()));
        let gathering = Arc::clone(&shared);
        thread::spawn(move || {
            let (gathered, changed) = &*gathering;
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                gathered.lock().unwrap().text.extend([&line, "\n"]);
                changed.notify_all();
            }
            gathered.lock().unwrap().is_whole = true;
            changed.notify_all();
        });
        Self(shared)
    }

    fn wait_for(&self, text: &str) {
        let found = self.wait(|gathered| gathered.is_whole || gathered.text.contains(text));
        assert!(found.contains(text), "no {text:?} in {found:?}");
    }

    fn to_end(&self) -> String {
        self.wait(|gathered| gathered.is_whole)
    }

    fn wait(&self, enough: impl Fn(&Gathered) -> bool) -> String {
        let (gathered, changed) = &*self.0;
        let guard = gathered.lock().unwrap();
        changed.wait_timeout_while(guard, TEST_TIMEOUT, |gathered| !enough(gathered)).unwrap().0.text.clone()
    }
}

/// Kills a process that outlives [`TEST_TIMEOUT`], so that a test fails instead of hanging.
pub struct Watchdog(mpsc::Sender<()>);

impl Watchdog {
    pub fn over(child: &Child) -> Self {
        let pid = pid(child);
        let (call_off, called_off) = mpsc::channel();
        thread::spawn(move || {
            if called_off.recv_timeout(TEST_TIMEOUT) == Err(RecvTimeoutError::Timeout) {
                let _ = kill_process(pid, Signal::KILL);
            }
        });
        Self(call_off)
    }

    pub fn call_off(self) {
        let _ = self.0.send(());
    }
}

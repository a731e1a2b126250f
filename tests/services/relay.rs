//! Commands for the relays in front of database nodes (`tests/servers/relay.py`).

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

use crate::environment::TEST_TIMEOUT;

/// Gives the relay of `folder` a command and waits until it is in effect. Returns how many answers it has lost or
/// replaced so far.
pub(crate) fn tell(folder: &Path, command: &str) -> usize {
    let mut control = UnixStream::connect(folder.join("control")).expect("the relay listens");
    control.set_read_timeout(Some(TEST_TIMEOUT)).expect("it is not zero");
    control.write_all(format!("{command}\n").as_bytes()).expect("the relay reads");
    let mut answer = String::new();
    BufReader::new(control).read_line(&mut answer).expect("the relay answers");
    let falsified = answer.trim().strip_prefix("done ").and_then(|count| count.parse().ok());
    falsified.unwrap_or_else(|| panic!("{command}: {answer}"))
}

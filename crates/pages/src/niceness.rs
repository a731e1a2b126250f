//! The priority of threads that do long work.

#[cfg(target_os = "linux")]
use rustix::process::{getpriority_process, setpriority_process};

/// Added to the niceness that the process was started with. A commit of many pages takes milliseconds of CPU, and a
/// rendering a large part of one. On a busy core the scheduler would let it finish before a thread that could answer a
/// read in microseconds. With 10, such a thread gets nine times the share of the core, and long work the whole of what is
/// left.
#[cfg(target_os = "linux")]
const ADDED: i32 = 10;

/// Lowers the priority of the calling thread. On Linux, niceness belongs to a thread; elsewhere it belongs to the process,
/// so this does nothing there.
pub fn give_way() {
    #[cfg(target_os = "linux")]
    if let Ok(niceness) = getpriority_process(None) {
        // A thread that cannot be made nicer works as well, but reads beside it wait longer.
        let _ = setpriority_process(None, niceness + ADDED);
    }
}

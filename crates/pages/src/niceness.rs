//! The priority of threads that do long work.

#[cfg(target_os = "linux")]
use rustix::process::{getpriority_process, setpriority_process};

/// Reads take microseconds, and long work would delay them on a busy core. With 10, reads get nine times the share.
#[cfg(target_os = "linux")]
const ADDED: i32 = 10;

/// On Linux only: elsewhere niceness belongs to the process.
pub fn give_way() {
    #[cfg(target_os = "linux")]
    if let Ok(niceness) = getpriority_process(None) {
        let _ = setpriority_process(None, niceness + ADDED);
    }
}

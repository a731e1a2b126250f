//! File descriptors: each connection needs one, and the operating system limits how many a process has.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// File descriptors reserved for everything but public connections: the operators' listener, the store's files,
/// servers, logs. If the limit is low, half of the limit is reserved.
const RESERVED: usize = 256;

/// Raises the soft limit to the hard limit and returns how many connections that allows.
///
/// The soft limit is often 1024, for programs that use `select(2)`. This program does not use it.
pub fn room_for_connections() -> usize {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let raised = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    let limit = if raised.is_ok() { maximum } else { current };
    let limit = limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
    limit - RESERVED.min(limit / 2)
}

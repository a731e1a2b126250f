//! File descriptors: each connection takes one, and a process may have only so many.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Kept for all that is not a public connection: the operators' listener, the store's files, servers, logs. Where there
/// are few in all, half of them.
const RESERVED: usize = 256;

/// Raises the soft limit to the hard one, and answers how many connections there is then room for.
///
/// The soft limit is commonly 1024, for the sake of programs that cannot count further; nothing here is one.
pub fn room_for_connections() -> usize {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let raised = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    let limit = if raised.is_ok() { maximum } else { current };
    let limit = limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
    limit - RESERVED.min(limit / 2)
}

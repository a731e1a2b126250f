//! How much memory the process may use, and how it is divided.
//!
//! The budgets of requests, answers, renderings, pages and the store have at most 60 % of the memory. The rest is for the
//! program, for the buffers of threads and sockets, and for what the allocator keeps.

use std::fmt;
use std::path::{Path, PathBuf};

use clap::Args;
use thiserror::Error;

/// The memory of a process without a setting in a place without a limit: what the smallest machines have to spare.
const DEFAULT: u64 = 256 * MIB;

/// Less would not hold one of the largest requests of each kind. The largest share of a largest request is that of one
/// rendering of 100 KB: 27 MB.
const LEAST: u64 = 128 * MIB;

/// More than any machine has.
const MOST: u64 = 1 << 40;

const MIB: u64 = 1 << 20;

/// Memory of the process for each connection that may be open. The kernel may hold 28 KiB of it: a client that leaves out a byte
/// and sends those behind it fills a buffer that no budget counts, because nobody can read it.
const CONNECTION_BYTES: u64 = 64 * 1024;

/// The most connections, however much memory there is. From 1 GiB on, what the kernel holds of them fits beside full budgets.
const MOST_CONNECTIONS: u64 = 10_000;

#[derive(Args, Debug)]
pub struct MemorySettings {
    /// Memory that the process may use in all; its budgets for requests, answers, renderings, pages and the store take at most 60 % of it. It is read once, at the start [default: the limit of the container or service, or 256MiB without one]
    #[arg(long, env = "HANDBILL_MEMORY", value_name = "BYTES", value_parser = byte_size)]
    pub memory: Option<u64>,
}

/// The memory of the process, and who decided it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Memory {
    /// In bytes.
    pub bytes: u64,
    source: Source,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Source {
    Setting,
    /// A file of a control group.
    Limit(PathBuf),
    Nobody,
}

/// Why the memory is not enough, or more than there is.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum MemoryError {
    /// One of the largest requests of some kind would not fit.
    #[error(
        "{0} is too little memory for the largest requests: give --memory, and the container, at least {least}",
        least = Size(LEAST)
    )]
    TooLittle(Memory),
    /// The system would end the process before its budgets are used up.
    #[error("--memory {asked} is more than {limit}: lower it, or raise that limit", asked = Size(*asked))]
    OverTheLimit {
        /// The value of the setting.
        asked: u64,
        limit: Memory,
    },
}

/// The memory that the parts of the process may hold, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budgets {
    /// Requests, from the first byte of the head until there is an answer: a thousand small ones, or a hundred of the largest.
    pub requests: u64,
    /// Answers, until they are sent: each takes up to 80 KiB for buffers, and the largest some 3 MB. Beside a body of 17 KB it is 39 KiB, so
    /// 700 such are sent at once. It is the largest share, because only the client decides how long an answer takes.
    pub answers: u64,
    /// Texts while they are rendered: one of the longest, which takes 27 MB, and eight short ones. Four of the longest are
    /// rendered at once at most, which no larger share changes.
    pub texts: u64,
    /// Pages of more than 64 KiB while they are read or changed: five of the largest, which counts twice.
    pub large_pages: u64,
    /// Pages that are ready to be sent. It has what the others leave of the 60 %, since more of it always helps.
    pub ready_pages: u64,
    /// Pages of the SQLite store's file. The kernel keeps more of the file in memory that is otherwise free.
    pub store_cache: u64,
    /// Writes that wait for the SQLite store's disk: some hundred usual ones, which is as many as there are answers.
    pub store_queue: u64,
    /// Windows of clients that are counted in this process, for five limits together: 8000 clients each.
    pub windows: u64,
    /// The number of connections, each with some memory that no budget of bytes counts.
    pub connections: usize,
}

impl Budgets {
    /// The shares of `memory` bytes. At 256 MiB each is as many MiB as it has parts.
    pub fn of(memory: u64) -> Self {
        let share = |parts: u64, most_mib: u64| (memory / 256 * parts).min(most_mib * MIB);
        let others = Self {
            requests: share(20, 256),
            answers: share(40, 512),
            texts: share(40, 128),
            large_pages: share(8, 64),
            ready_pages: 0,
            store_cache: share(16, 128),
            store_queue: share(5, 64),
            windows: share(8, 80),
            connections: usize::try_from((memory / CONNECTION_BYTES).min(MOST_CONNECTIONS)).unwrap_or(usize::MAX),
        };
        Self { ready_pages: memory / 5 * 3 - others.total(), ..others }
    }

    fn total(&self) -> u64 {
        let Self { requests, answers, texts, large_pages, ready_pages, .. } = self;
        let Self { store_cache, store_queue, windows, .. } = self;
        requests + answers + texts + large_pages + ready_pages + store_cache + store_queue + windows
    }
}

impl Default for Budgets {
    /// Those of a process without a setting and without a limit.
    fn default() -> Self {
        Self::of(DEFAULT)
    }
}

impl MemorySettings {
    /// The memory of this process, as the setting says, or the limit of its control groups.
    pub fn memory(&self) -> Result<Memory, MemoryError> {
        self.memory_within(|file| std::fs::read_to_string(file).ok())
    }

    fn memory_within(&self, read: impl Fn(&Path) -> Option<String>) -> Result<Memory, MemoryError> {
        let limit = limit(&read);
        let memory = match (self.memory, limit) {
            (Some(asked), Some(limit)) if asked > limit.bytes => {
                return Err(MemoryError::OverTheLimit { asked, limit });
            }
            (Some(bytes), _) => Memory { bytes, source: Source::Setting },
            (None, Some(limit)) => limit,
            (None, None) => Memory { bytes: DEFAULT, source: Source::Nobody },
        };
        if memory.bytes < LEAST { Err(MemoryError::TooLittle(memory)) } else { Ok(memory) }
    }
}

/// The lowest limit of the control groups of this process, from its own up to the root. A limit above the machine's memory
/// is none.
fn limit(read: &impl Fn(&Path) -> Option<String>) -> Option<Memory> {
    let groups = read(Path::new("/proc/self/cgroup"))?;
    let mounts = read(Path::new("/proc/self/mountinfo"))?;
    let machine = read(Path::new("/proc/meminfo")).and_then(|text| machine_bytes(&text)).unwrap_or(MOST);
    let limits = mounts.lines().filter_map(mount).flat_map(|mount| files(&mount, &groups));
    let limits = limits
        .filter_map(|file| Some(Memory { bytes: read(&file)?.trim().parse().ok()?, source: Source::Limit(file) }));
    limits.filter(|limit| limit.bytes < machine).min_by_key(|limit| limit.bytes)
}

/// The memory of the machine, from `/proc/meminfo`.
fn machine_bytes(text: &str) -> Option<u64> {
    let kib = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?.trim().strip_suffix(" kB")?;
    kib.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// A place in which control groups that limit memory are seen as folders.
struct Mount<'a> {
    /// The group that is at `point`.
    root: &'a Path,
    point: &'a Path,
    is_version_2: bool,
}

/// The mount of a line of `/proc/self/mountinfo`, if it shows such groups.
fn mount(line: &str) -> Option<Mount<'_>> {
    let (place, kind) = line.split_once(" - ")?;
    let mut place = place.split(' ').skip(3);
    let (root, point) = (Path::new(place.next()?), Path::new(place.next()?));
    let mut kind = kind.split(' ');
    let (name, options) = (kind.next()?, kind.nth(1).unwrap_or_default());
    let is_version_2 = name == "cgroup2";
    let limits_memory = is_version_2 || (name == "cgroup" && options.split(',').any(|option| option == "memory"));
    limits_memory.then_some(Mount { root, point, is_version_2 })
}

/// The files with the limits of this process in `mount`, where `groups` is `/proc/self/cgroup`.
fn files(mount: &Mount<'_>, groups: &str) -> Vec<PathBuf> {
    let own = groups.lines().find_map(|line| {
        let (_, line) = line.split_once(':')?;
        let (controllers, group) = line.split_once(':')?;
        let is_it = if mount.is_version_2 {
            controllers.is_empty()
        } else {
            controllers.split(',').any(|name| name == "memory")
        };
        is_it.then_some(Path::new(group))
    });
    let Some(own) = own else { return Vec::new() };
    // A container may see its group as the root, and still be told the group's name outside.
    let inside = own.strip_prefix(mount.root).unwrap_or(Path::new(""));
    let inside = inside.strip_prefix("/").unwrap_or(inside);
    let file = if mount.is_version_2 { "memory.max" } else { "memory.limit_in_bytes" };
    inside.ancestors().map(|group| mount.point.join(group).join(file)).collect()
}

impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let size = Size(self.bytes);
        match &self.source {
            Source::Setting => write!(f, "{size} (--memory)"),
            Source::Limit(file) => write!(f, "{size} (the limit in {})", file.display()),
            Source::Nobody => write!(f, "{size} (the default; nothing limits this process)"),
        }
    }
}

/// Bytes, as people write them.
struct Size(u64);

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.0;
        match [(1 << 30, "GiB"), (MIB, "MiB"), (1 << 10, "KiB")].iter().find(|(unit, _)| bytes.is_multiple_of(*unit)) {
            Some((unit, name)) => write!(f, "{}{name}", bytes / unit),
            None => write!(f, "{bytes} bytes"),
        }
    }
}

/// A whole number of bytes, `KiB`, `MiB` or `GiB`.
fn byte_size(text: &str) -> Result<u64, &'static str> {
    let text = text.trim();
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit: Option<u64> = match text[digits.len()..].trim() {
        "" | "B" => Some(1),
        "KiB" => Some(1 << 10),
        "MiB" => Some(MIB),
        "GiB" => Some(1 << 30),
        _ => None,
    };
    let bytes = unit.and_then(|unit| digits.trim().parse::<u64>().ok()?.checked_mul(unit));
    bytes.filter(|bytes| (LEAST..=MOST).contains(bytes)).ok_or("give 128MiB to 1024GiB, for example 512MiB")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::parse_args;

    /// The limits that this process would find with these `files`.
    fn found(asked: &[&str], files: &[(&str, &str)]) -> Result<String, String> {
        let settings: MemorySettings = parse_args(asked).unwrap();
        let read =
            |path: &Path| files.iter().find(|(name, _)| Path::new(name) == path).map(|(_, text)| (*text).to_owned());
        settings.memory_within(read).map(|memory| memory.to_string()).map_err(|error| error.to_string())
    }

    const MACHINE: (&str, &str) = ("/proc/meminfo", "MemTotal:        8388608 kB\nMemFree:  1 kB\n");
    const VERSION_2: (&str, &str) =
        ("/proc/self/mountinfo", "31 23 0:28 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n");
    const VERSION_1: (&str, &str) = (
        "/proc/self/mountinfo",
        "34 31 0:31 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
         35 31 0:32 /docker/abc /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
         41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
    );

    #[test]
    fn without_a_setting_and_a_limit_there_are_256_mib() {
        let nobody = Ok("256MiB (the default; nothing limits this process)".to_owned());
        assert_eq!(found(&[], &[]), nobody);
        let group = ("/proc/self/cgroup", "0::/system.slice/handbill.service\n");
        let unlimited = ("/sys/fs/cgroup/system.slice/handbill.service/memory.max", "max\n");
        assert_eq!(found(&[], &[MACHINE, VERSION_2, group, unlimited]), nobody);
        let above = ("/sys/fs/cgroup/system.slice/memory.max", "8589934592\n");
        assert_eq!(found(&[], &[MACHINE, VERSION_2, group, above]), nobody);
        let group = ("/proc/self/cgroup", "4:memory:/docker/abc\n0::/\n");
        let unlimited = ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
        assert_eq!(found(&[], &[MACHINE, VERSION_1, group, unlimited]), nobody);
    }

    #[test]
    fn the_lowest_limit_from_the_own_group_to_the_root_counts() {
        let group = ("/proc/self/cgroup", "0::/a.slice/b.service\n");
        let (own, outer) = ("/sys/fs/cgroup/a.slice/b.service/memory.max", "/sys/fs/cgroup/a.slice/memory.max");
        for (own_bytes, outer_bytes, least) in [("536870912", "1073741824", own), ("1073741824", "536870912", outer)] {
            let files = [MACHINE, VERSION_2, group, (own, own_bytes), (outer, outer_bytes)];
            assert_eq!(found(&[], &files), Ok(format!("512MiB (the limit in {least})")));
        }
        let root = ("/sys/fs/cgroup/memory.max", "536870912");
        let alone = [MACHINE, VERSION_2, ("/proc/self/cgroup", "0::/\n"), root];
        assert_eq!(found(&[], &alone), Ok("512MiB (the limit in /sys/fs/cgroup/memory.max)".to_owned()));
    }

    #[test]
    fn a_container_sees_its_limit_at_its_root_though_it_is_told_its_name_outside() {
        let limit = ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "536870912\n");
        let inner = ("/sys/fs/cgroup/memory/inner/memory.limit_in_bytes", "268435456\n");
        let outside = ("/proc/self/cgroup", "5:cpu,memory:/docker/abc\n0::/\n");
        let said = |file: &str, size: &str| Ok(format!("{size} (the limit in {file})"));
        assert_eq!(found(&[], &[MACHINE, VERSION_1, outside, limit, inner]), said(limit.0, "512MiB"));
        let nested = ("/proc/self/cgroup", "5:cpu,memory:/docker/abc/inner\n");
        assert_eq!(found(&[], &[MACHINE, VERSION_1, nested, limit, inner]), said(inner.0, "256MiB"));
        let other = ("/proc/self/cgroup", "5:memory:/elsewhere\n");
        assert_eq!(found(&[], &[VERSION_1, other, limit, inner]), said(limit.0, "512MiB"));
    }

    #[test]
    fn the_setting_decides_within_the_limit() {
        let group = ("/proc/self/cgroup", "0::/\n");
        let files = [MACHINE, VERSION_2, group, ("/sys/fs/cgroup/memory.max", "536870912\n")];
        assert_eq!(found(&["--memory", "512MiB"], &files), Ok("512MiB (--memory)".to_owned()));
        assert_eq!(
            found(&["--memory", "1GiB"], &files),
            Err("--memory 1GiB is more than 512MiB (the limit in /sys/fs/cgroup/memory.max): lower it, or raise that limit"
                .to_owned())
        );
        assert_eq!(found(&["--memory", "1GiB"], &[MACHINE]), Ok("1GiB (--memory)".to_owned()));
    }

    #[test]
    fn too_little_for_the_largest_requests_is_refused_in_words() {
        let files = [VERSION_2, ("/proc/self/cgroup", "0::/\n"), ("/sys/fs/cgroup/memory.max", "100000000\n")];
        assert_eq!(
            found(&[], &files),
            Err("100000000 bytes (the limit in /sys/fs/cgroup/memory.max) is too little memory for the largest requests: \
                 give --memory, and the container, at least 128MiB"
                .to_owned())
        );
        for wrong in ["", "64MiB", "134217727", "1025GiB", "512 MB", "1.5GiB", "-1"] {
            let parsed = parse_args::<MemorySettings>([format!("--memory={wrong}")]);
            assert!(parsed.is_err(), "{wrong}");
        }
        assert_eq!(byte_size(" 131072 KiB "), Ok(LEAST));
    }

    #[test]
    fn the_budgets_take_at_most_60_percent_of_any_memory() {
        for memory in [LEAST, DEFAULT, 300_000_000, 512 * MIB, 1 << 30, 2 << 30, 64 << 30, MOST] {
            let budgets = Budgets::of(memory);
            assert!(budgets.total() <= memory / 100 * 60 + 100, "{memory}: {budgets:?}");
            assert!(budgets.ready_pages >= memory / 20, "{memory}: {budgets:?}");
        }
    }

    #[test]
    fn from_1_gib_on_full_budgets_and_the_kernels_part_of_all_connections_leave_room_for_the_program() {
        for memory in [1 << 30, 2 << 30, 64 << 30] {
            let budgets = Budgets::of(memory);
            assert!(
                budgets.total() + budgets.connections as u64 * 28 * 1024 + 48 * MIB <= memory,
                "{memory}: {budgets:?}"
            );
        }
    }

    /// The attacks of `docs/internals/verification.md` were withstood within 256 MiB with these budgets.
    #[test]
    fn at_256_mib_no_budget_is_larger_than_those_that_withstood_attacks() {
        let Budgets { requests, answers, texts, large_pages, ready_pages, .. } = Budgets::default();
        let Budgets { store_cache, store_queue, windows, .. } = Budgets::default();
        let held = [
            (requests, 32),
            (answers, 64),
            (texts, 64),
            (large_pages, 32),
            (ready_pages, 32),
            (store_cache, 32),
            (store_queue, 64),
            (windows, 80),
        ];
        for (index, (budget, mib)) in held.into_iter().enumerate() {
            assert!(budget <= mib * MIB, "{index}: {budget}");
        }
    }
}

//! How much memory the page cache may have.

use std::path::Path;

use clap::Args;

/// Where nothing limits the process's memory.
const DEFAULT_BYTES: u64 = 64 << 20;

#[derive(Args, Debug)]
pub struct CacheSettings {
    /// Memory for pages, e.g. 64MiB [default: a quarter of the memory limit of the container or service, 64MiB without
    /// one]
    #[arg(long, env = "HANDBILL_CACHE_SIZE", value_name = "BYTES", value_parser = byte_size)]
    cache_size: Option<u64>,
}

impl CacheSettings {
    pub fn bytes(&self) -> u64 {
        match (self.cache_size, memory_limit(|file| std::fs::read_to_string(file).ok())) {
            (Some(size), _) => size,
            (None, Some(limit)) => limit / 4,
            (None, None) => DEFAULT_BYTES,
        }
    }
}

/// What version 1 of control groups says without a limit is the largest multiple of a page below 2^63.
const NO_LIMIT: u64 = 1 << 62;

/// The lowest limit of this process's control groups (version 1 or 2), in bytes.
fn memory_limit(read: impl Fn(&Path) -> Option<String>) -> Option<u64> {
    let groups = read(Path::new("/proc/self/cgroup"))?;
    let files = groups.lines().filter_map(|line| {
        let (controllers, own) = line.split_once(':')?.1.split_once(":/")?;
        let (root, file) = match controllers {
            "" => ("/sys/fs/cgroup", "memory.max"),
            _ if controllers.split(',').any(|name| name == "memory") => {
                ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")
            }
            _ => return None,
        };
        // A container may see its group as the root, but be told the outer name.
        Some(Path::new(own).ancestors().map(move |group| Path::new(root).join(group).join(file)))
    });
    files.flatten().filter_map(|file| read(&file)?.trim().parse().ok()).filter(|limit| *limit < NO_LIMIT).min()
}

fn byte_size(text: &str) -> Result<u64, &'static str> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit: Option<u64> = match text[digits.len()..].trim() {
        "" | "B" => Some(1),
        "KiB" => Some(1 << 10),
        "MiB" => Some(1 << 20),
        "GiB" => Some(1 << 30),
        _ => None,
    };
    let bytes = unit.and_then(|unit| digits.trim().parse::<u64>().ok()?.checked_mul(unit));
    bytes.ok_or("give a number of bytes, for example 64MiB")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_limit_from_the_own_group_to_the_root_counts() {
        fn limit(files: &[(&str, &str)]) -> Option<u64> {
            memory_limit(|path| files.iter().find(|(name, _)| Path::new(name) == path).map(|(_, text)| (*text).into()))
        }

        let group = ("/proc/self/cgroup", "4:memory:/x\n0::/a.slice/b.service\n");
        let (own, outer) = ("/sys/fs/cgroup/a.slice/b.service/memory.max", "/sys/fs/cgroup/a.slice/memory.max");
        assert_eq!(limit(&[group, (own, "2000\n"), (outer, "1000\n")]), Some(1000));
        assert_eq!(limit(&[group, (own, "1000\n"), (outer, "max\n")]), Some(1000));
        assert_eq!(limit(&[group, ("/sys/fs/cgroup/memory.max", "3000")]), Some(3000));
        assert_eq!(limit(&[group, (own, "max\n")]), None);
        let (own, root) =
            ("/sys/fs/cgroup/memory/x/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.limit_in_bytes");
        assert_eq!(limit(&[group, (own, "2000\n"), (root, "9223372036854771712\n")]), Some(2000));
        assert_eq!(
            limit(&[("/proc/self/cgroup", "9:cpu,memory:/x\n1:name=systemd:/x\n"), (root, "1000\n")]),
            Some(1000)
        );
        assert_eq!(limit(&[group, (root, "9223372036854771712\n")]), None);
        assert_eq!(limit(&[]), None);
    }

    #[test]
    fn a_size_has_a_unit_or_is_in_bytes() {
        fn read(text: &str) -> Option<u64> {
            byte_size(text).ok()
        }

        assert_eq!(["5", "5B", "2KiB", "2 MiB", "1GiB"].map(read), [5, 5, 2 << 10, 2 << 20, 1 << 30].map(Some));
        assert_eq!(["", "MiB", "1.5MiB", "-1", "1MB", "99999999999GiB"].map(read), [None; 6]);
    }
}

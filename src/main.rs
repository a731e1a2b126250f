//! The program, and the settings of its allocator.

use std::process::ExitCode;

use tikv_jemallocator::Jemalloc;

#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

/// jemalloc returns freed memory to the system from a thread of its own, even while nothing is allocated. It does so after a fifth
/// of a second instead of ten, so that memory from a past burst does not count towards a container's limit for long: with
/// full caches, large reads and previews beside each other peaked at 229 MiB with one second, and at 212 with a fifth, for the same
/// CPU (2026-11-24, 64 faked cores, a limit of 256 MiB). Each arena keeps freed memory for itself, so there are four and not four
/// for each core, and a buffer over 128 KB is given back at once: with the defaults, reads of large pages took 694 MiB on 64
/// cores in place of 194 (2026-11-24).
#[expect(unsafe_code, reason = "jemalloc looks for its settings under this name, in the manual `opt.*`")]
#[unsafe(export_name = "_rjem_malloc_conf")]
pub static ALLOCATOR_SETTINGS: &[u8; 95] =
    b"background_thread:true,dirty_decay_ms:200,muzzy_decay_ms:0,narenas:4,oversize_threshold:131072\0";

fn main() -> ExitCode {
    handbill::cli::run()
}

//! The program, and the settings of its allocator.

use std::process::ExitCode;

fn main() -> ExitCode {
    #[cfg(target_env = "gnu")]
    bound_freed_memory();
    handbill::cli::run()
}

#[cfg(target_env = "gnu")]
#[expect(unsafe_code, reason = "the C library's function has no safe wrapper")]
fn bound_freed_memory() {
    /// By default the allocator has eight arenas for each core, and each arena keeps freed memory for itself.
    const MAX_ARENAS: libc::c_int = 4;

    /// The system gets a buffer of this many bytes back as soon as it is freed. By default this limit grows with the buffers.
    const OWN_MAPPING_BYTES: libc::c_int = 128 * 1024;

    for (parameter, value) in [(libc::M_ARENA_MAX, MAX_ARENAS), (libc::M_MMAP_THRESHOLD, OWN_MAPPING_BYTES)] {
        // SAFETY: it takes two numbers, and no other thread is running yet.
        assert_eq!(unsafe { libc::mallopt(parameter, value) }, 1, "the C library takes the parameter");
    }
}

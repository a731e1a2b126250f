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
    /// By default there are eight for each core, and each keeps freed memory for itself.
    const MAX_ARENAS: libc::c_int = 4;

    /// A buffer of this many bytes is given back to the system at once. By default the limit grows with the buffers.
    const OWN_MAPPING_BYTES: libc::c_int = 128 * 1024;

    for (parameter, value) in [(libc::M_ARENA_MAX, MAX_ARENAS), (libc::M_MMAP_THRESHOLD, OWN_MAPPING_BYTES)] {
        // SAFETY: it takes two numbers, and no other thread is running yet.
        assert_eq!(unsafe { libc::mallopt(parameter, value) }, 1, "the C library knows the parameter");
    }
}

//! The program, and its allocator.

use std::process::ExitCode;

use mimalloc::MiMalloc;

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    return_freed_memory_at_once();
    handbill::cli::run()
}

/// By default freed memory waits for a second, and then for a thread that needs more.
#[expect(unsafe_code, reason = "the allocator's function has no safe wrapper")]
fn return_freed_memory_at_once() {
    /// In milliseconds. `mimalloc.h` names it, its binding does not.
    const PURGE_DELAY: libmimalloc_sys::mi_option_t = 15;
    // SAFETY: it takes two numbers, and no other thread is running yet.
    unsafe { libmimalloc_sys::mi_option_set(PURGE_DELAY, 0) };
}

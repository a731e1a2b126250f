//! The only binary: runs the command line and turns its outcome into an exit code.
//!
//! The allocator returns memory soon after a burst; `docs/operations.md` has measurements. Its settings are in
//! `.cargo/config.toml`.

use std::process::ExitCode;

use tikv_jemallocator::Jemalloc;

#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

fn main() -> ExitCode {
    handbill::cli::run()
}

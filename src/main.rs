//! The one binary: runs what the command line asks for and turns the outcome into an exit code.
//!
//! Its allocator gives memory back soon after a burst, which `docs/operations.md` has figures of. Its settings are in
//! `.cargo/config.toml`.

use std::process::ExitCode;

use tikv_jemallocator::Jemalloc;

#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

fn main() -> ExitCode {
    handbill::cli::run()
}

//! The binary: runs the command line and turns the result into an exit code.
//!
//! Its allocator returns memory to the system soon after a burst. The settings are in `.cargo/config.toml`.

use std::process::ExitCode;

use tikv_jemallocator::Jemalloc;

#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

fn main() -> ExitCode {
    handbill::cli::run()
}

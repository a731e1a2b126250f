//! The allocator's settings are in `.cargo/config.toml`: it returns memory to the system soon after a burst.

use std::process::ExitCode;

use tikv_jemallocator::Jemalloc;

#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

fn main() -> ExitCode {
    handbill::cli::run()
}

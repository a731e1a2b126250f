//! The one binary: runs what the command line asks for and turns the outcome into an exit code.

use std::process::ExitCode;

fn main() -> ExitCode {
    handbill::cli::run()
}

//! The client in the same binary: commands that publish, read, edit and delete pages on a server, and save the edit keys in a
//! file of the user (contract, decision 20).
//!
//! A command prints what it was asked for on standard output and nothing else, so that it fits into a pipe. Hints and
//! errors go to standard error. Each kind of failure has an exit code of its own, which `docs/client.md` lists.

mod api;
mod args;
mod commands;
mod edit;
mod error;
mod key_file;
mod mcp;
mod output;
mod page;
mod publish;

use std::process::ExitCode;

pub use self::args::ClientCommand;

pub fn run(command: ClientCommand) -> ExitCode {
    match commands::run(command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("handbill: {error}");
            ExitCode::from(error.exit_code())
        }
    }
}

//! Commands that publish, read, edit and delete pages on a server, and save edit keys (contract, decision 20).
//!
//! Standard output has only the result; hints and errors go to standard error.

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

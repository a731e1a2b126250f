//! The client in the same binary: commands that publish, read, edit and delete pages on a server, and keep the edit keys
//! in a file of the user (contract, decision 20).
//!
//! A command prints what it was asked for on standard output and nothing else, so that it fits into a pipe. Hints and
//! errors go to standard error. Each kind of failure has an exit code of its own, which `docs/client.md` lists.

mod api;
mod args;
mod bridge;
mod commands;
mod edit;
mod error;
mod key_file;
mod keys;
mod output;
mod publishing;
mod reference;

use std::process::ExitCode;

pub use self::args::ClientCommand;
use self::error::ClientError;

pub fn run(command: ClientCommand) -> ExitCode {
    let done = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| ClientError::Failed(format!("the operating system refused a basic resource ({error})")))
        .and_then(|runtime| runtime.block_on(commands::run(command)));
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("handbill: {error}");
            ExitCode::from(error.exit_code())
        }
    }
}

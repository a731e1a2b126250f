//! The real binary as a process of its own, killed with the value that stands for it.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

/// When a start counts as failed. Nothing depends on it being short.
const PATIENCE: Duration = Duration::from_mins(2);

/// One running `handbill serve`, on free ports of this machine.
pub(crate) struct Replica {
    /// The public listener.
    pub(crate) public: SocketAddr,
    _child: Child,
}

impl Replica {
    /// One over the embedded store in `data_dir`, without limits.
    pub(crate) async fn embedded(data_dir: &Path) -> Self {
        Self::start(Command::new(env!("CARGO_BIN_EXE_handbill")).arg("--data-dir").arg(data_dir)).await
    }

    async fn start(command: &mut Command) -> Self {
        command.args(["--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"]);
        command.args(["--create-limit", "0", "--edit-limit", "0", "--log", "warn"]);
        let mut child = command.env_clear().stdout(Stdio::piped()).kill_on_drop(true).spawn().expect("it starts");
        let mut lines = BufReader::new(child.stdout.take().expect("it is a pipe")).lines();
        let announced = async { lines.next_line().await.expect("it is text").expect("it says where it listens") };
        let announced = tokio::time::timeout(PATIENCE, announced).await.expect("it starts");
        let (_, after) = announced.split_once("listens on http://").expect("its first line says where it listens");
        let public = after.split_whitespace().next().unwrap_or_default().parse().expect("an address");
        // The rest is read too, for a process whose reader went away dies of its next word.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        Self { public, _child: child }
    }
}

//! The real binary as a process of its own. It is killed when its value is dropped, or at the latest when the test
//! ends.

use std::ffi::{OsStr, OsString};
use std::net::SocketAddr;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, StatusCode};
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use crate::connection::send;
use crate::environment::{TEST_TIMEOUT, in_time};

const AGAIN: Duration = Duration::from_millis(20);

/// Prepares `program` so that it ends when the calling thread ends, in whatever way. A test process that is killed
/// drops nothing, so dropping would not suffice.
pub(crate) fn ending_with_us(program: &str) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--", program]);
    command
}

pub(crate) struct Replica {
    pub(crate) public: SocketAddr,
    pub(crate) admin: SocketAddr,
    child: Child,
}

impl Replica {
    /// Starts one with these settings only. Port 0 takes a free one.
    pub(crate) async fn start<S: AsRef<OsStr>>(
        public: SocketAddr,
        admin: SocketAddr,
        settings: impl IntoIterator<Item = S>,
    ) -> Self {
        Self::start_with(Vec::new(), public, admin, settings).await
    }

    /// Starts one with these settings and this environment.
    pub(crate) async fn start_with<S: AsRef<OsStr>>(
        environment: Vec<(&'static str, OsString)>,
        public: SocketAddr,
        admin: SocketAddr,
        settings: impl IntoIterator<Item = S>,
    ) -> Self {
        let mut command = ending_with_us(env!("CARGO_BIN_EXE_handbill"));
        command.env_clear().envs(environment);
        command.args(["--listen", &public.to_string(), "--admin-listen", &admin.to_string()]);
        let mut child = command.args(settings).stdout(Stdio::piped()).kill_on_drop(true).spawn().expect("it starts");
        let mut lines = BufReader::new(child.stdout.take().expect("it is a pipe")).lines();
        let mut announced = async |before: &str| {
            let line = lines.next_line().await.expect("it is text").expect("it says where it listens");
            let (_, after) = line.split_once(before).unwrap_or_else(|| panic!("{before} is not in {line}"));
            let address = after.split(['/', ' ']).next().unwrap_or_default();
            address.parse().unwrap_or_else(|_| panic!("no address in {line}"))
        };
        let both = async { (announced("listens on http://").await, announced("Operators: http://").await) };
        let (public, admin) = in_time("it starts", both).await;
        // The rest is read too, so that the process never writes to a pipe without a reader.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        Self { public, admin, child }
    }

    pub(crate) async fn ask(&self, path: &str) -> (StatusCode, String) {
        let request = Request::get(path).body(Bytes::new()).expect("it is valid");
        let response = send(self.admin, request).await.expect("the admin port answers");
        (response.status(), String::from_utf8_lossy(response.body()).into_owned())
    }

    pub(crate) async fn ready(&self) {
        let becoming = async {
            while self.ask("/readyz").await.0 != StatusCode::OK {
                tokio::time::sleep(AGAIN).await;
            }
        };
        let became = tokio::time::timeout(TEST_TIMEOUT, becoming).await.is_ok();
        assert!(became, "it did not become ready: {:?}", self.ask("/readyz").await);
    }

    /// Ends its process as a crash of its machine would.
    pub(crate) async fn kill(mut self) {
        self.child.kill().await.expect("it is ours");
    }

    pub(crate) async fn stop(mut self) -> ExitStatus {
        let pid = self.child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        kill_process(pid.expect("it runs"), Signal::TERM).expect("it is ours");
        in_time("it ends", self.child.wait()).await.expect("it is ours")
    }
}

//! Operators of a cluster, by the real binary: export and import.
//!
//! Commands ask a replica over its socket; `migrate` works on the cluster itself.

mod moving;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;

use handbill_test_support::environment::from_the_runner;
use handbill_test_support::server::{Server, handbill, run, succeeded, text};
use scylla::client::session::Session;
use tempfile::{TempDir, tempdir};
use tokio::runtime::Runtime;

use crate::scylla::server::{drop_keyspace, fresh_keyspace, login, nodes, session};

/// A keyspace of its own on the CQL server of this run, and a folder for files.
struct Cluster {
    keyspace: String,
    folder: TempDir,
    runtime: Runtime,
    session: Arc<Session>,
}

impl Cluster {
    fn migrated() -> Self {
        let runtime = Runtime::new().unwrap();
        let session = runtime.block_on(session());
        let cluster = Self { keyspace: fresh_keyspace(), folder: tempdir().unwrap(), runtime, session };
        succeeded(&cluster.command(["migrate", "--scylla-replication-factor", "1"], ""));
        cluster
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn on_it(&self, mut command: Command) -> Command {
        command.args(["--store", "scylla", "--scylla-nodes", &nodes(), "--scylla-keyspace", &self.keyspace]);
        command.args(login());
        command
    }

    fn command<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>, input: &str) -> Output {
        run(self.on_it(handbill(args)), input.as_bytes())
    }

    fn done<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> String {
        let mut command = handbill(args);
        command.arg("--admin-socket").arg(self.path("admin.sock"));
        succeeded(&run(command, b"")).to_owned()
    }

    fn replica(&self, args: &[&str]) -> Server {
        let redis = from_the_runner("HANDBILL_TEST_REDIS");
        let limits = ["--create-limit", "0", "--edit-limit", "0", "--redis-timeout", "500ms", "--redis-url", &redis];
        let mut command = self.on_it(handbill(limits));
        command.arg("--admin-socket").arg(self.path("admin.sock"));
        let server = Server::start_as(command, Path::new("/proc/nowhere"), args);
        server.ready();
        server
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.runtime.block_on(drop_keyspace(&self.session, &self.keyspace));
        }
    }
}

#[test]
fn migrate_says_what_it_did_and_no_warning_of_the_database() {
    let cluster = Cluster::migrated();
    for keyspace in [fresh_keyspace(), cluster.keyspace.clone()] {
        let mut command = handbill(["migrate", "--store", "scylla", "--scylla-replication-factor", "1"]);
        command.args(["--scylla-nodes", &nodes(), "--scylla-keyspace", &keyspace]).args(login());
        let output = run(command, b"");
        assert!(succeeded(&output).ends_with("is up to date.\n"), "{output:?}");
        assert_eq!(text(&output.stderr), "");
        if keyspace != cluster.keyspace {
            cluster.runtime.block_on(drop_keyspace(&cluster.session, &keyspace));
        }
    }
}

//! The installed clients. Each runs in a folder of its own. If a client fails, its test fails with the client's output.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use handbill_test_support::environment;
use tempfile::TempDir;
use tokio::process::Command;

/// Time after which a client counts as hanging. Nothing depends on it being short.
const LONGEST_RUN: Duration = Duration::from_mins(15);

pub(crate) struct Client {
    command: Command,
    folder: TempDir,
}

impl Client {
    pub(crate) fn python(script: &str) -> Self {
        Self::python_program("python").arg(sources("python").join(script))
    }

    /// Python itself, or a program that one of its packages installed.
    pub(crate) fn python_program(name: &str) -> Self {
        Self::new(&format!("python/bin/{name}"))
    }

    pub(crate) fn node(script: &str) -> Self {
        Self::node_in(&sources("node"), script)
    }

    pub(crate) fn node_in(folder: &Path, script: &str) -> Self {
        let client = Self::new("node/bin/node");
        // Node.js looks for packages in the folders above a script, so scripts and packages go into the same folder.
        for entry in fs::read_dir(folder).expect("it is there") {
            let path = entry.expect("it can be read").path();
            fs::copy(&path, client.file(path.file_name().expect("it has one"))).expect("it can be copied");
        }
        symlink(installed("node/node_modules"), client.file("node_modules")).expect("it can be made");
        let script = client.file(script);
        client.arg(script)
    }

    pub(crate) fn node_program(name: &str) -> Self {
        Self::new("node/bin/node").arg(installed(&format!("node/node_modules/.bin/{name}")))
    }

    fn new(program: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let mut command = Command::new(installed(program));
        let path = std::env::join_paths([installed("node/bin"), "/usr/bin".into(), "/bin".into()]).expect("a path");
        command.current_dir(folder.path()).env_clear().env("PATH", path).env("HOME", folder.path());
        // The scripts are in the repository, and Python must not write its caches there.
        command.env("PYTHONDONTWRITEBYTECODE", "1").env("PYTHONUTF8", "1");
        // Most of the work of a short program is that Node.js compiles its packages, so each is compiled once in a run.
        command.env("NODE_COMPILE_CACHE", std::env::temp_dir().join("handbill-tests-node"));
        command.env("REDOCLY_TELEMETRY", "off").env("NO_COLOR", "1");
        command.stdin(Stdio::null()).kill_on_drop(true);
        Self { command, folder }
    }

    pub(crate) fn arg(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.command.arg(argument);
        self
    }

    pub(crate) fn args<A: AsRef<OsStr>>(mut self, arguments: impl IntoIterator<Item = A>) -> Self {
        self.command.args(arguments);
        self
    }

    pub(crate) fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    pub(crate) fn file(&self, name: impl AsRef<Path>) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn with_file(self, name: &str, content: impl AsRef<[u8]>) -> Self {
        fs::write(self.file(name), content).expect("it can be written");
        self
    }

    /// Runs it to its end, and returns what it wrote to standard output. Anything but success fails the test.
    pub(crate) async fn succeeds(mut self) -> String {
        let output = tokio::time::timeout(LONGEST_RUN, self.command.output()).await;
        let output = output.unwrap_or_else(|_| panic!("it hangs: {:?}", self.command)).expect("it starts");
        let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(
            output.status.success(),
            "{}: {:?}\n{stdout}\n{stderr}",
            output.status,
            self.command.as_std().get_args().collect::<Vec<_>>()
        );
        stdout.into_owned()
    }
}

pub(crate) fn sources(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/foreign/clients").join(name)
}

fn installed(path: &str) -> PathBuf {
    let path = environment::folder("HANDBILL_TEST_CLIENTS").join(path);
    assert!(path.exists(), "{} is not installed: run ./tests/run, which installs it", path.display());
    path
}

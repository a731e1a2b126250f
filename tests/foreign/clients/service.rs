//! The service under test, with limits as a client needs them.

use handbill_test_support::client::get;
use handbill_test_support::port::Port;
use handbill_test_support::server::{Server, handbill};
use tempfile::TempDir;

const ANY_PORT: &str = "127.0.0.1:0";

pub(crate) const UNLIMITED: [&str; 6] = ["--create-limit", "0", "--edit-limit", "0", "--token-limit", "0"];

pub(crate) struct Service {
    server: Server,
    _data: TempDir,
}

impl Service {
    pub(crate) fn start() -> Self {
        Self::start_with(&UNLIMITED)
    }

    pub(crate) fn start_with(settings: &[&str]) -> Self {
        Self::start_at(ANY_PORT, settings)
    }

    fn start_at(public: &str, settings: &[&str]) -> Self {
        let data = tempfile::tempdir().expect("a folder");
        // Errors that the service logs help to explain a client's failure.
        let mut command = handbill(["--listen", public, "--admin-listen", ANY_PORT, "--log", "error", "--data-dir"]);
        command.arg(data.path()).args(settings);
        let server = Server::spawn(command);
        server.ready();
        Self { server, _data: data }
    }

    /// Starts one whose tools have a host of their own besides, with these settings. Returns the base URL of that host too.
    pub(crate) fn start_with_tools_host(settings: &[&str]) -> (Self, String) {
        let port = Port::hold();
        let url = format!("http://localhost:{}", port.number());
        let service = Self::start_at(&port.address.to_string(), &[settings, &["--mcp-base-url", &url]].concat());
        (service, url)
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.server.address)
    }

    pub(crate) fn document(&self, path: &str) -> Vec<u8> {
        let answer = get(self.server.address, path).expect("it answers");
        assert_eq!(answer.status, 200, "{path}");
        answer.body
    }

    /// Stops it, and checks that it ends successfully after all that its client did.
    pub(crate) fn stop(self) {
        let (status, _, log) = self.server.stop();
        assert!(status.success(), "the service ended with {status}: {log}");
    }
}

//! The service under test, with limits as a client needs them.

use std::net::{Ipv4Addr, SocketAddr};

use bytes::Bytes;
use http::{Request, StatusCode};
use tempfile::TempDir;

use crate::connection::send;
use crate::port::Port;
use crate::replica::Replica;

const ANY_PORT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// No limits, since these clients do not test them.
pub(crate) const UNLIMITED: [&str; 6] = ["--create-limit", "0", "--edit-limit", "0", "--token-limit", "0"];

pub(crate) struct Service {
    replica: Replica,
    _data: TempDir,
}

impl Service {
    pub(crate) async fn start() -> Self {
        Self::start_with(&UNLIMITED).await
    }

    /// Starts one with these settings, besides those for its addresses and its data.
    pub(crate) async fn start_with(settings: &[&str]) -> Self {
        Self::start_at(ANY_PORT, settings).await
    }

    async fn start_at(public: SocketAddr, settings: &[&str]) -> Self {
        let data = tempfile::tempdir().expect("a folder");
        let data_dir = data.path().to_str().expect("it is text");
        // Errors that the service logs help to explain a client's failure.
        let settings = [&["--data-dir", data_dir, "--log", "error"], settings].concat();
        let replica = Replica::start(public, ANY_PORT, settings).await;
        replica.ready().await;
        Self { replica, _data: data }
    }

    /// Starts one whose tools have a host of their own besides, with these settings. Returns the base URL of that host too.
    pub(crate) async fn start_with_tools_host(settings: &[&str]) -> (Self, String) {
        let port = Port::hold();
        let url = format!("http://localhost:{}", port.number());
        let service = Self::start_at(port.address, &[settings, &["--mcp-base-url", &url]].concat()).await;
        (service, url)
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.replica.public)
    }

    pub(crate) async fn document(&self, path: &str) -> Bytes {
        let request = Request::get(path).body(Bytes::new()).expect("it is valid");
        let response = send(self.replica.public, request).await.expect("it answers");
        assert_eq!(response.status(), StatusCode::OK, "{path}");
        response.into_body()
    }

    /// Stops it, and checks that it ends successfully after all that its client did.
    pub(crate) async fn stop(self) {
        let status = self.replica.stop().await;
        assert!(status.success(), "the service ended with {status}");
    }
}

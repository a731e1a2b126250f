//! Debian's Varnish and nginx, with the files of `deploy/edge` adapted to a test's addresses.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use bytes::Bytes;
use http::{Request, Response};
use tempfile::TempDir;
use tokio::process::{Child, Command};

use crate::connection::{connect_from, exchange};
use crate::deployment::{Addresses, until_it_listens};
use crate::replica::ending_with_us;

/// A cache in front of the first replica of its addresses. It ends when it is dropped.
pub(super) struct Cache {
    pub(super) address: SocketAddr,
    _process: Child,
    _folder: TempDir,
}

impl Cache {
    pub(super) async fn varnish(addresses: Addresses) -> Self {
        let ((origin, _), address, folder) = (addresses.replica(1), addresses.cache(), folder());
        let changes = [
            (".host = \"127.0.0.1\";", format!(".host = \"{}\";", origin.ip())),
            (".port = \"8080\";", format!(".port = \"{}\";", origin.port())),
        ];
        let file = adapted("varnish.vcl", &changes, &folder);
        let mut varnish = ending_with_us("varnishd");
        varnish.args(["-F", "-j", "none", "-T", "none", "-s", "malloc,64m", "-p", "thread_pools=1"]);
        varnish.arg("-a").arg(address.to_string()).arg("-n").arg(folder.path().join("state")).arg("-f").arg(file);
        Self::start(varnish, address, folder).await
    }

    pub(super) async fn nginx(addresses: Addresses) -> Self {
        let ((origin, _), address, folder) = (addresses.replica(1), addresses.cache(), folder());
        let own = |name: &str| folder.path().join(name).display().to_string();
        let changes = [
            ("listen 80;", format!("listen {address};")),
            ("server 127.0.0.1:8080;", format!("server {origin};")),
            ("/var/cache/nginx/handbill", own("cache")),
            ("/run/nginx-handbill.sock", own("socket")),
        ];
        let file = adapted("nginx.conf", &changes, &folder);
        let options = format!("daemon off; master_process off; error_log {} info; pid {};", own("errors"), own("pid"));
        let mut nginx = ending_with_us("nginx");
        nginx.arg("-p").arg(folder.path()).arg("-c").arg(file).arg("-g").arg(options);
        Self::start(nginx, address, folder).await
    }

    async fn start(mut command: Command, address: SocketAddr, folder: TempDir) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
        let process = command.spawn().expect("./tests/run installs it");
        until_it_listens(address).await;
        Self { address, _process: process, _folder: folder }
    }

    /// The answer to a client on another machine than the service.
    pub(super) async fn ask_from_elsewhere(&self, request: Request<Bytes>) -> Response<Bytes> {
        let mut connection = connect_from(Ipv4Addr::new(127, 0, 0, 99), self.address).await.expect("it listens");
        exchange(&mut connection, request).await.expect("it answers")
    }
}

fn folder() -> TempDir {
    tempfile::tempdir().expect("a folder")
}

/// Writes the deployed file `name` with `changes`, each of which must apply.
fn adapted(name: &str, changes: &[(&str, String)], folder: &TempDir) -> PathBuf {
    let deployed = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/edge").join(name);
    let mut text = fs::read_to_string(deployed).expect("it is there");
    for (before, after) in changes {
        assert!(text.contains(before), "{name} has no {before}");
        text = text.replace(before, after);
    }
    let file = folder.path().join(name);
    fs::write(&file, text).expect("it can be written");
    file
}

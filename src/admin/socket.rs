//! The Unix socket of the operators' API: only the process's user may open it.

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process;

use axum::Router;
use thiserror::Error;
use tokio::net::UnixListener;

const MODE: u32 = 0o600;

#[derive(Debug, Error)]
pub enum SocketError {
    #[error("another process answers at {}: stop it, or give this one another --data-dir or --admin-socket", .0.display())]
    InUse(PathBuf),
    #[error("cannot listen at {}: {reason}; make the directory writable, or give another path to --admin-socket", path.display())]
    Io { path: PathBuf, reason: io::Error },
}

/// The file of a killed process does not answer.
pub fn refuse_if_answered(path: &Path) -> Result<(), SocketError> {
    if UnixStream::connect(path).is_ok() { Err(SocketError::InUse(path.to_owned())) } else { Ok(()) }
}

/// Replaces the file of a killed process. Hold the store's lock: two starting processes would otherwise take the socket
/// from each other.
pub fn listen(path: &Path) -> Result<UnixListener, SocketError> {
    let failed = |reason| SocketError::Io { path: path.to_owned(), reason };
    let directory = path.parent().filter(|directory| !directory.as_os_str().is_empty() && !directory.exists());
    if let Some(directory) = directory {
        DirBuilder::new().mode(0o700).create(directory).map_err(failed)?;
    }
    // The socket gets its name once its permissions are right.
    let unnamed = path.with_extension(process::id().to_string());
    let listener = UnixListener::bind(&unnamed).map_err(failed)?;
    fs::set_permissions(&unnamed, Permissions::from_mode(MODE))
        .and_then(|()| fs::rename(&unnamed, path))
        .map_err(failed)?;
    Ok(listener)
}

pub async fn serve(listener: UnixListener, routes: Router) {
    if let Err(error) = axum::serve(listener, routes).await {
        tracing::error!(%error, "the operators' socket cannot be used any more");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_socket_is_for_its_user_alone() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("admin.sock");
        let _listener = listen(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 1);
    }

    #[tokio::test]
    async fn a_socket_that_answers_is_not_taken_and_a_dead_one_is_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("admin.sock");
        refuse_if_answered(&path).unwrap();
        let listener = listen(&path).unwrap();
        assert!(matches!(refuse_if_answered(&path), Err(SocketError::InUse(_))));
        drop(listener);
        refuse_if_answered(&path).unwrap();
        let _listener = listen(&path).unwrap();
        assert!(refuse_if_answered(&path).is_err());
    }

    #[tokio::test]
    async fn a_path_that_cannot_be_used_is_named() {
        let long = Path::new("/tmp").join("x".repeat(120));
        assert!(listen(&long).unwrap_err().to_string().contains("--admin-socket"));
    }
}

//! The operators' Unix socket, which only the process's user may open.

use std::fs::{self, DirBuilder, File, Permissions};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::{io, os::unix::net, process};

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

/// Refuses a socket that answers; the file of a killed process does not.
pub fn refuse_if_answered(path: &Path) -> Result<(), SocketError> {
    if net::UnixStream::connect(path).is_ok() { Err(SocketError::InUse(path.to_owned())) } else { Ok(()) }
}

/// Replaces the file of a killed process.
pub fn listen(path: &Path) -> Result<UnixListener, SocketError> {
    let failed = |reason| SocketError::Io { path: path.to_owned(), reason };
    let directory = path.parent().filter(|directory| !directory.as_os_str().is_empty() && !directory.exists());
    if let Some(directory) = directory {
        DirBuilder::new().mode(0o700).create(directory).map_err(failed)?;
    }
    // Of two processes that start at once, the second looks after the first has its socket.
    let folder = File::open(path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new(".")));
    let _lock = folder.and_then(|folder| folder.lock().map(|()| folder)).map_err(failed)?;
    refuse_if_answered(path)?;
    // The socket gets its name once its permissions are right.
    let unnamed = path.with_extension(process::id().to_string());
    // A process that was killed here left its file, and in a container each process has the same id.
    match fs::remove_file(&unnamed) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
        _ => {}
    }
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
    use futures_util::future::join_all;

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
    async fn a_living_socket_is_not_taken_and_a_dead_one_is_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("admin.sock");
        refuse_if_answered(&path).unwrap();
        let listener = listen(&path).unwrap();
        assert!(matches!(refuse_if_answered(&path), Err(SocketError::InUse(_))));
        drop(listener);
        // Of a process with the same id that was killed before the socket had its name.
        drop(UnixListener::bind(path.with_extension(process::id().to_string())).unwrap());
        refuse_if_answered(&path).unwrap();
        let _listener = listen(&path).unwrap();
        assert!(matches!(listen(&path), Err(SocketError::InUse(_))));
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 8)]
    async fn of_processes_that_start_at_once_one_has_the_socket() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("admin.sock");
        for _ in 0..100 {
            let starting = (0..8).map(|_| {
                let path = path.clone();
                tokio::spawn(async move { listen(&path) })
            });
            let started = join_all(starting).await;
            assert_eq!(started.iter().filter(|listener| listener.as_ref().unwrap().is_ok()).count(), 1);
        }
    }

    #[tokio::test]
    async fn a_path_that_cannot_be_used_is_named() {
        let long = Path::new("/tmp").join("x".repeat(120));
        assert!(listen(&long).unwrap_err().to_string().contains("--admin-socket"));
    }
}

//! HTTP requests of this program to other servers. A request has one time limit, from connecting to the end of the
//! answer, and an answer has a limit on its bytes: the other side may be slow, broken or hostile.
//!
//! The client is hyper's, which is in the program anyway for the server. The library reqwest would add a dozen crates,
//! and still leave the bytes of an answer unbounded.

use std::error::Error;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::response::Parts;
use http::{Request, Response, StatusCode};
use http_body::Body;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper_rustls::{ConfigBuilderExt, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use rustls::crypto::aws_lc_rs;
use rustls::{ClientConfig, ConfigBuilder, RootCertStore, WantsVerifier};
use thiserror::Error;
use tokio::time::timeout;

/// How long connecting may take, within the time limit of the request. A lost packet is sent again within 3 s.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

const MIB: usize = 1024 * 1024;

/// The limits of each request.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// How long one request may take, from connecting to the end of its answer.
    pub time: Duration,
    /// Most bytes of an answer's body that are read.
    pub answer_bytes: usize,
}

/// A client of other servers. Clones share its connections.
#[derive(Clone, Debug)]
pub struct Outbound {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    limits: Limits,
}

/// Why there is no answer. Each message goes on after the name of the server.
#[derive(Debug, Error)]
pub enum OutboundError {
    /// There is no connection, so the server has not got the request.
    #[error("cannot be reached ({0})")]
    Unreachable(String),
    #[error("did not answer within {} s", .0.as_secs())]
    Silent(Duration),
    /// The connection ended before the end of the answer, perhaps before its beginning.
    #[error("closed the connection before its whole answer was there ({0})")]
    CutShort(String),
    #[error("gave an answer of more than {}, which was not read to its end", shown(*.0))]
    TooLarge(usize),
}

fn shown(bytes: usize) -> String {
    if bytes < MIB { format!("{bytes} bytes") } else { format!("{} MiB", bytes / MIB) }
}

impl Outbound {
    /// A client that asks only `http` addresses, and so works on a machine without certificates.
    pub fn without_tls(limits: Limits) -> Self {
        Self::over(tls_versions().with_root_certificates(RootCertStore::empty()).with_no_client_auth(), limits)
    }

    /// A client that trusts the certificate authorities of this machine.
    pub fn with_tls(limits: Limits) -> io::Result<Self> {
        Ok(Self::over(tls_versions().with_native_roots()?.with_no_client_auth(), limits))
    }

    fn over(tls: ClientConfig, limits: Limits) -> Self {
        let mut connector = HttpConnector::new();
        connector.enforce_http(false);
        connector.set_connect_timeout(Some(CONNECT_TIMEOUT));
        let tls = HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http().enable_http1();
        Self { client: Client::builder(TokioExecutor::new()).build(tls.wrap_connector(connector)), limits }
    }

    /// The whole answer to `request`, whatever its status.
    pub async fn send(&self, request: Request<Bytes>) -> Result<Response<Bytes>, OutboundError> {
        self.in_time(async {
            let (head, body) = self.begin(request).await?;
            Ok(Response::from_parts(head, self.read(body).await?))
        })
        .await
    }

    /// The status of the answer to `request`. Its body is read up to the limit, so that its connection can be used
    /// again, and does not matter otherwise.
    pub async fn status(&self, request: Request<Bytes>) -> Result<StatusCode, OutboundError> {
        self.in_time(async {
            let (head, body) = self.begin(request).await?;
            let _ = self.read(body).await;
            Ok(head.status)
        })
        .await
    }

    async fn in_time<T>(&self, exchange: impl Future<Output = Result<T, OutboundError>>) -> Result<T, OutboundError> {
        timeout(self.limits.time, exchange).await.map_err(|_| OutboundError::Silent(self.limits.time))?
    }

    /// The head of the answer to `request`, and its body, which has no limit yet.
    pub async fn begin(&self, request: Request<Bytes>) -> Result<(Parts, Incoming), OutboundError> {
        let answer = self.client.request(request.map(Full::new)).await;
        let unanswered = |is_connect| if is_connect { OutboundError::Unreachable } else { OutboundError::CutShort };
        Ok(answer.map_err(|error| unanswered(error.is_connect())(innermost(&error)))?.into_parts())
    }

    /// The whole `body`, up to the limit.
    pub async fn read<B: Body<Data = Bytes>>(&self, body: B) -> Result<Bytes, OutboundError>
    where
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        let most = self.limits.answer_bytes;
        let (mut body, mut bytes) = (pin!(Limited::new(body, most)), Vec::new());
        // Pieces are not collected: one of a single byte would take fifty times as much.
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| {
                if error.is::<LengthLimitError>() {
                    OutboundError::TooLarge(most)
                } else {
                    OutboundError::CutShort(innermost(&*error))
                }
            })?;
            bytes.extend_from_slice(frame.data_ref().map_or(&[], |data| data));
        }
        Ok(bytes.into())
    }
}

fn tls_versions() -> ConfigBuilder<ClientConfig, WantsVerifier> {
    let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()));
    builder.with_safe_default_protocol_versions().expect("the provider has the default versions")
}

/// The innermost reason of `error`: those around it only say that a request failed.
fn innermost(error: &(dyn Error + 'static)) -> String {
    let mut innermost = error;
    while let Some(cause) = innermost.source() {
        innermost = cause;
    }
    innermost.to_string()
}

/// Servers that answer as no honest server does.
#[cfg(test)]
pub(crate) mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures_util::stream;
    use http_body::Frame;
    use http_body_util::StreamBody;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    /// The address of a server that answers each request with `head`, and then sends `body` again and again until the
    /// client hangs up; once if `is_endless` is false.
    pub(crate) async fn hostile_server(head: &'static str, body: &'static [u8], is_endless: bool) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            loop {
                let (mut connection, _) = listener.accept().await.unwrap();
                tokio::spawn(async move {
                    assert_ne!(connection.read(&mut [0; 4096]).await.unwrap(), 0);
                    connection.write_all(head.as_bytes()).await.unwrap();
                    while connection.write_all(body).await.is_ok() && is_endless {}
                });
            }
        });
        format!("http://{address}")
    }

    /// The head of an answer without an end.
    pub(crate) const ENDLESS: &str = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n";

    fn client(answer_bytes: usize) -> Outbound {
        Outbound::without_tls(Limits { time: Duration::from_mins(1), answer_bytes })
    }

    fn request(origin: &str) -> Request<Bytes> {
        Request::get(format!("{origin}/")).body(Bytes::new()).unwrap()
    }

    #[tokio::test]
    async fn an_answer_is_read_whole_up_to_the_limit_and_refused_beyond_it() {
        let origin = hostile_server("HTTP/1.1 404 Not Found\r\nContent-Length: 5\r\n\r\n", b"whole", false).await;
        let answer = client(5).send(request(&origin)).await.unwrap();
        assert_eq!((answer.status(), answer.body().as_ref()), (StatusCode::NOT_FOUND, &b"whole"[..]));
        let refused = client(4).send(request(&origin)).await.unwrap_err();
        assert!(matches!(refused, OutboundError::TooLarge(4)), "{refused}");
        assert_eq!(client(4).status(request(&origin)).await.unwrap(), StatusCode::NOT_FOUND);
    }

    #[tokio::test]
    async fn an_answer_without_an_end_is_given_up_at_the_limit() {
        let origin = hostile_server(ENDLESS, &[b' '; 16384], true).await;
        let refused = client(2 * MIB).send(request(&origin)).await.unwrap_err().to_string();
        assert_eq!(refused, "gave an answer of more than 2 MiB, which was not read to its end");
        assert_eq!(client(2 * MIB).status(request(&origin)).await.unwrap(), StatusCode::OK);
    }

    #[tokio::test]
    async fn of_an_answer_in_tiny_pieces_no_piece_is_kept() {
        struct Piece {
            _kept: Arc<()>,
        }

        impl AsRef<[u8]> for Piece {
            fn as_ref(&self) -> &[u8] {
                b"x"
            }
        }

        let kept = Arc::new(());
        let most = Arc::new(AtomicUsize::new(0));
        let pieces = (0..1000).map(|_| {
            most.fetch_max(Arc::strong_count(&kept) - 1, Ordering::Relaxed);
            Ok::<_, io::Error>(Frame::data(Bytes::from_owner(Piece { _kept: Arc::clone(&kept) })))
        });
        let answer = client(1000).read(StreamBody::new(stream::iter(pieces))).await.unwrap();
        assert_eq!((answer.len(), most.load(Ordering::Relaxed)), (1000, 0));
    }

    #[tokio::test]
    async fn an_answer_that_does_not_come_whole_and_a_server_that_is_not_there_are_told_apart() {
        for head in ["HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n", ""] {
            let refused = client(MIB).send(request(&hostile_server(head, b"", false).await)).await.unwrap_err();
            assert!(matches!(refused, OutboundError::CutShort(_)), "{refused}");
        }
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let nobody = format!("http://{}", listener.local_addr().unwrap());
        drop(listener);
        let refused = client(MIB).send(request(&nobody)).await.unwrap_err();
        assert!(matches!(refused, OutboundError::Unreachable(_)), "{refused}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_does_not_answer_in_time_is_given_up() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let origin = format!("http://{}", listener.local_addr().unwrap());
        for _ in 0..2 {
            let refused = client(MIB).send(request(&origin)).await.unwrap_err();
            assert!(matches!(refused, OutboundError::Silent(_)), "{refused}");
            assert_eq!(refused.to_string(), "did not answer within 60 s");
        }
    }
}

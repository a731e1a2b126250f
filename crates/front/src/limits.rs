//! The limits of a listener.

use std::time::Duration;

/// Longest head of a request, in bytes, as the service counts it. A longer one is refused with [`super::Refusal::HeadTooLarge`].
pub const MAX_HEAD_BYTES: usize = 32 * 1024;

#[derive(Clone, Copy, Debug)]
pub struct ServerLimits {
    /// Connections at once.
    pub connections: usize,
    /// Connections of one client at once.
    pub connections_per_client: usize,
    /// Bytes that requests may hold until they are answered.
    pub receiving: u64,
    /// Bytes that answers may hold until they are sent.
    pub sending: u64,
    /// How long the head of a request may take, from the opening of the connection or from its first byte.
    pub head: Duration,
    /// How long the body of a request may take: 128 KB at 35 kbit/s.
    pub body: Duration,
    /// How long a connection may be idle between two requests: longer than the 60 s of common load balancers, so that they
    /// close first.
    pub idle: Duration,
    /// How long a client may take to read 64 KiB of an answer: 17 kbit/s, less than any line in use.
    pub write: Duration,
    /// How long a client may take to read an answer: 1 MB at 28 kbit/s.
    pub answer: Duration,
    /// How long a client that sends or reads nothing keeps its request once the listener stops.
    pub stalled_at_stop: Duration,
}

impl ServerLimits {
    pub const PUBLIC: Self = Self {
        connections: 10_000,
        connections_per_client: 2500,
        receiving: 32 * 1024 * 1024,
        sending: 64 * 1024 * 1024,
        head: Duration::from_secs(10),
        // 128 KB at 35 kbit/s.
        body: Duration::from_secs(30),
        // Longer than the 60 s of common load balancers, so that they close first and no request meets a closed
        // connection.
        idle: Duration::from_secs(75),
        write: Duration::from_secs(30),
        // 1 MB at 28 kbit/s.
        answer: Duration::from_mins(5),
        stalled_at_stop: Duration::from_secs(5),
    };

    /// For the operators' listener, which a probe must be able to reach at any time.
    pub const ADMIN: Self = Self {
        connections: 100,
        connections_per_client: 100,
        receiving: 4 * 1024 * 1024,
        sending: 16 * 1024 * 1024,
        ..Self::PUBLIC
    };
}

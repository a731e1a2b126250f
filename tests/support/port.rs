//! Ports of this machine on which nobody listens.

use std::net::{Ipv4Addr, SocketAddr};

use socket2::{Domain, Socket, Type};

/// A port of 127.0.0.1 that the system gives to nobody else while this lives. Connections to it are refused, until a server is
/// started with its number; that server must allow others to reuse its address, as Redis does.
pub struct Port {
    pub address: SocketAddr,
    _socket: Socket,
}

impl Port {
    pub fn hold() -> Self {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
        socket.set_reuse_address(true).expect("it is not bound yet");
        socket.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into()).expect("a port is free");
        let address = socket.local_addr().ok().and_then(|address| address.as_socket()).expect("it has one");
        Self { address, _socket: socket }
    }

    pub fn number(&self) -> u16 {
        self.address.port()
    }
}

//! Free ports on loopback.

use std::{
    net::{Ipv4Addr, SocketAddr, TcpListener},
    ops::Range,
};

/// Below the range from which systems take the local ports of outgoing connections. A port in that range could be taken
/// while its server is down between two starts, and a client that tries to reconnect there could even connect to itself.
/// A cluster node also listens ten thousand above its port, which stays below that range too.
const RANGE: Range<u16> = 11_000..21_000;

/// A port on which nobody listens at this moment. Another process can still take it first: who listens must retry.
pub(crate) fn free() -> u16 {
    listen().local_addr().expect("a bound listener has an address").port()
}

/// A listener on a free port.
pub(crate) fn listen() -> TcpListener {
    for _ in 0..1_000 {
        let port = fastrand::u16(RANGE);
        let bus = TcpListener::bind(loopback(port + 10_000));
        if let (Ok(listener), Ok(_)) = (TcpListener::bind(loopback(port)), bus) {
            return listener;
        }
    }
    panic!("no free port on loopback in {RANGE:?}");
}

/// The address of a port on loopback.
pub(crate) fn loopback(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}

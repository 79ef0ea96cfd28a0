//! Free ports on loopback.

use std::{
    fs::{self, File},
    net::{Ipv4Addr, SocketAddr, TcpListener},
    ops::Range,
    sync::{Mutex, PoisonError},
};

/// Below the range from which systems take the local ports of outgoing connections. A port in that range could be taken
/// while its server is down between two starts, and a client that tries to reconnect there could even connect to itself.
/// A cluster node also listens ten thousand above its port, which stays below that range too.
const RANGE: Range<u16> = 11_000..21_000;

/// How many ports a test process reserves at a time.
const BLOCK: u16 = 100;

/// The ports that this process has reserved, and has not given out.
static RESERVED: Mutex<Reserved> = Mutex::new(Reserved { left: 0..0, locks: Vec::new() });

/// Blocks of ports that no other test process on this machine uses.
struct Reserved {
    left: Range<u16>,
    /// The system frees them when the process ends, however it ends.
    locks: Vec<File>,
}

/// A port on which no process listens at this moment, and which this process and other test processes do not give out again while this
/// process lives: its server may be down for a while and start again. A stranger can still take it first: who listens must retry.
pub(crate) fn free() -> u16 {
    listen().local_addr().expect("a bound listener has an address").port()
}

/// A listener on a free port.
pub(crate) fn listen() -> TcpListener {
    let mut reserved = RESERVED.lock().unwrap_or_else(PoisonError::into_inner);
    for _ in 0..1_000 {
        let port = reserved.next();
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

impl Reserved {
    /// The next port of the block; any port of the range, where no block can be reserved.
    fn next(&mut self) -> u16 {
        if self.left.is_empty() {
            self.reserve();
        }
        self.left.next().unwrap_or_else(|| fastrand::u16(RANGE))
    }

    fn reserve(&mut self) {
        let folder = std::env::temp_dir().join("leasehold-test-ports");
        if fs::create_dir_all(&folder).is_err() {
            return;
        }
        let blocks = (RANGE.end - RANGE.start) / BLOCK;
        let first = fastrand::u16(0..blocks);
        for number in (first..blocks).chain(0..first) {
            let start = RANGE.start + number * BLOCK;
            // Each open file has a lock of its own, so a block that this process has already is refused too.
            let Ok(file) = File::options().create(true).append(true).open(folder.join(start.to_string())) else {
                continue;
            };
            if file.try_lock().is_ok() {
                self.locks.push(file);
                self.left = start..start + BLOCK;
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn a_port_is_given_out_once() {
        let mut given = HashSet::new();
        for _ in 0..300 {
            let port = free();
            assert!(given.insert(port), "port {port} belongs to a server that may be down for a while");
        }
    }
}

//! The thread that accepts clients, and its end.

use std::{
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
};

use super::{flow::serve, state::Shared};

/// Accepts clients until it is dropped. Its port is free again when `drop` returns.
pub(super) struct Listener {
    addr: SocketAddr,
    socket: Arc<TcpListener>,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Listener {
    pub(super) fn start(socket: TcpListener, shared: Arc<Shared>) -> Self {
        let addr = socket.local_addr().expect("a bound listener has an address");
        let socket = Arc::new(socket);
        let ends = Arc::new(AtomicBool::new(false));
        let (listening, ended) = (Arc::clone(&socket), Arc::clone(&ends));
        let thread = thread::spawn(move || {
            for client in listening.incoming() {
                if ended.load(Ordering::Acquire) {
                    break;
                }
                // A server that does not accept is told to the client by a closed connection.
                let Ok(client) = client else { continue };
                if shared.lock().watch.is_some() {
                    // A server that does not say its name must not keep others waiting.
                    let shared = Arc::clone(&shared);
                    thread::spawn(move || drop(serve(&shared, client)));
                } else {
                    let _ = serve(&shared, client);
                }
            }
        });
        Self { addr, socket, ends, thread: Some(thread) }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Release);
        // A process that is being spawned shares the socket until it executes its program, so closing the socket is not enough.
        let _ = rustix::net::shutdown(&*self.socket, rustix::net::Shutdown::Both);
        // Where a listening socket cannot be shut down, the thread waits for a client: this is the last one.
        let _ = TcpStream::connect(self.addr);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;

    use super::*;
    use crate::port;

    #[test]
    fn client_is_refused_while_another_process_has_a_copy_of_the_socket() {
        let socket = port::listen();
        let copy = socket.try_clone().expect("a copy");
        let addr = socket.local_addr().expect("a bound listener has an address");
        drop(Listener::start(socket, Arc::new(Shared::new(addr, None))));
        let error = TcpStream::connect(addr).expect_err("nobody listens");
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
        drop(copy);
    }
}

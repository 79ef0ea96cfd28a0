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
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Listener {
    pub(super) fn start(socket: TcpListener, shared: Arc<Shared>) -> Self {
        let addr = socket.local_addr().expect("a bound listener has an address");
        let ends = Arc::new(AtomicBool::new(false));
        let ended = Arc::clone(&ends);
        let thread = thread::spawn(move || {
            for client in socket.incoming() {
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
        Self { addr, ends, thread: Some(thread) }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Release);
        // The thread waits for a client: this is the last one.
        let _ = TcpStream::connect(self.addr);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

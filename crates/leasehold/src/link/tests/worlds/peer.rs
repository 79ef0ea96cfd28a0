//! A server's view of a connection, including the network: requests and replies take time, and stay in order.
//!
//! After the client has lost the connection, sent requests still arrive until the server kills it. A proxy or a slow
//! network behaves like this.

use super::super::memory::End;
use super::servers::State;
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::sync::Arc;
use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

type Request = (Instant, Vec<Vec<u8>>);
type Reply = (Instant, Vec<u8>);

/// A connection.
pub(super) struct Peer {
    pub(super) node: usize,
    /// The client considers the connection lost.
    pub(super) cut: CancellationToken,
    /// The earliest arrival of requests, and of replies.
    pub(super) requests_from: Instant,
    pub(super) replies_from: Instant,
    /// Either time has changed.
    pub(super) changed: Arc<Notify>,
    /// Number of requests in transit.
    pub(super) under_way: usize,
    pub(super) asking: bool,
    /// The subscribed channels, sharded or not.
    pub(super) channels: BTreeSet<(bool, Vec<u8>)>,
    /// The number of the last executed call.
    pub(super) last_call: i64,
    /// The handshake is complete.
    pub(super) introduced: bool,
    last_reply: Instant,
    replies: UnboundedSender<Reply>,
}

impl Peer {
    pub(super) fn new(node: usize) -> (Self, UnboundedReceiver<Reply>) {
        let (replies, sent) = unbounded_channel();
        let now = Instant::now();
        let peer = Self {
            node,
            cut: CancellationToken::new(),
            requests_from: now,
            replies_from: now,
            changed: Arc::default(),
            under_way: 0,
            asking: false,
            channels: BTreeSet::new(),
            last_call: 0,
            introduced: false,
            last_reply: now,
            replies,
        };
        (peer, sent)
    }

    /// The client has the connection, and the handshake is complete. Holding it up earlier would only delay the world.
    pub(super) fn is_of_use(&self) -> bool {
        self.introduced && !self.cut.is_cancelled()
    }

    /// Sends a reply or a message, in order.
    pub(super) fn reply(&mut self, at: Instant, bytes: Vec<u8>) {
        self.last_reply = self.last_reply.max(at);
        drop(self.replies.send((self.last_reply, bytes)));
    }
}

/// Transfers requests and replies until the connection ends.
pub(super) fn serve(
    state: &Arc<Mutex<State>>,
    connection: i64,
    end: End,
    cut: CancellationToken,
    replies: UnboundedReceiver<Reply>,
) {
    let end = Arc::new(end);
    let (requests, arriving) = unbounded_channel();
    drop(tokio::spawn(read(Arc::clone(state), connection, Arc::clone(&end), requests, cut.clone())));
    drop(tokio::spawn(execute(Arc::clone(state), connection, arriving)));
    drop(tokio::spawn(write(Arc::clone(state), connection, end, replies, cut)));
}

async fn read(
    state: Arc<Mutex<State>>,
    connection: i64,
    end: Arc<End>,
    requests: UnboundedSender<Request>,
    cut: CancellationToken,
) {
    let (mut buf, mut arrived) = (Vec::new(), [0; 4 * 1024]);
    let mut last = Instant::now();
    loop {
        let read = end.read(&mut arrived).await;
        if read == 0 {
            return cut.cancel();
        }
        buf.extend_from_slice(&arrived[..read]);
        while let Some(request) = leasehold_test_support::take_request(&mut buf) {
            let mut state = state.lock();
            let delay = state.delay();
            let Some(peer) = state.peers.get_mut(&connection) else { return };
            peer.under_way += 1;
            last = last.max(Instant::now() + delay);
            drop(requests.send((last, request)));
        }
    }
}

async fn execute(state: Arc<Mutex<State>>, connection: i64, mut arriving: UnboundedReceiver<Request>) {
    while let Some((at, request)) = arriving.recv().await {
        if !due(&state, connection, at, |peer| peer.requests_from).await {
            return;
        }
        let mut state = state.lock();
        let Some(peer) = state.peers.get_mut(&connection) else { return };
        peer.under_way -= 1;
        state.perform(connection, &request);
    }
}

async fn write(
    state: Arc<Mutex<State>>,
    connection: i64,
    end: Arc<End>,
    mut replies: UnboundedReceiver<Reply>,
    cut: CancellationToken,
) {
    let written = async {
        while let Some((at, bytes)) = replies.recv().await {
            let is_due = due(&state, connection, at, |peer| peer.replies_from).await;
            if !is_due || end.write_all(&bytes).await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        biased;
        () = cut.cancelled() => {}
        () = written => {}
    }
    end.cut();
}

/// Waits until this time, and until the connection is not held up. Returns whether the connection still exists.
async fn due(state: &Mutex<State>, connection: i64, at: Instant, from: impl Fn(&Peer) -> Instant) -> bool {
    loop {
        let (from, changed) = match state.lock().peers.get(&connection) {
            Some(peer) => (from(peer).max(at), Arc::clone(&peer.changed)),
            None => return false,
        };
        if from <= Instant::now() {
            return true;
        }
        tokio::select! {
            biased;
            () = changed.notified() => {}
            () = tokio::time::sleep_until(from) => {}
        }
    }
}

//! A connection as a server sees it, with all that lies between: requests and replies are on their way for a while, in order.
//!
//! A connection that its client has lost still brings what was sent on it, until the server is told to kill it, as a proxy or a slow network
//! does.

use super::servers::State;
use parking_lot::Mutex;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Instant;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio_util::sync::CancellationToken;

/// The first byte of a greeting of TLS.
const TLS_HANDSHAKE: u8 = 0x16;

type Request = (Instant, Vec<Vec<u8>>);
type Reply = (Instant, Vec<u8>);

/// A connection.
pub(super) struct Peer {
    pub(super) node: usize,
    /// Its client is gone, as far as the client knows.
    pub(super) cut: CancellationToken,
    /// Requests arrive from here on, and replies leave.
    pub(super) requests_from: Instant,
    pub(super) replies_from: Instant,
    /// Its client loses it then.
    pub(super) cut_from: Option<Instant>,
    /// How many requests are on their way.
    pub(super) under_way: usize,
    pub(super) asking: bool,
    /// The channels that it listens to, sharded or not.
    pub(super) channels: HashSet<(bool, Vec<u8>)>,
    /// The number of the last call that it executed.
    pub(super) last_call: i64,
    /// It has said what it is for.
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
            cut_from: None,
            under_way: 0,
            asking: false,
            channels: HashSet::new(),
            last_call: 0,
            introduced: false,
            last_reply: now,
            replies,
        };
        (peer, sent)
    }

    /// Its client has it and has been introduced: one that is held up before that only delays the world.
    pub(super) fn is_of_use(&self) -> bool {
        self.introduced && !self.cut.is_cancelled()
    }

    /// Sends a reply, or a message, behind all that was sent before.
    pub(super) fn reply(&mut self, at: Instant, bytes: Vec<u8>) {
        self.last_reply = self.last_reply.max(at);
        drop(self.replies.send((self.last_reply, bytes)));
    }
}

/// Carries requests and replies until the connection ends.
pub(super) fn serve(
    state: &Arc<Mutex<State>>,
    connection: i64,
    socket: TcpStream,
    cut: CancellationToken,
    replies: UnboundedReceiver<Reply>,
) {
    socket.set_nodelay(true).expect("a socket takes it");
    let (from_client, to_client) = socket.into_split();
    let (requests, arriving) = unbounded_channel();
    drop(tokio::spawn(read(Arc::clone(state), connection, from_client, requests, cut.clone())));
    drop(tokio::spawn(execute(Arc::clone(state), connection, arriving)));
    drop(tokio::spawn(write(Arc::clone(state), connection, to_client, replies, cut)));
}

async fn read(
    state: Arc<Mutex<State>>,
    connection: i64,
    mut from_client: OwnedReadHalf,
    requests: UnboundedSender<Request>,
    cut: CancellationToken,
) {
    let mut buf = Vec::new();
    let mut last = Instant::now();
    loop {
        // A client that could not connect asks whether the server speaks TLS.
        if buf.first() == Some(&TLS_HANDSHAKE) {
            break;
        }
        while let Some(request) = leasehold_test_support::take_request(&mut buf) {
            let mut state = state.lock();
            let delay = state.delay();
            let Some(peer) = state.peers.get_mut(&connection) else { return };
            peer.under_way += 1;
            last = last.max(Instant::now() + delay);
            if requests.send((last, request)).is_err() {
                return;
            }
        }
        tokio::select! {
            () = cut.cancelled() => return,
            read = from_client.read_buf(&mut buf) => if read.map_or(true, |read| read == 0) { break },
        }
    }
    cut.cancel();
}

async fn execute(state: Arc<Mutex<State>>, connection: i64, mut arriving: UnboundedReceiver<Request>) {
    while let Some((at, request)) = arriving.recv().await {
        // The time from which requests arrive may be put off meanwhile, or be brought near.
        loop {
            let now = Instant::now();
            let from = state.lock().peers.get(&connection).map(|peer| peer.requests_from.max(at));
            match from {
                None => return,
                Some(from) if from <= now => break,
                Some(from) => {
                    let step = std::time::Duration::from_millis(5);
                    tokio::time::sleep_until((now + step).min(from).into()).await;
                }
            }
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
    mut to_client: OwnedWriteHalf,
    mut replies: UnboundedReceiver<Reply>,
    cut: CancellationToken,
) {
    let written = async {
        while let Some((at, bytes)) = replies.recv().await {
            loop {
                let now = Instant::now();
                let from = state.lock().peers.get(&connection).map_or(at, |peer| peer.replies_from.max(at));
                if from <= now {
                    break;
                }
                let step = std::time::Duration::from_millis(5);
                tokio::time::sleep_until((now + step).min(from).into()).await;
            }
            if to_client.write_all(&bytes).await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        biased;
        () = cut.cancelled() => {}
        () = written => {}
    }
}

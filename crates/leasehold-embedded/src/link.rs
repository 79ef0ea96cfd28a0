//! The connections of one client to an embedded server.

mod reply;

use crate::engine::channels::PubSubMode;
use crate::server::EmbeddedServer;
use crate::server::connections::{Connections, LinkId, LinkState};
use crate::server::delivery::{Begun, out_of_reach};
use crate::server::fault::{Fault, FaultTarget};
use crate::server::in_flight::{CallResult, Wire};
use crate::server::recorder::Recorder;
use crate::server::state::State;
use bytes::Bytes;
use leasehold_core::call::Call;
use leasehold_core::link::{Link, LinkError, LinkEvent, Outcome, Receiver, ServerInfo, Settled};
use leasehold_core::reply::Reply;
use leasehold_core::scan::{ScanPage, Scanned, ServerId};
use leasehold_core::session::CallId as SessionCall;
use reply::{Answering, ReplyFuture};
use std::fmt;
use std::future::{Future, poll_fn};
use std::sync::{Arc, OnceLock, Weak};
use std::task::Poll;

/// The connections of one client. Clones are cheap and share their connections, which close with the last clone.
#[derive(Clone)]
pub struct EmbeddedLink {
    inner: Arc<Inner>,
}

struct Inner {
    server: EmbeddedServer,
    id: LinkId,
    info: ServerInfo,
    receiver: OnceLock<Weak<dyn Receiver>>,
}

impl EmbeddedLink {
    fn new(server: &EmbeddedServer) -> Self {
        let (id, info) = server.with(|state| {
            let id = state.next_number();
            let mut connections = Connections::new([(); 2].map(|()| state.next_number()), state.mode);
            if state.down {
                connections.state = LinkState::Down;
                connections.was_up = false;
                // No task waits for this link's events yet.
                drop(connections.push(out_of_reach()));
            }
            let mut info = ServerInfo::default();
            info.flavor = "embedded".into();
            info.version = env!("CARGO_PKG_VERSION").into();
            info.instance = server.instance();
            info.eviction_policy = Some(state.eviction_policy.clone());
            info.sharded_notices = connections.mode == PubSubMode::Sharded;
            state.links.insert(id, connections);
            (id, info)
        });
        Self { inner: Arc::new(Inner { server: server.clone(), id, info, receiver: OnceLock::new() }) }
    }

    /// Returns the server of this link.
    pub fn embedded_server(&self) -> &EmbeddedServer {
        &self.inner.server
    }

    /// Plans a fault for a call of this link.
    pub fn inject(&self, fault: Fault, target: FaultTarget) {
        self.with_connections(|connections| connections.faults.add(fault, target));
    }

    /// Cancels all planned faults of this link.
    pub fn clear_faults(&self) {
        self.with_connections(|connections| connections.faults.clear());
    }

    /// Returns the number of planned faults of this link.
    pub fn faults(&self) -> usize {
        let faults = |state: &mut State| state.links.get(&self.inner.id).map(|connections| connections.faults.len());
        self.with(faults).unwrap_or_default()
    }

    /// Applies the requests held by a proxy, in order, and returns their number. A caller with a live connection
    /// receives its reply.
    pub fn release_held(&self) -> usize {
        self.with(|state| state.release_held(self.inner.id))
    }

    /// Returns the number of requests held by a proxy, neither released nor settled.
    pub fn held(&self) -> usize {
        self.with(|state| state.held(self.inner.id))
    }

    /// Disconnects or reconnects the link. While the link is down, calls end with [`LinkError::NotSent`], and
    /// subscribing and settling fail. Waiting calls end with [`LinkError::Unknown`]. The link immediately reports an
    /// unreachable server. After the outage, the link opens new connections without subscriptions, and reports the
    /// resets.
    pub fn set_down(&self, down: bool) {
        self.with(|state| if down { state.set_down(self.inner.id) } else { state.set_up(self.inner.id) });
    }

    /// Resets the connection for calls. Waiting calls end with [`LinkError::Unknown`].
    pub fn reset(&self) {
        self.with(|state| state.reset(self.inner.id, Wire::Calls));
    }

    /// Resets the notice connection, which loses all its subscriptions.
    pub fn reset_notices(&self) {
        self.with(|state| state.reset_notices(self.inner.id));
    }

    /// Drops the next `count` notices silently.
    pub fn lose_notices(&self, count: u32) {
        self.with_connections(|connections| connections.lose_notices = count);
    }

    /// Applies the next `count` subscribe and unsubscribe commands, but ends them with [`LinkError::Unknown`].
    pub fn lose_confirmations(&self, count: u32) {
        self.with_connections(|connections| connections.lose_confirmations = count);
    }

    /// Makes every operation yield before and after its effect, so a test can drop its future at both points.
    #[doc(hidden)]
    pub fn stepped(&self, stepped: bool) {
        self.with_connections(|connections| connections.stepped = stepped);
    }

    /// Starts recording the calls of this link.
    pub fn record(&self) -> Recorder {
        Recorder::new(self.inner.server.clone(), Some(self.inner.id), self.with(State::start_log))
    }

    pub(crate) fn with<R>(&self, f: impl FnOnce(&mut State) -> R) -> R {
        self.inner.server.with(f)
    }

    fn with_connections(&self, f: impl FnOnce(&mut Connections)) {
        self.with(|state| {
            if let Some(connections) = state.links.get_mut(&self.inner.id) {
                f(connections);
            }
        });
    }

    /// Sends on the first poll, and waits for the result.
    async fn send(&self, begin: impl FnOnce(&mut State, LinkId) -> Begun + Send) -> CallResult {
        self.step().await;
        let result = match self.with(|state| begin(state, self.inner.id)) {
            Begun::Ended(result) => result,
            Begun::Waits(id) => ReplyFuture::new(self.clone(), id).await,
        };
        self.step().await;
        result
    }

    pub(crate) fn is_stepped(&self) -> bool {
        self.with(|state| state.links.get(&self.inner.id).is_some_and(|connections| connections.stepped))
    }

    /// Yields once if operations are stepped.
    async fn step(&self) {
        let mut waits = self.is_stepped();
        poll_fn(|cx| {
            if std::mem::take(&mut waits) {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            Poll::Ready(())
        })
        .await;
    }
}

impl EmbeddedServer {
    /// Creates the connections of another client.
    pub fn link(&self) -> EmbeddedLink {
        EmbeddedLink::new(self)
    }
}

impl Link for EmbeddedLink {
    fn server(&self) -> &ServerInfo {
        &self.inner.info
    }

    fn settlings(&self, _durable: bool) -> u64 {
        let settlings = |state: &State| state.links.get(&self.inner.id).map(|connections| connections.settlings);
        self.inner.server.peek(settlings).unwrap_or_default()
    }

    fn call_decided(&self, decided: u64, call: Call) -> impl Future<Output = Result<Reply, LinkError>> + Send {
        self.send(move |state, link| state.begin(link, decided, &call))
    }

    fn start(&self, decided: u64, id: SessionCall, call: Call) -> Result<Option<Outcome>, Call> {
        if self.is_stepped() {
            return Err(call);
        }
        match self.with(|state| state.begin(self.inner.id, decided, &call)) {
            Begun::Ended(result) => Ok(Some(result)),
            Begun::Waits(waiting) => {
                Answering::begin(&self.inner, waiting, id);
                Ok(None)
            }
        }
    }

    fn deliver_to(&self, receiver: Weak<dyn Receiver>) {
        let _ = self.inner.receiver.set(receiver);
    }

    async fn settle(&self, _key: Bytes, _durable: bool) -> Result<Settled, LinkError> {
        self.send(State::settle).await.map(|_| Settled::Proven)
    }

    fn servers(&self) -> Vec<ServerId> {
        vec![ServerId(0)]
    }

    async fn scan(&self, _server: ServerId, page: ScanPage) -> Result<Scanned, LinkError> {
        let reply = self.send(|state, link| state.scan(link, page)).await?;
        // Cursors derive from key names, so every server accepts them.
        Scanned::decode(&reply, String::new()).map_err(|error| LinkError::Unknown(error.to_string()))
    }

    async fn ping(&self, _server: ServerId) -> Result<(), LinkError> {
        self.send(State::ping).await.map(drop)
    }

    async fn subscribe(&self, channel: Bytes) -> Result<(), LinkError> {
        self.send(|state, link| state.listen(link, channel, true)).await.map(drop)
    }

    async fn unsubscribe(&self, channel: Bytes) -> Result<(), LinkError> {
        self.send(|state, link| state.listen(link, channel, false)).await.map(drop)
    }

    async fn event(&self) -> Option<LinkEvent> {
        poll_fn(|cx| {
            let mut replaced = None;
            self.with(|state| {
                let Some(connections) = state.links.get_mut(&self.inner.id) else { return Poll::Ready(None) };
                if connections.state == LinkState::Closed {
                    return Poll::Ready(None);
                }
                let event = connections.pop();
                if event.is_some() {
                    return Poll::Ready(event);
                }
                replaced = connections.wait(cx.waker());
                Poll::Pending
            })
        })
        .await
    }

    async fn close(&self) {
        self.with(|state| state.close(self.inner.id));
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // Drop the connections without the lock, because they contain wakers.
        let connections = self.server.with(|state| {
            state.close(self.id);
            state.links.remove(&self.id)
        });
        drop(connections);
    }
}

impl fmt::Debug for EmbeddedLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EmbeddedLink").field("id", &self.inner.id).finish_non_exhaustive()
    }
}

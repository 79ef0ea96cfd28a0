//! A proxy between a client and a server that breaks what lies between them, exactly where a test wants it.
//!
//! Invariants:
//!
//! 1. The bytes of one connection keep their order in each direction, whatever is delayed, frozen or held.
//! 2. A reply belongs to the oldest unanswered request of its connection. Pushes and Pub/Sub messages are no replies; the
//!    confirmations of a subscription together are one, to the request that asked for it.
//! 3. A trap works once, on the first request that matches it after it was set. The trap that was set first works.
//! 4. Bytes that are not RESP (TLS, say) pass as they are: they can be delayed, frozen and cut, but nothing is recorded or trapped.

mod flow;
mod link;
mod listener;
mod state;
mod trap;
pub(crate) mod watch;

use std::{
    fmt,
    net::{SocketAddr, ToSocketAddrs},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use self::{listener::Listener, state::Shared, trap::Kind};
pub use self::{
    state::{Request, Way},
    trap::{After, Trap},
    watch::Watch,
};
use crate::{Connection, Resp, Server, eventually, port};

/// A listener on loopback that passes everything on to a server, until it is told otherwise. Dropping it closes everything.
pub struct Proxy {
    addr: SocketAddr,
    url: String,
    shared: Arc<Shared>,
    listener: Mutex<Option<Listener>>,
}

impl Proxy {
    /// A proxy to an address. [`Proxy::url`] then has no password.
    ///
    /// # Panics
    ///
    /// When the address does not resolve.
    #[must_use]
    pub fn start(target: impl ToSocketAddrs) -> Self {
        Self::start_with(target, None)
    }

    /// A proxy whose replies are watched. It asks each connection for the name of the server process before it passes anything on, and
    /// keeps no records of requests.
    ///
    /// # Panics
    ///
    /// When the address does not resolve.
    #[must_use]
    pub fn watched(target: impl ToSocketAddrs, watch: Arc<dyn Watch>) -> Self {
        Self::start_with(target, Some(watch))
    }

    fn start_with(target: impl ToSocketAddrs, watch: Option<Arc<dyn Watch>>) -> Self {
        let target = target.to_socket_addrs().ok().and_then(|mut all| all.next()).expect("the address of a server");
        let listener = port::listen();
        let addr = listener.local_addr().expect("a bound listener has an address");
        let shared = Arc::new(Shared::new(target, watch));
        let listener = Mutex::new(Some(Listener::start(listener, Arc::clone(&shared))));
        Self { addr, url: format!("redis://{addr}"), shared, listener }
    }

    /// A proxy to a server, by TLS if the server speaks it, with a URL that has the server's password.
    #[must_use]
    pub fn to(server: &Server) -> Self {
        let target = server.tls_addr().unwrap_or_else(|| server.addr());
        let mut proxy = Self::start(target);
        proxy.url = server.tcp_url(proxy.addr.port());
        proxy
    }

    /// The address on which it listens.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The URL at which a client reaches the server through the proxy.
    #[must_use]
    pub fn url(&self) -> String {
        self.url.clone()
    }

    /// Sends later connections to another server, as after a failover behind one name.
    pub fn retarget(&self, target: SocketAddr) {
        self.shared.lock().target = target;
    }

    /// Delivers everything later by `delay`, from what is under way now; zero ends it. The order is kept, and what is sent at
    /// once arrives at once: it is latency and not bandwidth.
    pub fn delay(&self, way: Way, delay: Duration) {
        self.shared.change(|state| way.each(|one| state.delay[one] = delay));
    }

    /// Keeps back everything that has not been delivered; nothing is lost, not even the news that a side closed. New
    /// connections are accepted and frozen too. When this returns, nothing more comes out.
    pub fn freeze(&self, way: Way) {
        self.shared.freeze(way);
    }

    /// Delivers what was frozen, and goes on.
    pub fn thaw(&self, way: Way) {
        self.shared.change(|state| way.each(|one| state.frozen[one] = false));
    }

    /// Closes all connections now; what was under way is lost. A connection with a held request (see
    /// [`Proxy::hold_request`]) is closed for its client, while the server sees it open.
    pub fn cut(&self) {
        self.shared.change(|state| state.links.retain(|_, link| link.cut_off()));
    }

    /// Whether new connections are refused, as if no process listened. Connections that exist stay.
    ///
    /// # Panics
    ///
    /// When another process took the port in the meantime.
    pub fn refuse(&self, refuse: bool) {
        let mut listener = self.listener.lock().unwrap_or_else(PoisonError::into_inner);
        if refuse {
            *listener = None;
        } else if listener.is_none() {
            // A process that is being spawned shares the old listener until it executes its program.
            let socket =
                eventually("the port of the proxy is free again", || std::net::TcpListener::bind(self.addr).ok());
            *listener = Some(Listener::start(socket, Arc::clone(&self.shared)));
        }
    }

    /// Swallows the reply to the next request whose bytes contain `needle` (the name of a command, a key, the SHA of a script):
    /// the server has carried it out, and the client cannot know. Replies before it are delivered, nothing after it; see
    /// [`After`].
    pub fn swallow_reply_to(&self, needle: impl AsRef<[u8]>, after: After) -> Trap {
        self.shared.set_trap(needle.as_ref(), Kind::Swallow(after))
    }

    /// Keeps back the next request whose bytes contain `needle`, and what follows it on its connection: bytes that are stuck
    /// in the network. The connection to the server stays open even when the client closes its own, until
    /// [`Proxy::deliver_held`].
    pub fn hold_request(&self, needle: impl AsRef<[u8]>) -> Trap {
        self.shared.set_trap(needle.as_ref(), Kind::Hold)
    }

    /// Delivers the held requests on their old connections, with what followed them, and waits for the server to answer.
    /// Returns the reply to each in the order of their arrival; `None` where the server had closed the connection, so that the
    /// request had no effect. The client gets the reply too if it is still there.
    ///
    /// # Panics
    ///
    /// When the server neither answers nor closes the connection.
    #[track_caller]
    pub fn deliver_held(&self) -> Vec<Option<Resp>> {
        let mut held = self.shared.change(|state| {
            let held = state.links.iter_mut().flat_map(|(&id, link)| link.unhold().map(move |number| (number, id)));
            let mut held: Vec<_> = held.collect();
            // No link has the number of a request whose link is gone.
            held.extend(state.void.drain(..).map(|number| (number, u64::MAX)));
            held
        });
        held.sort_unstable();
        let answer = |(number, id)| {
            eventually("the server has answered a held request or closed its connection", || {
                let state = self.shared.lock();
                let reply = state.replies.get(&number).cloned();
                if reply.is_some() || !state.links.contains_key(&id) { Some(reply) } else { None }
            })
        };
        held.into_iter().map(answer).collect()
    }

    /// Closes the connection when the next request whose bytes contain `needle` arrives; the server does not see it, and does
    /// see what came before it.
    pub fn cut_before(&self, needle: impl AsRef<[u8]>) -> Trap {
        self.shared.set_trap(needle.as_ref(), Kind::CutBefore)
    }

    /// All requests since the start or [`Proxy::clear_requests`], in the order of their arrival at the proxy, with their
    /// replies. Requests that were held or cut off are among them.
    #[must_use]
    pub fn requests(&self) -> Vec<Request> {
        self.shared.lock().recorded(|_| true)
    }

    /// The recorded requests whose bytes contain `needle`.
    #[must_use]
    pub fn requests_with(&self, needle: impl AsRef<[u8]>) -> Vec<Request> {
        self.shared.lock().recorded(|request| request.contains(needle.as_ref()))
    }

    /// Waits until a request whose bytes contain `needle` has been recorded, and returns the first.
    ///
    /// # Panics
    ///
    /// When none comes within 20 seconds.
    #[track_caller]
    pub fn wait_for_request(&self, needle: impl AsRef<[u8]>) -> Request {
        let needle = needle.as_ref();
        let what = format!("a request with {:?} has come", String::from_utf8_lossy(needle));
        eventually(&what, || self.requests_with(needle).into_iter().next())
    }

    /// Forgets the recorded requests.
    pub fn clear_requests(&self) {
        self.shared.lock().requests.clear();
    }

    /// Sends the last recorded request whose bytes contain `needle` once more, see [`Proxy::replay`].
    ///
    /// # Panics
    ///
    /// When there is none, or the server does not answer.
    #[track_caller]
    pub fn duplicate(&self, needle: impl AsRef<[u8]>) -> Resp {
        let request = self.requests_with(needle).pop().expect("a recorded request to send once more");
        self.replay(&request)
    }

    /// Sends a request once more, on a connection of the proxy's own that authenticates as the request's connection did, and
    /// returns the reply: a duplicate, as late as the test likes.
    ///
    /// # Panics
    ///
    /// When the server does not answer.
    #[track_caller]
    pub fn replay(&self, request: &Request) -> Resp {
        let (target, greeting) = {
            let state = self.shared.lock();
            (state.target, state.greetings.get(&request.connection).cloned().unwrap_or_default())
        };
        let mut connection = Connection::connect(target).expect("a connection to the server");
        for argv in greeting {
            connection.command(&argv).expect("the server's answer to a greeting");
        }
        connection.command(&request.argv).expect("the server's answer to a duplicate")
    }

    /// How many connections are open, seen from the clients.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.shared.lock().links.values().filter(|link| !link.client_is_gone()).count()
    }

    /// How many connections were accepted since the start.
    #[must_use]
    pub fn accepted(&self) -> u64 {
        self.shared.lock().accepted
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.refuse(true);
        self.shared.change(|state| {
            state.links.values().for_each(link::Link::close);
            state.links.clear();
        });
    }
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "proxy at {}", self.addr)
    }
}

#[cfg(test)]
mod tests;

//! The state that the threads of a proxy share: one lock, and one condition for every change.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use super::{
    link::Link,
    trap::{Armed, Kind, Trap},
    watch::Watch,
};
use crate::resp::{Resp, encode};

/// A direction through the proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Requests: from the clients to the server.
    ToServer,
    /// Replies and messages: from the server to the clients.
    ToClient,
    /// Both directions.
    Both,
}

/// A recorded request.
#[derive(Clone, Debug)]
pub struct Request {
    /// Its number; numbers grow in the order of arrival.
    pub number: u64,
    /// The number of its connection; numbers grow in the order of accepting.
    pub connection: u64,
    /// The command and its arguments.
    pub argv: Vec<Vec<u8>>,
    /// When its last byte arrived at the proxy.
    pub at: Instant,
    /// The server's reply, as soon as it arrived at the proxy, whether or not the client got it.
    pub reply: Option<Resp>,
}

impl Request {
    /// The name of the command in upper case.
    #[must_use]
    pub fn command(&self) -> String {
        String::from_utf8_lossy(self.argv.first().map_or(&[], Vec::as_slice)).to_ascii_uppercase()
    }

    /// Whether its bytes contain `needle`.
    #[must_use]
    pub fn contains(&self, needle: impl AsRef<[u8]>) -> bool {
        contains(&encode(&self.argv), needle.as_ref())
    }
}

/// The indexes of [`State::delay`] and its like.
pub(super) const TO_SERVER: usize = 0;
/// See [`TO_SERVER`].
pub(super) const TO_CLIENT: usize = 1;

impl Way {
    pub(super) fn each(self, mut act: impl FnMut(usize)) {
        if self != Self::ToClient {
            act(TO_SERVER);
        }
        if self != Self::ToServer {
            act(TO_CLIENT);
        }
    }
}

pub(super) struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

pub(super) struct State {
    /// With a watcher no request is kept after its reply.
    pub(super) watch: Option<Arc<dyn Watch>>,
    pub(super) target: SocketAddr,
    pub(super) delay: [Duration; 2],
    pub(super) frozen: [bool; 2],
    pub(super) traps: Vec<Armed>,
    pub(super) links: BTreeMap<u64, Link>,
    pub(super) accepted: u64,
    pub(super) requests: BTreeMap<u64, Request>,
    /// The replies to requests that were held, which must be found even when the records are cleared.
    pub(super) replies: BTreeMap<u64, Resp>,
    /// The words by which each connection was let in: HELLO, AUTH and SELECT.
    pub(super) greetings: BTreeMap<u64, Vec<Vec<Vec<u8>>>>,
    /// Held requests whose connection was closed by the server.
    pub(super) void: Vec<u64>,
    next_request: u64,
}

impl Shared {
    pub(super) fn new(target: SocketAddr, watch: Option<Arc<dyn Watch>>) -> Self {
        let state = State {
            watch,
            target,
            delay: [Duration::ZERO; 2],
            frozen: [false; 2],
            traps: Vec::new(),
            links: BTreeMap::new(),
            accepted: 0,
            requests: BTreeMap::new(),
            replies: BTreeMap::new(),
            greetings: BTreeMap::new(),
            void: Vec::new(),
            next_request: 0,
        };
        Self { state: Mutex::new(state), changed: Condvar::new() }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state and wakes all who wait for a change.
    pub(super) fn change<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        let result = act(&mut self.lock());
        self.changed.notify_all();
        result
    }

    /// Waits for a change, at the longest until `until`.
    pub(super) fn wait<'a>(&self, state: MutexGuard<'a, State>, until: Option<Instant>) -> MutexGuard<'a, State> {
        match until {
            None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            Some(until) => {
                let patience = until.saturating_duration_since(Instant::now());
                self.changed.wait_timeout(state, patience).unwrap_or_else(PoisonError::into_inner).0
            }
        }
    }

    pub(super) fn freeze(&self, way: Way) {
        self.change(|state| way.each(|one| state.frozen[one] = true));
        // A write that has begun is allowed to end, unless the other side does not read at all.
        let end = Instant::now() + Duration::from_secs(1);
        let mut state = self.lock();
        let writes = |state: &State| {
            let mut writes = false;
            way.each(|one| writes |= state.links.values().any(|link| link.writing[one]));
            writes
        };
        while writes(&state) && Instant::now() < end {
            state = self.wait(state, Some(end));
        }
    }

    pub(super) fn set_trap(&self, needle: &[u8], kind: Kind) -> Trap {
        let trap = Trap::new(kind, needle);
        self.lock().traps.push(Armed { needle: needle.to_vec(), kind, trap: trap.clone() });
        trap
    }
}

impl State {
    /// Notes a request that has arrived, and returns its number.
    pub(super) fn record(&mut self, connection: u64, argv: &[Vec<u8>]) -> u64 {
        let number = self.next_request;
        self.next_request += 1;
        let request = Request { number, connection, argv: argv.to_vec(), at: Instant::now(), reply: None };
        if ["HELLO", "AUTH", "SELECT"].contains(&request.command().as_str()) {
            self.greetings.entry(connection).or_default().push(request.argv.clone());
        }
        self.requests.insert(number, request);
        number
    }

    /// Takes the trap that the bytes of a request fall into.
    pub(super) fn trap_for(&mut self, raw: &[u8]) -> Option<Armed> {
        let at = self.traps.iter().position(|armed| contains(raw, &armed.needle))?;
        Some(self.traps.remove(at))
    }

    /// Closes both sides of a connection. Its held requests can never be delivered.
    pub(super) fn end(&mut self, id: u64) {
        if let Some(mut link) = self.links.remove(&id) {
            link.close();
            self.void.extend(link.unhold());
            if self.watch.is_some() {
                self.requests.retain(|_, request| request.connection != id);
            }
        }
    }

    pub(super) fn recorded(&self, fits: impl Fn(&Request) -> bool) -> Vec<Request> {
        self.requests.values().filter(|request| fits(request)).cloned().collect()
    }
}

fn contains(bytes: &[u8], needle: &[u8]) -> bool {
    needle.is_empty() || bytes.windows(needle.len()).any(|window| window == needle)
}

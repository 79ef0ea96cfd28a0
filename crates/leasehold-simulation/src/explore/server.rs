//! What the server does with each call in each of its states, carried out once and remembered.

use super::client::{channel_of, lock, text_of};
use super::clients::Replies;
use super::pool::hash_of;
use super::script::{CAPACITY, Subject};
use bytes::Bytes;
use leasehold_core::call::Call;
use leasehold_core::link::{Link, LinkEvent, ServerError};
use leasehold_core::reply::Reply;
use leasehold_core::script::Script;
use leasehold_core::time::Instant;
use leasehold_embedded::{EmbeddedLink, EmbeddedServer, ServerClock};
use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};

/// Wall time at the clock's zero, in milliseconds.
const BASE: i64 = 1_800_000_000_000;

/// A key of the server.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub(super) name: Bytes,
    /// Texts, or fields and values, or members and scores.
    pub(super) parts: Vec<Bytes>,
    /// The last millisecond at which it is there.
    pub(super) end: Option<i64>,
}

/// What the server has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Data {
    keys: Vec<Key>,
}

/// Which clients are subscribed: scripts are told how many hear what they publish.
pub(super) type Listening = [bool; 4];

/// How many notices each client gets.
pub(super) type Notices = [u32; 4];

/// A state of the server: how it was reached first, and what is in it.
struct Node {
    from: Option<(u32, Instant, Listening, Rc<Call>)>,
    data: Rc<Data>,
}

/// What comes of a call: the state after it, the number of its reply, and the notices.
pub(super) type Turn = (u32, u32, Notices);

/// A script that is not what it should be: its name, and what is made of its text.
pub(super) type Broken = (&'static str, fn(&str) -> String);

/// All states of the server that were met. The first has the number 0.
pub(super) struct Servers {
    engine: EmbeddedServer,
    clock: Arc<AtomicU64>,
    /// The connections for notices of the clients.
    links: Vec<EmbeddedLink>,
    /// Which of them are subscribed.
    listening: Listening,
    subject: Subject,
    broken: Option<Broken>,
    nodes: Vec<Node>,
    by_data: HashMap<u128, u32>,
    turns: HashMap<(u32, Instant, Listening, u32), Turn>,
    live: Option<u32>,
    /// Every name that a key ever had.
    names: BTreeSet<Bytes>,
}

impl fmt::Debug for Servers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Servers").field("states", &self.nodes.len()).finish_non_exhaustive()
    }
}

impl Servers {
    pub(super) fn new(subject: Subject, clients: usize, broken: Option<Broken>) -> Self {
        let clock = Arc::new(AtomicU64::new(0));
        let shown = clock.clone();
        let engine = EmbeddedServer::with_clock(ServerClock::from_fn(move || {
            Instant::from_nanos(shown.load(Ordering::Relaxed))
        }));
        let links = (0..clients).map(|_| engine.link()).collect();
        let mut servers = Self {
            engine,
            clock,
            links,
            listening: Listening::default(),
            subject,
            broken,
            nodes: Vec::new(),
            by_data: HashMap::new(),
            turns: HashMap::new(),
            live: None,
            names: BTreeSet::new(),
        };
        servers.begin_anew();
        let data = servers.data_now();
        servers.by_data.insert(hash_of(&data), 0);
        servers.nodes.push(Node { from: None, data: Rc::new(data) });
        servers
    }

    /// How many states there are.
    pub(super) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// What there is in a state at an instant.
    pub(super) fn data(&self, state: u32) -> &Rc<Data> {
        &self.nodes[state as usize].data
    }

    /// Carries out a call in a state. `number` is that of the call.
    pub(super) fn execute(
        &mut self,
        state: u32,
        now: Instant,
        listening: Listening,
        number: u32,
        call: &Call,
        replies: &mut Replies,
    ) -> Turn {
        if let Some(known) = self.turns.get(&(state, now, listening, number)) {
            return *known;
        }
        self.bring_about(state);
        let (reply, notices) = self.run(now, listening, call);
        self.names.extend(self.engine.keys());
        let data = self.data_now();
        let nodes = &mut self.nodes;
        let next = *self.by_data.entry(hash_of(&data)).or_insert_with(|| {
            nodes.push(Node { from: Some((state, now, listening, Rc::new(call.clone()))), data: Rc::new(data) });
            u32::try_from(nodes.len() - 1).expect("the server has few states")
        });
        self.live = Some(next);
        let text = format!("{reply:?}");
        let turn = (next, replies.number(Rc::new(reply), text), notices);
        self.turns.insert((state, now, listening, number), turn);
        turn
    }

    /// Has the engine come to a state, by the calls on the way there.
    fn bring_about(&mut self, state: u32) {
        if self.live == Some(state) {
            return;
        }
        self.begin_anew();
        let mut way = Vec::new();
        let mut at = state;
        while let Some((before, now, listening, call)) = &self.nodes[at as usize].from {
            way.push((*now, *listening, Rc::clone(call)));
            at = *before;
        }
        for (now, listening, call) in way.into_iter().rev() {
            let _reply = self.run(now, listening, &call);
        }
    }

    fn begin_anew(&self) {
        self.clock.store(0, Ordering::Relaxed);
        for key in self.engine.keys() {
            self.engine.command(&[b"DEL", &key]).expect("a key can be deleted");
        }
        if self.subject == Subject::Permits {
            let capacity = CAPACITY.to_string();
            self.engine.command(&[b"SET", lock().key(), capacity.as_bytes()]).expect("a counter can be set");
        }
    }

    fn run(&mut self, now: Instant, listening: Listening, call: &Call) -> (Result<Reply, ServerError>, Notices) {
        self.clock.store(now.as_nanos(), Ordering::Relaxed);
        for (client, link) in self.links.iter().enumerate() {
            let channel = channel_of(self.subject.kind(), client);
            if listening[client] && !self.listening[client] {
                at_once(link.subscribe(channel)).expect("an embedded link can subscribe");
            } else if !listening[client] && self.listening[client] {
                at_once(link.unsubscribe(channel)).expect("an embedded link can unsubscribe");
            }
        }
        self.listening = listening;
        let script: &'static Script = call.script();
        let reply = match self.broken {
            Some((name, change)) if name == script.name() => {
                self.engine.eval(&change(script.source()), call.keys(), call.args())
            }
            _ => self.engine.execute(call),
        };
        let mut notices = Notices::default();
        for (client, link) in self.links.iter().enumerate() {
            while let Poll::Ready(Some(event)) = pin!(link.event()).poll(&mut Context::from_waker(Waker::noop())) {
                notices[client] += u32::from(matches!(event, LinkEvent::Notice { .. }));
            }
        }
        // The engine keeps what has ended until somebody asks for it. Where the clock goes back, to another way that things can go,
        // it must not come back to life.
        for name in &self.names {
            self.engine.command(&[b"EXISTS", name]).expect("a key can be asked for");
        }
        (reply, notices)
    }

    fn data_now(&self) -> Data {
        let key = |name: Bytes| {
            let read = |words: &[&[u8]]| self.engine.command(words).expect("a key can be read");
            let kind = match read(&[b"TYPE", &name]) {
                Reply::Bulk(kind) => kind,
                other => panic!("{other:?} is no type"),
            };
            let value = match kind.as_ref() {
                b"string" => read(&[b"GET", &name]),
                b"hash" => read(&[b"HGETALL", &name]),
                b"list" => read(&[b"LRANGE", &name, b"0", b"-1"]),
                _ => read(&[b"ZRANGE", &name, b"0", b"-1", b"WITHSCORES"]),
            };
            let text = |reply: Reply| match reply {
                Reply::Bulk(text) => text,
                other => panic!("{other:?} is no text"),
            };
            let parts = match value {
                Reply::Array(parts) => parts.into_iter().map(text).collect(),
                other => vec![text(other)],
            };
            let left = read(&[b"PTTL", &name]).int().expect("a time to live is a number");
            let now = BASE + i64::try_from(self.clock.load(Ordering::Relaxed) / 1_000_000).unwrap_or_default();
            Key { name, parts, end: (left >= 0).then_some(now + left) }
        };
        Data { keys: self.engine.keys().into_iter().map(key).collect() }
    }
}

/// The instant from which what ends with this millisecond is gone.
fn after(end: i64) -> Instant {
    Instant::from_nanos(u64::try_from(end + 1 - BASE).unwrap_or_default() * 1_000_000)
}

impl Data {
    /// The keys that are there at an instant.
    pub(super) fn keys(&self, now: Instant) -> impl Iterator<Item = &Key> {
        self.keys.iter().filter(move |key| key.end.is_none_or(|end| now < after(end)))
    }

    /// A key.
    pub(super) fn key(&self, now: Instant, name: &Bytes) -> Option<&Key> {
        self.keys(now).find(|key| key.name == *name)
    }

    /// The members of a sorted set of deadlines, with the instants from which they are over.
    pub(super) fn deadlines(&self, now: Instant, name: &Bytes) -> Vec<(Bytes, Instant)> {
        let parts = self.key(now, name).map(|key| key.parts.as_slice()).unwrap_or_default();
        let end = |text: &Bytes| std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
        parts.chunks_exact(2).map(|pair| (pair[0].clone(), after(end(&pair[1]).unwrap_or_default()))).collect()
    }

    /// The field of the one lock that begins with something, and its value.
    pub(super) fn fields(&self, now: Instant) -> Vec<(String, u32)> {
        let parts = self.key(now, lock().key()).map(|key| key.parts.as_slice()).unwrap_or_default();
        let count =
            |text: &Bytes| std::str::from_utf8(text).ok().and_then(|text| text.parse().ok()).unwrap_or_default();
        parts.chunks_exact(2).map(|pair| (text_of(&pair[0]), count(&pair[1]))).collect()
    }

    /// The next instant at which somebody's lease is over on the server.
    pub(super) fn next_end(&self, now: Instant) -> Option<Instant> {
        let is_lease = |key: &&Key| !key.name.starts_with(b"leasehold:") && !key.name.starts_with(b"redisson_lock_");
        let ends = self.keys.iter().filter(is_lease).filter_map(|key| key.end.map(after));
        let permits = self.deadlines(now, &lock().suffixed("timeout")).into_iter().map(|(_, end)| end);
        ends.chain(permits).filter(|end| *end > now).min()
    }
}

fn at_once<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("an embedded link does not wait"),
    }
}

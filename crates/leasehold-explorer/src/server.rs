//! The server's steps for each call in each of its states, carried out once and remembered.

use super::client::{Message, START, channel_of, lock, text_of};
use super::clients::Replies;
use super::names::{CLIENTS, Names};
use super::pool::{Quick, hash_of};
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
use std::time::Duration;

/// Wall time at the clock's zero, in milliseconds.
const BASE: i64 = 1_800_000_000_000;

/// No small world takes longer, in milliseconds, from the clock's zero on.
const SPAN: i64 = 100_000_000;

/// A key of the server.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub(crate) name: Bytes,
    /// Texts, or fields and values, or members and scores.
    pub(crate) parts: Vec<Bytes>,
    /// The last millisecond at which it is there.
    pub(crate) end: Option<i64>,
}

/// The server's content at an instant.
#[derive(Clone, Debug, Default)]
pub(crate) struct Data {
    keys: Vec<Key>,
    now: Instant,
}

/// Which clients are subscribed: scripts are told how many hear what they publish.
pub(crate) type Listening = [bool; CLIENTS];

/// The notices of a call that each client gets.
pub(crate) type Notices = [[Option<Message>; NOTICES]; CLIENTS];

/// No script of a small world publishes more.
const NOTICES: usize = 2;

/// A permutation of the clients: the number that each gets.
pub(crate) type Order = [u8; CLIENTS];

/// The inputs of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Step {
    /// A call of a client, by its number.
    Call { listening: Listening, client: u8, call: u32 },
    /// So many nanoseconds pass.
    Pass(u64),
}

/// A state of the server: how it was reached first, and what is in it.
struct Node {
    from: Option<(u32, Step)>,
    data: Rc<Data>,
}

/// The result of a call: the state after it, the number of its reply, and the notices.
pub(crate) type Turn = (u32, u32, Notices);

/// A script that is not what it should be: its name, and what is made of its text.
pub(crate) type Broken = (&'static str, fn(&str) -> String);

/// All states of the server that were met. The first has the number 0.
pub(crate) struct Servers {
    engine: EmbeddedServer,
    clock: Arc<AtomicU64>,
    names: Names,
    /// The connections for notices of the clients.
    links: Vec<EmbeddedLink>,
    /// Which of them are subscribed.
    listening: Listening,
    subject: Subject,
    broken: Option<Broken>,
    nodes: Vec<Node>,
    by_data: HashMap<u128, u32>,
    /// The calls that were carried out, by their numbers.
    calls: HashMap<u32, Call, Quick>,
    turns: HashMap<(u32, Step), Turn, Quick>,
    reordered: HashMap<(u32, Order), u32, Quick>,
    live: Option<u32>,
    /// Every name that a key ever had.
    keys: BTreeSet<Bytes>,
}

impl fmt::Debug for Servers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Servers").field("states", &self.nodes.len()).finish_non_exhaustive()
    }
}

impl Servers {
    pub(crate) fn new(subject: Subject, clients: usize, broken: Option<Broken>) -> Self {
        let clock = Arc::new(AtomicU64::new(0));
        let shown = clock.clone();
        let engine = EmbeddedServer::with_clock(ServerClock::from_fn(move || {
            Instant::from_nanos(shown.load(Ordering::Relaxed))
        }));
        let links = (0..clients).map(|_| engine.link()).collect();
        let mut servers = Self {
            engine,
            clock,
            names: Names::new(),
            links,
            listening: Listening::default(),
            subject,
            broken,
            nodes: Vec::new(),
            by_data: HashMap::new(),
            calls: HashMap::default(),
            turns: HashMap::default(),
            reordered: HashMap::default(),
            live: None,
            keys: BTreeSet::new(),
        };
        servers.begin_anew();
        let data = servers.data_now();
        servers.by_data.insert(data.hash(), 0);
        servers.nodes.push(Node { from: None, data: Rc::new(data) });
        servers
    }

    /// How many states there are.
    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    pub(crate) const fn names(&self) -> &Names {
        &self.names
    }

    /// The content of a state.
    pub(crate) fn data(&self, state: u32) -> &Rc<Data> {
        &self.nodes[state as usize].data
    }

    /// Carries out a call of a client in a state. `number` is that of the call.
    pub(crate) fn execute(
        &mut self,
        state: u32,
        listening: Listening,
        client: usize,
        (number, call): (u32, &Call),
        replies: &mut Replies,
    ) -> Turn {
        let step = Step::Call { listening, client: client as u8, call: number };
        if let Some(known) = self.turns.get(&(state, step)) {
            return *known;
        }
        self.calls.entry(number).or_insert_with(|| call.clone());
        self.step(state, step, replies)
    }

    /// Lets so many nanoseconds pass.
    pub(crate) fn pass(&mut self, state: u32, nanos: u64, replies: &mut Replies) -> u32 {
        let step = Step::Pass(nanos);
        if let Some(known) = self.turns.get(&(state, step)) {
            return known.0;
        }
        self.step(state, step, replies).0
    }

    /// The state in which every client is known by the number that it gets.
    pub(crate) fn reordered(&mut self, state: u32, order: Order, replies: &mut Replies) -> u32 {
        let Some((before, step)) = self.nodes[state as usize].from else { return state };
        if let Some(known) = self.reordered.get(&(state, order)) {
            return *known;
        }
        let before = self.reordered(before, order, replies);
        let step = match step {
            Step::Call { listening, client, call } => {
                let mut moved = Listening::default();
                order.iter().zip(listening).for_each(|(to, listens)| moved[usize::from(*to)] = listens);
                Step::Call { listening: moved, client: order[usize::from(client)], call }
            }
            Step::Pass(_) => step,
        };
        let next = match self.turns.get(&(before, step)) {
            Some(known) => known.0,
            None => self.step(before, step, replies).0,
        };
        self.reordered.insert((state, order), next);
        next
    }

    fn step(&mut self, state: u32, step: Step, replies: &mut Replies) -> Turn {
        self.bring_about(state);
        let (reply, notices) = self.carry_out(step);
        let data = self.data_now();
        let nodes = &mut self.nodes;
        let next = *self.by_data.entry(data.hash()).or_insert_with(|| {
            nodes.push(Node { from: Some((state, step)), data: Rc::new(data) });
            u32::try_from(nodes.len() - 1).expect("the server has few states")
        });
        self.live = Some(next);
        let text = format!("{reply:?}");
        let turn = (next, replies.number(Rc::new(reply), text), notices);
        self.turns.insert((state, step), turn);
        turn
    }

    /// Has the engine come to a state, by the steps on the way there.
    fn bring_about(&mut self, state: u32) {
        if self.live == Some(state) {
            return;
        }
        self.begin_anew();
        let mut way = Vec::new();
        let mut at = state;
        while let Some((before, step)) = self.nodes[at as usize].from {
            way.push(step);
            at = before;
        }
        for step in way.into_iter().rev() {
            let _reply = self.carry_out(step);
        }
    }

    fn carry_out(&mut self, step: Step) -> (Result<Reply, ServerError>, Notices) {
        let outcome = match step {
            Step::Pass(nanos) => {
                self.clock.fetch_add(nanos, Ordering::Relaxed);
                (Ok(Reply::Nil), Notices::default())
            }
            Step::Call { listening, client, call } => {
                let client = usize::from(client);
                let call = self.names.of_client(&self.calls[&call], client);
                let (reply, notices) = self.run(listening, &call);
                (reply.map(|reply| timeless(self.names.for_anybody(reply, client))), notices)
            }
        };
        self.keys.extend(self.engine.keys());
        // The engine keeps ended keys until they are asked for. If the clock goes back, to another way that things can go, it must not come
        // back to life.
        for name in &self.keys {
            self.engine.command(&[b"EXISTS", name]).expect("a key can be asked for");
        }
        outcome
    }

    fn begin_anew(&self) {
        self.clock.store(START.as_nanos(), Ordering::Relaxed);
        for key in self.engine.keys() {
            self.engine.command(&[b"DEL", &key]).expect("a key can be deleted");
        }
        if self.subject == Subject::Permits {
            let capacity = CAPACITY.to_string();
            self.engine.command(&[b"SET", lock().key(), capacity.as_bytes()]).expect("a counter can be set");
        }
    }

    fn run(&mut self, listening: Listening, call: &Call) -> (Result<Reply, ServerError>, Notices) {
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
                self.engine.eval(&change(script.source()), &call.keys().to_vec(), &call.args().to_vec())
            }
            _ => self.engine.execute(call),
        };
        let mut notices = Notices::default();
        for (client, link) in self.links.iter().enumerate() {
            while let Poll::Ready(Some(event)) = pin!(link.event()).poll(&mut Context::from_waker(Waker::noop())) {
                let message = match event {
                    LinkEvent::Notice { .. } | LinkEvent::Offered { .. } => Message::Released,
                    LinkEvent::Wanted { .. } => Message::Wanted,
                    _ => continue,
                };
                let free = notices[client].iter_mut().find(|notice| notice.is_none());
                *free.expect("a call has few notices") = Some(message);
            }
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
            let now = wall(Instant::from_nanos(self.clock.load(Ordering::Relaxed)));
            Key { name, parts, end: (left >= 0).then_some(now + left) }
        };
        let now = Instant::from_nanos(self.clock.load(Ordering::Relaxed));
        Data { keys: self.engine.keys().into_iter().map(key).collect(), now }
    }
}

/// The instant from which what ends with this millisecond is gone.
fn after(end: i64) -> Instant {
    Instant::from_nanos(u64::try_from(end + 1 - BASE).unwrap_or_default() * 1_000_000)
}

/// The wall time at an instant, in milliseconds.
fn wall(now: Instant) -> i64 {
    BASE + i64::try_from(now.as_nanos() / 1_000_000).unwrap_or_default()
}

/// A reply without the server's time, which is of no use to these clients.
fn timeless(reply: Reply) -> Reply {
    match reply {
        Reply::Int(time) if (BASE..BASE + SPAN).contains(&time) => Reply::Int(BASE),
        Reply::Array(parts) => Reply::Array(parts.into_iter().map(timeless).collect()),
        other => other,
    }
}

/// A text of the server, with the times in it told from the present.
fn told_from(now: i64, text: &[u8]) -> Vec<u8> {
    let mut told = Vec::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let number: Option<i64> = std::str::from_utf8(&rest[..digits]).ok().and_then(|text| text.parse().ok());
        match number.filter(|time| digits == 13 && (BASE..BASE + SPAN).contains(time)) {
            Some(time) => told.extend_from_slice(format!("{:+}", time - now).as_bytes()),
            None => told.extend_from_slice(&rest[..digits.max(1)]),
        }
        rest = &rest[digits.max(1)..];
    }
    told
}

impl Data {
    /// A hash of what there is, told from the present, and of the place of the present in its millisecond.
    pub(crate) fn hash(&self) -> u128 {
        let now = wall(self.now);
        let told = |key: &Key| {
            let parts: Vec<_> = key.parts.iter().map(|part| told_from(now, part)).collect();
            (key.name.clone(), parts, key.end.map(|end| end - now))
        };
        hash_of(&(self.now.as_nanos() % 1_000_000, self.keys.iter().map(told).collect::<Vec<_>>()))
    }

    /// The keys that are there, and will be after some time.
    pub(crate) fn keys(&self, later: Duration) -> impl Iterator<Item = &Key> {
        let at = self.now + later;
        self.keys.iter().filter(move |key| key.end.is_none_or(|end| at < after(end)))
    }

    /// A key.
    pub(crate) fn key(&self, name: &[u8]) -> Option<&Key> {
        self.keys.iter().find(|key| key.name == *name)
    }

    /// The members of a sorted set of deadlines, with the instants from which they are over.
    fn deadlines(&self, name: &Bytes) -> impl Iterator<Item = Instant> {
        let parts = self.key(name).map(|key| key.parts.as_slice()).unwrap_or_default();
        let end = |text: &Bytes| std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
        parts.chunks_exact(2).map(move |pair| after(end(&pair[1]).unwrap_or_default()))
    }

    /// How many permits are held, those included that have expired and have not been given back.
    pub(crate) fn permits(&self) -> usize {
        self.deadlines(&lock().suffixed("timeout")).count()
    }

    /// Whether a permit is held, and will be after some time.
    pub(crate) fn has_permits(&self, later: Duration) -> bool {
        self.deadlines(&lock().suffixed("timeout")).any(|end| end > self.now + later)
    }

    /// The fields of the one lock, and their values.
    pub(crate) fn fields(&self) -> Vec<(String, u32)> {
        let parts = self.key(lock().key()).map(|key| key.parts.as_slice()).unwrap_or_default();
        let count =
            |text: &Bytes| std::str::from_utf8(text).ok().and_then(|text| text.parse().ok()).unwrap_or_default();
        parts.chunks_exact(2).map(|pair| (text_of(&pair[0]), count(&pair[1]))).collect()
    }

    /// How long it takes until a lease is over on the server.
    pub(crate) fn next_end(&self) -> Option<Duration> {
        let is_lease = |key: &&Key| !key.name.starts_with(b"leasehold:") && !key.name.starts_with(b"redisson_lock_");
        let ends = self.keys.iter().filter(is_lease).filter_map(|key| key.end.map(after));
        let name = lock().suffixed("timeout");
        let permits = self.deadlines(&name);
        ends.chain(permits).filter(|end| *end > self.now).min().map(|end| end.since(self.now))
    }
}

fn at_once<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("an embedded link does not wait"),
    }
}

//! The embedded engine and a server, side by side, on clocks that show the same.

use crate::eval::{eval, reply};
use crate::history::History;
use crate::same::{Answer, Difference, Strictness};
use crate::step::Step;
use crate::values::BEGINNING;
use bytes::Bytes;
use leasehold_core::link::{Link, ServerError};
use leasehold_core::reply::Reply;
use leasehold_embedded::{EmbeddedLink, EmbeddedServer, ManualClock};
use leasehold_test_support::{Binary, Connection, Flavor, Resp, Server, WallClock};
use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// All that the keys hold: for each its name, type, time to live and content.
const DUMP: &str = r"
local dump = {}
for i, key in ipairs(redis.call('KEYS', '*')) do
  local kind = redis.call('TYPE', key).ok
  local content
  if kind == 'string' then
    content = redis.call('GET', key)
  elseif kind == 'hash' then
    content = redis.call('HGETALL', key)
  elseif kind == 'list' then
    content = redis.call('LRANGE', key, 0, -1)
  else
    content = redis.call('ZRANGE', key, 0, -1, 'WITHSCORES')
  end
  dump[i] = {key, kind, redis.call('PTTL', key), content}
end
return dump";

/// Gives what a command answers to `redis.pcall`. A status is a table with the field `ok`, and is given as it is.
const INSIDE: &str = "return redis.pcall(unpack(ARGV))";

const FORGET: &str = "for _, key in ipairs(redis.call('KEYS', '*')) do redis.call('DEL', key) end";

/// Both, and where their clocks stand.
pub(crate) struct Pair {
    real: Real,
    strictness: Strictness,
    sharded: bool,
    flaw: Option<Flaw>,
    /// How often a step came to what: the code of a refusal, a reply, or a message.
    pub(crate) tally: BTreeMap<String, usize>,
}

/// Something that the embedded engine is made to do wrong, to see that it is noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flaw {
    /// The code of a reply is one more.
    Reply,
    /// A refusal has another code.
    Refusal,
    /// A key lives a millisecond longer.
    TimeToLive,
    /// An element of a list is missing.
    Content,
    /// A key is missing.
    Key,
    /// A message is not sent.
    Message,
}

impl Flaw {
    pub(crate) const ALL: [Self; 6] =
        [Self::Reply, Self::Refusal, Self::TimeToLive, Self::Content, Self::Key, Self::Message];
}

struct Real {
    server: Server,
    clock: Arc<WallClock>,
    connection: Connection,
    ear: Connection,
}

struct Embedded {
    server: EmbeddedServer,
    clock: ManualClock,
    /// Keeps the subscriptions.
    _link: EmbeddedLink,
}

impl Pair {
    #[track_caller]
    pub(crate) fn start(binary: &Binary) -> Self {
        let clock = Arc::new(WallClock::at_micros(BEGINNING * 1_000));
        let server = Server::builder().binary(binary).clock(&clock).start();
        let connect = || server.connect().expect("the server is up");
        let (connection, ear) = (connect(), connect());
        let modern = binary.flavor == Flavor::Valkey || binary.version.major >= 7;
        let strictness = match binary.flavor {
            Flavor::Redis if binary.version.major == 7 && binary.version.minor == 0 => Strictness::Texts,
            _ if modern => Strictness::Codes,
            _ => Strictness::WrappedCodes,
        };
        Self {
            real: Real { server, clock, connection, ear },
            strictness,
            sharded: modern,
            flaw: None,
            tally: BTreeMap::new(),
        }
    }

    /// Whether the server knows `SPUBLISH`.
    pub(crate) fn knows_sharded(&self) -> bool {
        self.sharded
    }

    pub(crate) fn set_flaw(&mut self, flaw: Option<Flaw>) {
        self.flaw = flaw;
    }

    /// Runs a history on both, from empty servers; gives the first difference.
    pub(crate) fn run(&mut self, history: &History) -> Option<Difference> {
        let embedded = Embedded::new(&history.listened);
        let mut micros = BEGINNING * 1_000;
        self.real.begin(&history.listened);
        let mut seen = BTreeSet::from([Bytes::from("a")]);
        for (at, step) in history.steps.iter().enumerate() {
            if matches!(step, Step::Clock(..0)) {
                // A key that has expired is removed by the next look, and could come to life again before. Here it is removed.
                let words: Vec<_> = [Bytes::from("EXISTS")].into_iter().chain(seen.iter().cloned()).collect();
                let slices: Vec<&[u8]> = words.iter().map(AsRef::as_ref).collect();
                assert_eq!(text(embedded.server.command(&slices)), reply(self.real.command(&slices)), "step {at}");
            }
            let passed = embedded.pass(step);
            let (ours, theirs) = match step {
                Step::Script(call) => {
                    let theirs = self.real.eval(call.script().source(), &call.keys().to_vec(), &call.args().to_vec());
                    (text(embedded.server.execute(call)), theirs)
                }
                Step::Command(words) => {
                    let slices: Vec<&[u8]> = words.iter().map(AsRef::as_ref).collect();
                    (text(embedded.server.command(&slices)), reply(self.real.command(&slices)))
                }
                Step::Inside(words) => {
                    (text(embedded.server.eval(INSIDE, &[], words)), self.real.eval(INSIDE, &[], words))
                }
                Step::Memory(full) => {
                    embedded.server.deny_growth(*full);
                    self.real.set_full(*full);
                    continue;
                }
                Step::Clock(_) | Step::Moment(_) | Step::Expiry(..) => {
                    micros += passed;
                    self.real.clock.set_micros(micros);
                    continue;
                }
            };
            let mut ours = Answer::new(ours, embedded.server.take_messages(), embedded.dump());
            let theirs = Answer::new(theirs, self.real.messages(), self.real.dump());
            ours.count(&mut self.tally);
            seen.extend(theirs.names().cloned());
            if let Some(flaw) = self.flaw {
                ours.spoil(flaw);
            }
            if let Some(difference) = ours.difference(&theirs, self.strictness, at) {
                return Some(difference);
            }
        }
        None
    }
}

impl Embedded {
    fn new(listened: &[Bytes]) -> Self {
        let clock = ManualClock::new();
        let server = EmbeddedServer::with_clock(clock.clone());
        let link = server.link();
        for channel in listened {
            let subscribed = pin!(link.subscribe(channel.clone())).poll(&mut Context::from_waker(Waker::noop()));
            assert!(matches!(subscribed, Poll::Ready(Ok(()))), "the link is up");
        }
        // The first look starts the log.
        server.take_messages();
        Self { server, clock, _link: link }
    }

    /// Lets time pass, where the step says so; gives the microseconds.
    fn pass(&self, step: &Step) -> i64 {
        let millis = match step {
            Step::Clock(millis) => *millis,
            Step::Moment(moment) => {
                self.clock.advance(*moment);
                return i64::try_from(moment.as_micros()).expect("it is a moment");
            }
            Step::Expiry(which, further) => {
                let keys = self.server.keys().into_iter();
                let left = keys.filter_map(|key| self.server.command(&[b"PTTL", &key]).ok()?.int().ok());
                // Beyond a day the times would leave everything else behind.
                let left: Vec<_> = left.filter(|left| (0..86_400_000).contains(left)).collect();
                left.get(which % left.len().max(1)).map_or(0, |left| left + further)
            }
            Step::Script(_) | Step::Command(_) | Step::Inside(_) | Step::Memory(_) => return 0,
        };
        self.server.step_clock(millis);
        millis * 1_000
    }

    fn dump(&self) -> Reply {
        self.server.eval(DUMP, &[], &[]).unwrap_or_else(|error| panic!("the keys can be read: {error}"))
    }
}

impl Real {
    /// Empties the server, sets its clock back, and listens.
    fn begin(&mut self, listened: &[Bytes]) {
        self.set_full(false);
        // At the beginning of time nothing has expired, and so everything can be seen.
        self.clock.set_micros(0);
        self.eval(FORGET, &[], &[]).expect("keys can be deleted");
        self.clock.set_micros(BEGINNING * 1_000);
        for words in [vec![Bytes::from("UNSUBSCRIBE")], [&[Bytes::from("SUBSCRIBE")], listened].concat()] {
            if words != ["SUBSCRIBE"] {
                self.ear.send(&words).expect("the server is up");
            }
            self.messages();
        }
    }

    fn set_full(&mut self, full: bool) {
        let set = self.command(&["CONFIG", "SET", "maxmemory", if full { "1" } else { "0" }]);
        assert_eq!(set.as_str(), Some("OK"));
    }

    fn command<A: AsRef<[u8]>>(&mut self, words: &[A]) -> Resp {
        self.connection.command(words).unwrap_or_else(|error| {
            let words: Vec<_> = words.iter().map(|word| String::from_utf8_lossy(word.as_ref())).collect();
            panic!("{:?} did not answer: {error}\n{words:?}", self.server)
        })
    }

    fn eval(&mut self, source: &str, keys: &[Bytes], args: &[Bytes]) -> Result<Reply, String> {
        reply(self.command(&eval(source, keys, args)))
    }

    /// The messages heard since the last look. A server answers in order, so all that was published before comes first.
    fn messages(&mut self) -> Vec<(Bytes, Bytes)> {
        let mut heard = Vec::new();
        self.ear.send(&["PING"]).expect("the server is up");
        loop {
            let frame = self.ear.receive().expect("the server is up");
            match frame.elements() {
                [kind, channel, text] if kind.as_str() == Some("message") => {
                    let bytes = |part: &Resp| Bytes::copy_from_slice(part.as_bytes().unwrap_or_default());
                    heard.push((bytes(channel), bytes(text)));
                }
                [kind, ..] if kind.as_str() != Some("pong") => {}
                _ => return heard,
            }
        }
    }

    fn dump(&mut self) -> Reply {
        self.eval(DUMP, &[], &[]).unwrap_or_else(|error| panic!("the keys can be read: {error}"))
    }
}

fn text(outcome: Result<Reply, ServerError>) -> Result<Reply, String> {
    outcome.map_err(|error| error.text().to_owned())
}

//! The writes of each kind: keys, types, fields, times to live and messages, as `layout-1.txt` has them.
//!
//! A script that changes it needs a decision about the number of the layout, which `docs/wire-protocol.md` describes. After that
//! decision, `LEASEHOLD_LAYOUT=write` writes the file anew.

use bytes::Bytes;
use leasehold_core::call::Call;
use leasehold_core::command::record::ClientRecord;
use leasehold_core::command::store::Claim;
use leasehold_core::command::{Ask, Give, HoldKey, Kind, Renewal, fair, latch, permits, record, semaphore, store};
use leasehold_core::link::Link;
use leasehold_core::name::LockName;
use leasehold_core::owner::ClientId;
use leasehold_core::reply::Reply;
use leasehold_core::settings::Settings;
use leasehold_embedded::{EmbeddedLink, EmbeddedServer, ManualClock};
use std::fmt::Write;
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use uuid::Uuid;

/// The number of the layout, which stands in the names of our own keys.
const LAYOUT: u32 = 1;
const WRITTEN: &str = include_str!("layout-1.txt");
const LEASE: Duration = Duration::from_secs(30);

/// A server, and what was seen of it.
struct Chronicle {
    server: EmbeddedServer,
    clock: ManualClock,
    name: LockName,
    settings: Settings,
    text: String,
    operations: u32,
}

impl Chronicle {
    /// Starts a chapter on an empty server. The link keeps the subscriptions.
    fn chapter(&mut self, title: &str, channels: &[Bytes]) -> EmbeddedLink {
        self.clock = ManualClock::new();
        self.server = EmbeddedServer::with_clock(self.clock.clone());
        self.server.take_messages();
        let link = self.server.link();
        for channel in channels {
            let subscribed = pin!(link.subscribe(channel.clone())).poll(&mut Context::from_waker(Waker::noop()));
            assert!(matches!(subscribed, Poll::Ready(Ok(()))), "the link is up");
        }
        writeln!(self.text, "\n# {title}").expect("a text grows");
        link
    }

    /// Runs a call, and writes down what the keys hold afterwards and what was said.
    fn run(&mut self, call: &Call) {
        let reply = self.server.execute(call).unwrap_or_else(|error| panic!("{}: {error}", call.script().name()));
        writeln!(self.text, "{} answers {}", call.script().name(), shown(&reply)).expect("a text grows");
        for (channel, said) in self.server.take_messages() {
            writeln!(self.text, "    says {} on {}", told(&said), told(&channel)).expect("a text grows");
        }
        for key in self.server.keys() {
            let ask = |words: &[&[u8]]| self.server.command(words).expect("it can be read");
            let kind = ask(&[b"TYPE", &key]);
            let content = match kind.text() {
                Ok("string") => ask(&[b"GET", &key]),
                Ok("hash") => ask(&[b"HGETALL", &key]),
                Ok("list") => ask(&[b"LRANGE", &key, b"0", b"-1"]),
                _ => ask(&[b"ZRANGE", &key, b"0", b"-1", b"WITHSCORES"]),
            };
            let left = match ask(&[b"PTTL", &key]) {
                Reply::Int(-1) => "stays".to_owned(),
                other => format!("lives {} ms", shown(&other)),
            };
            let kind = kind.text().expect("a type is a word");
            writeln!(self.text, "    {} is a {kind} {}, {left}", told(&key), shown(&content)).expect("a text grows");
            let ours = key.strip_prefix(b"leasehold:".as_slice());
            assert!(
                ours.is_none_or(|rest| rest.starts_with(format!("{LAYOUT}:").as_bytes())),
                "{} carries another number than {LAYOUT}",
                told(&key)
            );
        }
    }

    /// The id of an operation.
    fn operation(&mut self) -> Bytes {
        self.operations += 1;
        Bytes::from(format!("{}:op{}", client(), self.operations))
    }

    fn pass(&mut self, millis: u64) {
        self.clock.advance(Duration::from_millis(millis));
    }
}

fn client() -> ClientId {
    ClientId::new(Uuid::from_u128(7))
}

fn hold(number: u32, kind: Kind) -> HoldKey {
    HoldKey { field: Bytes::from(format!("{}:{number}", client())), permits: if kind == Kind::Permits { 2 } else { 1 } }
}

/// One client holds twice, another comes, the first renews and leaves, and the second gets in.
fn life(chronicle: &mut Chronicle, kind: Kind) {
    let verbs = kind.verbs();
    let (name, settings) = (chronicle.name.clone(), chronicle.settings.clone());
    let keys = verbs.keys(&name, &client());
    let channels: Vec<Bytes> = keys.channel.iter().cloned().collect();
    let _link = chronicle.chapter(&format!("{kind:?}"), &channels);
    if kind == Kind::Semaphore {
        let operation = chronicle.operation();
        chronicle.run(&semaphore::set(&name, 1, None, &operation, &settings.publish));
    } else if kind == Kind::Permits {
        let operation = chronicle.operation();
        chronicle.run(&permits::set(&name, 3, &operation, &settings.publish));
    }
    let (first, second) = (hold(1, kind), hold(2, kind));
    let ask = |hold: &HoldKey, count: u32| {
        verbs.acquire(&Ask {
            name: &name,
            keys: &keys,
            hold,
            beside: None,
            count,
            lease: LEASE,
            not_after: None,
            waits: true,
            placed: false,
            prefer_writers: Some(Duration::from_secs(2)),
            settings: &settings,
        })
    };
    let give = |hold: &HoldKey, count: u32, granted: bool| {
        verbs.release(&Give { name: &name, keys: &keys, hold, count, granted, settings: &settings })
    };
    chronicle.run(&ask(&first, 1));
    if verbs.reenters() {
        chronicle.run(&ask(&first, 2));
    }
    chronicle.pass(100);
    chronicle.run(&ask(&second, 1));
    if kind == Kind::Fair {
        chronicle.run(&fair::beat(&name, &keys, &client(), Some(&second.field), &settings));
    }
    if let Some(script) = verbs.renewal() {
        let mut renewal = Renewal { publish: settings.publish.clone(), ..Renewal::default() };
        verbs.renew(&mut renewal, &name, &keys, &first, LEASE);
        chronicle.run(&Call::new(script, renewal.keys, renewal.args));
    }
    if verbs.reenters() {
        chronicle.run(&give(&first, 1, true));
    }
    chronicle.run(&give(&first, 0, true));
    chronicle.run(&ask(&second, 1));
    chronicle.run(&give(&second, 0, true));
}

fn operations(chronicle: &mut Chronicle) {
    let (name, publish) = (chronicle.name.clone(), chronicle.settings.publish.clone());
    let semaphore_channel = Kind::Semaphore.verbs().keys(&name, &client()).channel;
    let _link = chronicle.chapter("operations of counters", semaphore_channel.as_slice());
    for number in 0..4 {
        let id = chronicle.operation();
        chronicle.run(&match number {
            0 => semaphore::set(&name, 4, Some(LEASE), &id, &publish),
            1 => semaphore::add(&name, -1, &id, &publish),
            2 => permits::resize(&name, 5, &id, &publish),
            _ => semaphore::drain(&name, &id),
        });
    }
    let latch_channel = Kind::Latch.verbs().keys(&name, &client()).channel;
    let _link = chronicle.chapter("latch", latch_channel.as_slice());
    for number in 0..4 {
        let id = chronicle.operation();
        chronicle.run(&match number {
            0 => latch::set(&name, 2, &id, &publish),
            1 | 2 => latch::count_down(&name, 1, &id, &publish),
            _ => latch::delete(&name, &id, &publish),
        });
    }
    let _link = chronicle.chapter("records and stores", &[]);
    let record =
        ClientRecord { host: "web-3".into(), pid: 4711, application: "orders".into(), since: 1_800_000_000_000 };
    chronicle.run(&record::put(&client(), &record, LEASE));
    let owner = hold(1, Kind::Fenced).field;
    let claim = Claim { token: 34, owner: &owner, keep: None };
    chronicle.run(&store::read(&name, &claim));
    chronicle.run(&store::write(&name, &claim, 1, Bytes::from("90"), None));
    chronicle.run(&store::check(&name, &Claim { token: 35, owner: &owner, keep: Some(LEASE) }));
}

#[test]
fn what_every_kind_writes_is_written_down() {
    let clock = ManualClock::new();
    let mut chronicle = Chronicle {
        server: EmbeddedServer::with_clock(clock.clone()),
        clock,
        name: LockName::new("", "stock").expect("the name is valid"),
        settings: Settings::default(),
        text: format!("layout {LAYOUT}\n"),
        operations: 0,
    };
    for kind in Kind::ALL {
        // A latch is not held. Its writes come with its operations.
        if kind != Kind::Latch {
            life(&mut chronicle, kind);
        }
    }
    operations(&mut chronicle);
    if std::env::var("LEASEHOLD_LAYOUT").is_ok_and(|word| word == "write") {
        let path = format!("{}/tests/rolling/layout-{LAYOUT}.txt", env!("CARGO_MANIFEST_DIR"));
        std::fs::write(&path, &chronicle.text).unwrap_or_else(|error| panic!("{path}: {error}"));
        return;
    }
    for (line, (found, written)) in chronicle.text.lines().zip(WRITTEN.lines()).enumerate() {
        assert_eq!(
            found,
            written,
            "line {} of tests/rolling/layout-{LAYOUT}.txt: what stands on the server, or what is answered, has changed. \
             docs/wire-protocol.md, \"Layout versions\", says what to decide",
            line + 1
        );
    }
    assert_eq!(chronicle.text.lines().count(), WRITTEN.lines().count(), "as many lines as were written down");
}

/// A reply as a header writes it.
fn shown(reply: &Reply) -> String {
    match reply {
        Reply::Int(number) => number.to_string(),
        Reply::Bulk(text) => told(text),
        Reply::Array(parts) => format!("{{{}}}", parts.iter().map(shown).collect::<Vec<_>>().join(", ")),
        other => format!("{other:?}"),
    }
}

/// Text as it is, other bytes in hexadecimal; the client's id is short.
fn told(bytes: &[u8]) -> String {
    let readable = bytes.iter().all(|byte| byte.is_ascii_graphic() || *byte == b' ');
    let text = match std::str::from_utf8(bytes) {
        Ok(text) if readable => text.to_owned(),
        _ => bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
    };
    format!("\"{}\"", text.replace(&client().to_string(), "6f0c"))
}

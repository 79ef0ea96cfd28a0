//! A link connects to servers that send arbitrary replies, on an in-memory network and a paused clock.
//!
//! A server replies as real servers do, and the test then spoils its replies. They are cut, mutated, swapped, delayed,
//! or followed by unsolicited bytes, silence or the end. In every case connecting ends in time, with a link or an
//! error. A call on the link ends too.
//!
//! `LEASEHOLD_SEEDS=n` runs n servers instead of the usual number, and `LEASEHOLD_SEED=s` a single one.

use super::super::network::Network;
use super::memory::{End, Memory};
use super::*;
use fastrand::Rng;
use parking_lot::Mutex;
use std::cell::Cell;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Once};

/// The ports of the servers. Servers also announce ports without a server.
const PORTS: std::ops::Range<u16> = 7_000..7_003;

const DEADLINE: Duration = Duration::from_secs(5);

/// The time limit for connecting: the deadline of each part, and the probes after a failure.
const LONGEST: Duration = Duration::from_secs(5 + 5 + 4);

/// The maximum number of connections by then. A client that spins exceeds it.
const CONNECTIONS: usize = 2_000;

/// The bytes of a flood. They exceed the limit of a reply, even without line ends.
const FLOOD: usize = 160 * 1024 * 1024;

const URLS: [&str; 5] = [
    "redis://127.0.0.1:7000",
    "redis://me:secret@127.0.0.1:7000/3",
    "redis://:secret@127.0.0.1:7000?protocol=resp2",
    "redis-cluster://:secret@127.0.0.1:7000?node=127.0.0.1:7001",
    "redis-sentinel://127.0.0.1:7000?sentinelServiceName=main&sentinelPassword=secret&node=127.0.0.1:7001",
];

/// Refusals, known and unknown to the client.
const REFUSALS: [&str; 18] = [
    "ERR unknown command 'HELLO', with args beginning with: '3' ",
    "NOPROTO unsupported protocol version",
    "NOAUTH Authentication required.",
    "WRONGPASS invalid username-password pair or user is disabled.",
    "NOPERM this user has no permissions to run the 'client|id' command",
    "LOADING Redis is loading the dataset in memory",
    "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
    "BUSY Redis is busy running a script.",
    "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.",
    "DENIED Redis is running in protected mode",
    "ERR max number of clients reached",
    "ERR DB index is out of range",
    "ERR This instance has cluster support disabled",
    "READONLY You can't write against a read only replica.",
    "MOVED 3999 127.0.0.1:7001",
    "ASK 3999 127.0.0.1:7002",
    "NOSCRIPT No matching script.",
    "",
];

/// Replies to other commands, other protocols, and garbage.
const OTHERS: [&[u8]; 30] = [
    b"+OK\r\n",
    b"+\r\n",
    b":0\r\n",
    b":-1\r\n",
    b":9223372036854775807\r\n",
    b"$-1\r\n",
    b"*-1\r\n",
    b"_\r\n",
    b"#t\r\n",
    b",nan\r\n",
    b"*0\r\n",
    b"%0\r\n",
    b"~1\r\n+a\r\n",
    b"|1\r\n+a\r\n+b\r\n",
    b"|0\r\n",
    b"$0\r\n\r\n",
    b"!5\r\nERR x\r\n",
    b"=6\r\ntxt:ab\r\n",
    b">2\r\n+invalidate\r\n_\r\n",
    b">3\r\n+message\r\n+c\r\n+0\r\n",
    b"*3\r\n+message\r\n+c\r\n+0\r\n",
    b">3\r\n+subscribe\r\n+c\r\n:1\r\n",
    b"*1000000000\r\n",
    b"$536870912\r\n",
    b"$60000000\r\n",
    b"*1\r\n",
    b"HTTP/1.1 400 Bad Request\r\n\r\n",
    b"\x15\x03\x01\x00\x02\x02\x46",
    b"\x00\xff\xfe",
    b"",
];

thread_local! {
    static PANICKED: Cell<bool> = const { Cell::new(false) };
}

/// Records panics of this thread, including panics that tokio catches in a task.
fn note_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            PANICKED.set(true);
            before(info);
        }));
    });
    PANICKED.set(false);
}

/// The servers of one seed.
struct Peers {
    rng: Mutex<Rng>,
    /// The number of spoiled replies in a thousand.
    spoiled: u16,
    /// After this many spoiled replies all replies are valid.
    left: AtomicUsize,
    floods: AtomicUsize,
    connections: AtomicUsize,
}

/// What follows the bytes of a reply.
enum After {
    More,
    Silence,
    End,
    /// These bytes, repeatedly.
    Flood(Vec<u8>),
}

impl Peers {
    fn start(seed: u64, network: &Arc<Memory>) -> Arc<Self> {
        let mut rng = Rng::with_seed(seed);
        let peers = Arc::new(Self {
            spoiled: [30, 100, 300, 1_000][rng.usize(..4)],
            left: AtomicUsize::new([1, 1, 2, 4, usize::MAX][rng.usize(..5)]),
            floods: AtomicUsize::new(usize::from(rng.u8(..64) == 0)),
            connections: AtomicUsize::new(0),
            rng: Mutex::new(rng),
        });
        for port in PORTS {
            let mut accepted = network.listen(SocketAddr::from(([127, 0, 0, 1], port)));
            let peers = Arc::clone(&peers);
            drop(tokio::spawn(async move {
                while let Some(end) = accepted.recv().await {
                    let made = peers.connections.fetch_add(1, Ordering::Relaxed);
                    assert!(made < CONNECTIONS, "the client spins");
                    drop(tokio::spawn(Arc::clone(&peers).serve(port, end)));
                }
            }));
        }
        peers
    }

    async fn serve(self: Arc<Self>, port: u16, end: End) {
        let mut rng = self.rng.lock().fork();
        let mut requests = Vec::new();
        while end.read_more(&mut requests).await {
            // A client that could not connect asks whether the server speaks TLS.
            if requests.first() == Some(&0x16) {
                drop(end.write_all(OTHERS[rng.usize(..OTHERS.len())]).await);
                return;
            }
            while let Some(request) = leasehold_test_support::take_request(&mut requests) {
                let mut reply = answer(&mut rng, port, &request);
                let after = self.spoil(&mut rng, &mut reply);
                if rng.u8(..8) == 0 {
                    tokio::time::sleep(Duration::from_millis(rng.u64(..700))).await;
                }
                if end.write_all(&reply).await.is_err() {
                    return;
                }
                match after {
                    After::More => {}
                    After::End => return end.cut(),
                    After::Silence => while end.read_more(&mut Vec::new()).await {},
                    After::Flood(bytes) => {
                        for _ in 0..FLOOD / bytes.len() {
                            if end.write_all(&bytes).await.is_err() {
                                return;
                            }
                        }
                        // The client reads pushes while it waits for a reply. No time passes here.
                        let is_kept = bytes.first() != Some(&b'>');
                        assert!(!is_kept, "what is read has no end: {}", bytes[..bytes.len().min(40)].escape_ascii());
                        while end.read_more(&mut Vec::new()).await {}
                    }
                }
            }
        }
    }

    /// Spoils a reply, as the seed chooses.
    fn spoil(&self, rng: &mut Rng, reply: &mut Vec<u8>) -> After {
        if rng.u16(..1_000) >= self.spoiled || self.left.load(Ordering::Relaxed) == 0 {
            return After::More;
        }
        self.left.fetch_sub(1, Ordering::Relaxed);
        let mut after = After::More;
        for _ in 0..rng.u8(1..4) {
            let at = rng.usize(..=reply.len());
            match rng.u8(..14) {
                0 => *reply = format!("-{}\r\n", REFUSALS[rng.usize(..REFUSALS.len())]).into_bytes(),
                1 => *reply = OTHERS[rng.usize(..OTHERS.len())].to_vec(),
                2 => reply.splice(at..at, OTHERS[rng.usize(..OTHERS.len())].iter().copied()).for_each(drop),
                3 => reply.extend_from_slice(OTHERS[rng.usize(..OTHERS.len())]),
                4 => reply.insert(at, rng.u8(..)),
                5 if at < reply.len() => drop(reply.remove(at)),
                6 if at < reply.len() => reply[at] = rng.u8(..),
                7 if at < reply.len() => reply[at] ^= 1 << rng.u8(..8),
                8 => digit(rng, reply),
                9 => reply.truncate(at),
                10 => after = After::End,
                11 => {
                    reply.truncate(at);
                    after = After::End;
                }
                12 => after = After::Silence,
                _ => {
                    let other = words(["HELLO", "CLIENT", "PING", "INFO", "CLUSTER", "SENTINEL"][rng.usize(..6)]);
                    *reply = answer(rng, 7_000, &other);
                }
            }
        }
        let floods = self.floods.load(Ordering::Relaxed);
        if floods > 0 {
            self.floods.store(0, Ordering::Relaxed);
            let one = match rng.u8(..3) {
                0 => OTHERS[rng.usize(..OTHERS.len())].to_vec(),
                1 => reply.clone(),
                _ => (0..rng.usize(1..20)).map(|_| rng.u8(..)).collect(),
            };
            if !one.is_empty() {
                after = After::Flood(one.repeat(1 + 4_096 / one.len()));
            }
        }
        after
    }
}

/// Replaces a digit by another digit or a longer number.
fn digit(rng: &mut Rng, reply: &mut Vec<u8>) {
    let digits: Vec<_> = (0..reply.len()).filter(|at| reply[*at].is_ascii_digit()).collect();
    if digits.is_empty() {
        return;
    }
    let at = digits[rng.usize(..digits.len())];
    let number = match rng.u8(..4) {
        0 => "-1".to_owned(),
        1 => rng.u32(..100_000).to_string(),
        2 => rng.u64(..).to_string(),
        _ => rng.u8(..10).to_string(),
    };
    reply.splice(at..=at, number.into_bytes());
}

fn words(word: &str) -> Vec<Vec<u8>> {
    vec![word.as_bytes().to_vec()]
}

fn bulk(text: &str) -> String {
    format!("${}\r\n{text}\r\n", text.len())
}

/// A reply of a server, in one of the forms of real servers.
fn answer(rng: &mut Rng, port: u16, request: &[Vec<u8>]) -> Vec<u8> {
    let word =
        |at: usize| request.get(at).map(|word| String::from_utf8_lossy(word).to_ascii_uppercase()).unwrap_or_default();
    let id = rng.u16(1..500);
    match (word(0).as_str(), word(1).as_str()) {
        ("HELLO", _) => format!(
            "%7\r\n{}{}{}{}{}:3\r\n{}:{id}\r\n{}{}{}{}{}*0\r\n",
            bulk("server"),
            bulk("redis"),
            bulk("version"),
            bulk("7.4.0"),
            bulk("proto"),
            bulk("id"),
            bulk("mode"),
            bulk("standalone"),
            bulk("role"),
            bulk("master"),
            bulk("modules"),
        ),
        ("CLIENT", "ID") => format!(":{id}\r\n"),
        ("CLIENT", "INFO") => bulk(&format!("id={id} addr=127.0.0.1:1 laddr=127.0.0.1:{port} fd=8 name= db=0\n")),
        ("AUTH" | "SELECT" | "CLIENT", _) => "+OK\r\n".to_owned(),
        ("PING", "") => "+PONG\r\n".to_owned(),
        ("PING", payload) => bulk(payload),
        ("INFO", "SERVER") => bulk(&format!(
            "# Server\r\nredis_version:7.4.0\r\nredis_mode:{}\r\nrun_id:{port}\r\nexecutable:/usr/bin/{}\r\n",
            ["standalone", "cluster", "sentinel"][rng.usize(..8).saturating_sub(5)],
            ["redis-server", "keydb-server"][usize::from(rng.u8(..8) == 0)],
        )),
        ("INFO", "REPLICATION") => bulk(&format!(
            "# Replication\r\nrole:{}\r\n",
            ["master", "slave\r\nslave_read_only:1", "active-replica"][rng.usize(..16).saturating_sub(13)],
        )),
        ("INFO", "MEMORY") => bulk("# Memory\r\nused_memory:1\r\nmaxmemory_policy:noeviction\r\n"),
        ("INFO", _) => bulk("# Modules\r\n"),
        ("CONFIG", _) => format!("%1\r\n{}{}", bulk(&word(2)), bulk("no")),
        ("CLUSTER", _) => return ranges(rng),
        ("SENTINEL", _) => format!("*2\r\n{}{}", bulk("127.0.0.1"), bulk(&rng.u16(7_000..7_004).to_string())),
        ("PUBSUB", _) => format!("*2\r\n{}:0\r\n", bulk("0")),
        _ => "*1\r\n:0\r\n".to_owned(),
    }
    .into_bytes()
}

/// The slot map of some nodes, possibly wrong.
fn ranges(rng: &mut Rng) -> Vec<u8> {
    let all = [(0, 5_460), (5_461, 10_922), (10_923, 16_383)];
    let mut text = "*3\r\n".to_owned();
    for (at, (first, last)) in (0..).zip(all) {
        let port = 7_000 + at + u16::from(rng.u8(..8) == 0);
        let host = ["127.0.0.1", "", "?", "no.such.host"][rng.usize(..8).saturating_sub(4)];
        text.push_str(&format!("*3\r\n:{first}\r\n:{last}\r\n*2\r\n{}:{port}\r\n", bulk(host)));
    }
    match rng.u8(..100) {
        0 => text = format!("*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n{}:7000\r\n", bulk(&"x".repeat(100_000))),
        1 => {
            text = "*300\r\n".to_owned();
            for port in 7_000..7_300 {
                text.push_str(&format!("*3\r\n:0\r\n:16383\r\n*2\r\n{}:{port}\r\n", bulk("127.0.0.1")));
            }
        }
        _ => {}
    }
    text.into_bytes()
}

fn play(seed: u64) -> bool {
    note_panics();
    let runtime = Builder::new_current_thread().enable_time().start_paused(true).build().expect("a runtime");
    let connected = runtime.block_on(async {
        let network = Memory::new(seed);
        let peers = Peers::start(seed, &network);
        let settings = LinkSettings {
            command_timeout: TIMEOUT,
            connect_deadline: DEADLINE,
            network: Network::Memory(network),
            ..LinkSettings::default()
        };
        let url = URLS[peers.rng.lock().usize(..URLS.len())];
        let target = ServerTarget::parse(url).expect("a target");
        let connected = tokio::time::timeout(LONGEST, open(target, settings, None))
            .await
            .unwrap_or_else(|_| panic!("{url}: connecting hangs"));
        match connected {
            Ok(link) => {
                let called = link.call(inspect("a"));
                drop(tokio::time::timeout(DEADLINE, called).await.unwrap_or_else(|_| panic!("{url}: a call hangs")));
                true
            }
            Err(error) => {
                let text = error.to_string();
                assert!(!text.is_empty() && text.len() < 70_000, "{url}: no error that can be read");
                assert!(!text.contains("secret"), "{url}: {text}");
                false
            }
        }
    });
    assert!(!PANICKED.get(), "a task panicked");
    connected
}

#[test]
fn any_bytes_in_a_handshake_end_in_a_link_or_an_error_in_time() {
    let of_environment = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let seeds = match of_environment("LEASEHOLD_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..of_environment("LEASEHOLD_SEEDS").unwrap_or(600),
    };
    let all = seeds.end - seeds.start;
    let mut connected = 0;
    for seed in seeds {
        match std::panic::catch_unwind(|| play(seed)) {
            Ok(is_connected) => connected += u64::from(is_connected),
            Err(panic) => {
                eprintln!("the seed that fails is {seed}");
                std::panic::resume_unwind(panic);
            }
        }
    }
    eprintln!("{connected} of {all} links were made");
    // Otherwise there is no handshake to spoil.
    assert!(all < 100 || (all / 20..all * 19 / 20).contains(&connected), "{connected} of {all} links were made");
}

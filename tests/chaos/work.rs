//! The work of a client process: the tasks of a workload, and their common part.

mod bank;
mod counted;
mod groups;
mod held;
mod leaders;
pub(crate) mod naive;
mod plain;
mod ticks;

use crate::history::Journal;
use crate::stall::Brake;
use crate::store::Fence;
use fastrand::Rng;
use held::{acquire, end, hold, nanos};
use leasehold::Client;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::task::JoinSet;

/// How many permits the semaphores have.
pub(crate) const CAPACITY: u32 = 3;

/// The banks, each with as many accounts, and the money of each account.
pub(crate) const BANKS: u32 = 2;
pub(crate) const ACCOUNTS: u32 = 6;
pub(crate) const MONEY: i64 = 1_000;

/// The articles, and how many of each come at a time.
pub(crate) const ARTICLES: u32 = 2;
pub(crate) const DELIVERY: i64 = 25;

/// The names for whose leadership each process campaigns.
pub(crate) const LEADERS: u32 = 4;

/// What the names of the schedules begin with whose jobs run once, and how many there are.
const TICK: &str = "tick:";
const SCHEDULES: u32 = 2;

/// The registers of the workloads that must fail.
pub(crate) const REGISTERS: u32 = 8;

/// The locks of each sort that are held through a failover.
const HOLDS: u32 = 8;

/// The state that the tasks of a process share.
pub(crate) struct Bench {
    /// The client of the place's server, or of its first.
    pub(crate) client: Client,
    /// One for each server that knows nothing of the others.
    pub(crate) clients: Vec<Client>,
    pub(crate) journal: Journal,
    pub(crate) brake: Arc<Brake>,
    store: SocketAddr,
    resting: AtomicBool,
    rest: Notify,
}

impl Bench {
    pub(crate) fn new(clients: Vec<Client>, store: SocketAddr, journal: Journal, brake: Arc<Brake>) -> Self {
        let client = clients.first().expect("a client for each server").clone();
        Self { client, clients, journal, brake, store, resting: AtomicBool::new(false), rest: Notify::new() }
    }

    /// Nothing new is begun any more.
    pub(crate) fn rest(&self) {
        self.resting.store(true, Ordering::Release);
        self.rest.notify_waiters();
    }

    fn is_resting(&self) -> bool {
        self.resting.load(Ordering::Acquire)
    }

    /// Thinks for a while, unless it is time to rest.
    async fn think(&self, rng: &mut Rng, most: u64) {
        let rest = self.rest.notified();
        if !self.is_resting() {
            let _ = tokio::time::timeout(Duration::from_millis(rng.u64(0..=most)), rest).await;
        }
    }
}

/// Starts the tasks of a workload.
pub(crate) fn start(bench: &Arc<Bench>, workload: &str, seed: u64) -> JoinSet<()> {
    let mut rng = Rng::with_seed(seed);
    let mut tasks = JoinSet::new();
    match workload {
        "mixed" => {
            for _ in 0..2 {
                tasks.spawn(bank::transfers(bench.clone(), rng.fork()));
                tasks.spawn(bank::sales(bench.clone(), rng.fork()));
                tasks.spawn(plain::locks(bench.clone(), rng.fork()));
                tasks.spawn(plain::halves(bench.clone(), rng.fork()));
                tasks.spawn(plain::permits(bench.clone(), rng.fork()));
                tasks.spawn(groups::several(bench.clone(), rng.fork()));
            }
            tasks.spawn(plain::others(bench.clone(), rng.fork()));
            for _ in 0..2 {
                tasks.spawn(counted::counters(bench.clone(), rng.fork()));
                tasks.spawn(counted::latches(bench.clone(), rng.fork()));
            }
            for number in 0..LEADERS {
                tasks.spawn(leaders::campaigns(bench.clone(), number, rng.fork()));
            }
            for number in 0..SCHEDULES {
                tasks.spawn(ticks::comes(bench.clone(), number, rng.fork()));
            }
        }
        "majority" => {
            for _ in 0..4 {
                tasks.spawn(groups::majorities(bench.clone(), rng.fork()));
            }
        }
        "pauses" => {
            for (fence, _) in Fence::ALL {
                for register in 0..REGISTERS {
                    tasks.spawn(naive::writes(bench.clone(), fence, register, rng.fork()));
                }
            }
        }
        "failover" => {
            for number in 0..HOLDS {
                tasks.spawn(naive::holds(bench.clone(), true, number, rng.fork()));
                tasks.spawn(naive::holds(bench.clone(), false, number, rng.fork()));
            }
        }
        workload => panic!("no workload {workload:?}"),
    }
    tasks
}

/// The way in which a task asks for a lock.
enum Manner {
    /// Waits for so long.
    Wait(Duration),
    /// Waits as long as it takes.
    Patient,
    /// Takes it if it is free.
    Try,
    /// Waits, and goes away after so long without an answer.
    GoesAway(Duration),
}

impl Manner {
    fn any(rng: &mut Rng) -> Self {
        match rng.u32(0..20) {
            0..10 => Self::Wait(Duration::from_millis(rng.u64(100..4_000))),
            10..15 => Self::Patient,
            15..17 => Self::Try,
            _ => Self::GoesAway(Duration::from_millis(rng.u64(1..400))),
        }
    }

    const fn bound(&self) -> Option<Duration> {
        match self {
            Self::Wait(wait) => Some(*wait),
            Self::Patient => None,
            Self::Try => Some(Duration::ZERO),
            Self::GoesAway(after) => Some(*after),
        }
    }
}

/// A connection to the store.
struct Till {
    stream: BufReader<TcpStream>,
}

/// A group of accounts as it was when it was read.
struct Reading {
    version: i64,
    values: Vec<i64>,
}

/// The writer, and how the write is guarded.
struct Claim<'a> {
    fence: Fence,
    group: &'a str,
    token: u64,
    holder: String,
}

impl Till {
    async fn open(bench: &Bench) -> Self {
        let stream = TcpStream::connect(bench.store).await.expect("the store");
        stream.set_nodelay(true).expect("a socket");
        Self { stream: BufReader::new(stream) }
    }

    /// `None` where the store refuses the token.
    async fn read(&mut self, claim: &Claim<'_>) -> Option<Reading> {
        let answer = self.ask(&format!("read {}", claim.words())).await?;
        let mut numbers = answer.iter().map(|word| word.parse::<i64>().expect("a number"));
        let version = numbers.next().expect("a version");
        Some(Reading { version, values: numbers.collect() })
    }

    /// Whether the store has accepted it.
    async fn write(&mut self, claim: &Claim<'_>, read: &Reading, stocked: i64, changed: &[(usize, i64)]) -> bool {
        let changes: String = changed.iter().map(|(slot, value)| format!(" {slot}={value}")).collect();
        self.ask(&format!("write {} {} {stocked}{changes}", claim.words(), read.version)).await.is_some()
    }

    async fn ask(&mut self, line: &str) -> Option<Vec<String>> {
        self.stream.write_all(format!("{line}\n").as_bytes()).await.expect("the store");
        let mut answer = String::new();
        self.stream.read_line(&mut answer).await.expect("the store");
        let mut words = answer.split_whitespace().map(str::to_owned);
        match words.next().as_deref() {
            Some("ok") => Some(words.collect()),
            Some("stale") => None,
            _ => panic!("the store answers {answer:?} to {line:?}"),
        }
    }
}

impl Claim<'_> {
    fn words(&self) -> String {
        format!("{} {} {} {}", self.fence.word(), self.group, self.token, self.holder)
    }
}

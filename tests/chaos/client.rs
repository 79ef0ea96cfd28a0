//! A client process: this program, started again, with a client for each server that it is given. It does what its orders say, writes its history, and can be killed and stopped.
//!
//! Orders are lines on its standard input: `round path workload seed` begins to work, with a history in a new file; `rest` ends that; `link`
//! with a port and an order breaks or mends the way to a server; `stall` holds up the background for some milliseconds. It says by lines on its standard output that it is `ready`, that it `began`, and, when nothing is under way any more, that it is `quiet`, with
//! what is left. It ends with its input.

use crate::history::Journal;
use crate::moment;
use crate::relay::Relays;
use crate::stall::Brake;
use crate::work::{self, Bench};
use leasehold::{Client, ClientBuilder, Tuning};
use std::io::Write as _;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

/// Set in a client process: where its servers are, with a space between them, and where the store.
pub(crate) const SERVERS: &str = "LEASEHOLD_CHAOS_SERVERS";
pub(crate) const STORE: &str = "LEASEHOLD_CHAOS_STORE";

/// Set in a client process: what it does beyond what clients do by default, see [`habits`].
pub(crate) const HABITS: &str = "LEASEHOLD_CHAOS_HABITS";

/// The lease of whatever says nothing else: what a lost message, a killed process or a stopped one costs at most.
pub(crate) const LEASE: Duration = Duration::from_secs(2);

/// After how long a server is out of reach for an acquire or a release.
pub(crate) const UNREACHABLE: Duration = Duration::from_secs(6);

/// How long a server may take to answer.
pub(crate) const TIMEOUT: Duration = Duration::from_millis(500);

/// For how long a client may need to come to rest, when all servers are well.
pub(crate) const REST: Duration = Duration::from_secs(25);

/// The work that is under way in this process.
pub(crate) type Current = Arc<Mutex<Option<Arc<Bench>>>>;

/// What the client on a seat does beyond what clients do by default: so every place has clients with each of both, with both, and with none.
pub(crate) const fn habits(seat: usize) -> &'static str {
    ["", "batch", "hand-over", "batch hand-over"][seat % 4]
}

fn settings() -> ClientBuilder {
    let habits = std::env::var(HABITS).expect("the habits of this client");
    let has = |habit| habits.split(' ').any(|word| word == habit);
    // A waiter that missed a notice tries again after the lease at the latest, because a sleep is no longer than that.
    let usual = Client::builder().lease(LEASE).unreachable_after(UNREACHABLE).command_timeout(TIMEOUT);
    usual.announce("chaos").tuning(Tuning::new().batch_calls(has("batch"))).hand_over(has("hand-over"))
}

/// Obeys orders until there are no more.
pub(crate) fn obey(runtime: &Runtime, servers: &str) {
    // A stopped process does not see the end of its input.
    #[cfg(target_os = "linux")]
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))
        .expect("a wish to the system");
    let store = std::env::var(STORE).expect("the address of the store").parse().expect("an address");
    let current = Current::default();
    let brake = Brake::new(current.clone());
    let relays = Relays::new(current.clone());
    let clients: Vec<_> = servers.split(' ').map(|server| connect(runtime, &relays.url(server))).collect();
    let watched = current.clone();
    std::thread::spawn(move || {
        moment::watch_for_stalls(|from, to| {
            if let Some(bench) = &*watched.lock().expect("nobody panics with it") {
                bench.journal.stalled(from, to);
            }
        })
    });
    say("ready");
    let mut work: Option<(Arc<Bench>, JoinSet<()>)> = None;
    for line in std::io::stdin().lines() {
        let line = line.expect("an order");
        let words: Vec<_> = line.split(' ').collect();
        match words[..] {
            ["round", path, workload, seed] => {
                let journal = Journal::create(Path::new(path));
                let seed = seed.parse().expect("a number");
                let bench = Arc::new(Bench::new(clients.clone(), store, journal, brake.clone()));
                // The relays know where to write before the first task asks for anything.
                *current.lock().expect("nobody panics with it") = Some(bench.clone());
                let tasks = runtime.block_on(async { work::start(&bench, workload, seed) });
                work = Some((bench, tasks));
                say("began");
            }
            ["link", port, ref order @ ..] => relays.order(port.parse().expect("a port"), &order.join(" ")),
            ["stall", millis] => brake.apply(millis.parse().expect("a number")),
            ["rest"] => {
                brake.apply(0);
                if let Some((bench, mut tasks)) = work.take() {
                    bench.rest();
                    let ended = runtime.block_on(async {
                        let all = async { while tasks.join_next().await.is_some() {} };
                        tokio::time::timeout(REST, all).await.is_ok()
                    });
                    // Operations that are still under way have no end in the history, and are found there.
                    tasks.detach_all();
                    let clean = clients.iter().all(settled);
                    let left: Vec<_> = clients.iter().map(Client::stats).collect();
                    say(&format!("quiet {ended} {clean} {} {left:?}", resident()));
                }
            }
            _ => panic!("no order {line:?}"),
        }
    }
}

fn connect(runtime: &Runtime, server: &str) -> Client {
    loop {
        // The servers may be in the middle of a fault.
        match runtime.block_on(settings().connect(server)) {
            Ok(client) => return client,
            Err(error) => eprintln!("a client does not connect: {error}"),
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Waits until the client has cleaned up behind itself. Whether it has.
fn settled(client: &Client) -> bool {
    let end = Instant::now() + REST;
    loop {
        let census = client.stats();
        if census.held + census.cleaning_up + census.requests + census.subscriptions + census.locks == 0 {
            return true;
        }
        if Instant::now() > end {
            return false;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// How much memory this process has, in KiB.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or_default()
}

fn say(what: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{what}").and_then(|()| out.flush()).expect("somebody who listens");
}

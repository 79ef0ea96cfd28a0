//! A thousand buyers compete for a hundred units: with a fair lock, a plain lock, a semaphore, and without a lock. In
//! the last sale, fifty buyers die while they wait or hold the lock.
//!
//! `cargo run --example inventory`, or `LEASEHOLD_URL=redis://127.0.0.1:6379 cargo run --example inventory`.
//!
//! The buyers use four clients. On the in-process engine, the clients run in this process; on a server, each client is
//! a process that this program starts. Each of the fifty dying buyers has its own client or process.
//! # Arrival order
//!
//! While the buyers arrive, a doorman holds the lock. The buyers arrive in sequence, each at a random client. The next
//! buyer arrives after the request of the previous buyer, at a fair lock after its entry appears in the queue on the
//! server. Then the doorman releases the lock. Each buyer appends its number to a list in the store when it holds the
//! lock, and the program compares that list with the order of arrival.

#![expect(clippy::print_stdout, reason = "an example prints to stdout")]

#[path = "inventory/branch.rs"]
mod branch;
#[path = "inventory/buyer.rs"]
mod buyer;
#[path = "inventory/outcome.rs"]
mod outcome;
#[path = "support/store.rs"]
mod store;
mod support;

use branch::{Branch, LEASE};
use buyer::{Fate, Sale, Turn, UNITS, Way, clock};
use futures_util::future::try_join_all;
use outcome::Outcome;
use std::collections::HashMap;
use std::time::Duration;
use store::{Failed, Store};
use support::Stage;
use tokio::sync::{oneshot, watch};

const BUYERS: usize = 1_000;
/// The number of clients of the buyers.
const BRANCHES: usize = 4;
/// The default liveness timeout and heartbeat interval of fair locks.
const WINDOW: Duration = Duration::from_secs(2);
const BEAT: Duration = Duration::from_millis(500);

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<(), Failed> {
    if let Some(role) = branch::role() {
        return branch::obey(role).await;
    }
    let stage = Stage::open("A thousand buyers want a hundred units.");
    let store = Store::open(&stage).await?;

    for way in [Way::FairLock, Way::PlainLock, Way::Semaphore, Way::NoLock] {
        let outcome = all_live(&stage, &store, way).await?;
        stage.tell(format_args!("{}: {outcome}", way.word()));
        assert_eq!(outcome.served, BUYERS, "every buyer has a turn");
        match way {
            Way::FairLock => {
                assert_eq!((outcome.sold, outcome.oversold()), (UNITS, 0), "a lock is exact");
                assert_eq!(outcome.violations, 0, "the order of service is the order of arrival");
            }
            // Both exclude, but do not order the clients.
            Way::PlainLock | Way::Semaphore => assert_eq!((outcome.sold, outcome.oversold()), (UNITS, 0), "{way:?}"),
            Way::NoLock => assert!(outcome.oversold() > 0, "without a lock, buyers buy the same units"),
        }
    }

    let outcome = some_die(&stage, &store).await?;
    stage.tell(format_args!("fair lock, and deaths: {outcome}"));
    let bound = LEASE.max(WINDOW + BEAT);
    stage.tell(format_args!("the longest stall was {:.2?}; deaths may cause {bound:.2?}", outcome.stall));
    assert_eq!(outcome.served, BUYERS - WAVES * DIE_WAITING, "every buyer that did not die in the queue has a turn");
    assert_eq!((outcome.sold, outcome.oversold()), (UNITS, 0), "deaths do not change the sold units");
    assert_eq!(outcome.violations, 0, "the other buyers are served in order");
    Ok(())
}

/// The doorman of a sale, who holds the lock while the buyers arrive.
struct Doorman {
    client: leasehold::Client,
    turn: Turn,
}

impl Doorman {
    /// Closes the doors.
    async fn close(stage: &Stage, sale: &Sale) -> Result<Self, Failed> {
        let client = stage.client(stage.builder()).await?;
        if sale.way == Way::Semaphore {
            client.semaphore(&sale.name).try_set_permits(1).await?;
        }
        let (asked, _) = oneshot::channel();
        let turn = sale.turn(&client, asked, watch::Sender::new(true).subscribe()).await?;
        Ok(Self { client, turn })
    }

    /// Opens the doors, and returns the time.
    async fn open(self) -> Result<(u64, leasehold::Client), Failed> {
        let opened = clock();
        self.turn.release().await?;
        Ok((opened, self.client))
    }
}

/// Runs a sale in which every buyer lives.
async fn all_live(stage: &Stage, store: &Store, way: Way) -> Result<Outcome, Failed> {
    let sale = Sale { way, prefix: stage.prefix.clone(), name: way.word().replace(' ', "-"), store: store.clone() };
    let doorman = Doorman::close(stage, &sale).await?;
    let mut branches = try_join_all((0..BRANCHES).map(|_| Branch::open(stage, &sale))).await?;
    let arrivals: Vec<usize> = (0..BUYERS).collect();
    let mut lots = fastrand::Rng::with_seed(7);
    for buyer in &arrivals {
        branches[lots.usize(..BRANCHES)].admit(*buyer, Fate::Lives).await?;
        has_place(&sale, buyer + 1).await?;
    }
    let (opened, client) = doorman.open().await?;
    try_join_all(branches.iter_mut().map(Branch::open_doors)).await?;
    try_join_all(branches.into_iter().map(Branch::close)).await?;
    client.shutdown(Duration::from_secs(5)).await?;
    let outcome = Outcome::read(&sale, &arrivals, opened).await?;
    if way == Way::Semaphore {
        // The number of permits never expires, so delete it.
        store.remove(&format!("{}{}", sale.prefix, sale.name)).await?;
    }
    Ok(outcome)
}

/// Waits until the queue of a fair lock has this many entries.
async fn has_place(sale: &Sale, buyers: usize) -> Result<(), Failed> {
    while sale.way == Way::FairLock && sale.store.length(&sale.queue()).await? < buyers {
        tokio::task::yield_now().await;
    }
    Ok(())
}

/// The number of waves of deaths. A wave kills one holder and several waiters at the same instant.
const WAVES: usize = 5;
/// The number of waiters that die in a wave.
const DIE_WAITING: usize = 9;

/// The positions of the buyers that die in a wave: the holder, three buyers behind it, and buyers across the queue.
fn wave(number: usize) -> [usize; 1 + DIE_WAITING] {
    let first = 10 + 20 * number;
    let far = 150 + 160 * number;
    [first, first + 1, first + 2, first + 3, first + 5, far, far + 1, far + 20, far + 60, far + 61]
}

/// Runs a sale with deaths. Each wave starts when its first buyer holds the lock.
async fn some_die(stage: &Stage, store: &Store) -> Result<Outcome, Failed> {
    let sale =
        Sale { way: Way::FairLock, prefix: stage.prefix.clone(), name: "deaths".to_owned(), store: store.clone() };
    let doorman = Doorman::close(stage, &sale).await?;
    let mut branches = try_join_all((0..BRANCHES).map(|_| Branch::open(stage, &sale))).await?;
    let mortals: Vec<usize> = (0..WAVES).flat_map(wave).collect();
    let opening = mortals.iter().map(async |buyer| Ok::<_, Failed>((*buyer, Branch::open(stage, &sale).await?)));
    let mut dying: HashMap<usize, Branch> = try_join_all(opening).await?.into_iter().collect();
    stage.tell(format_args!("of the next {BUYERS} buyers, {} have their own client and will die", dying.len()));

    let arrivals: Vec<usize> = (0..BUYERS).collect();
    let mut lots = fastrand::Rng::with_seed(7);
    for buyer in &arrivals {
        let fate = match mortals.iter().position(|mortal| mortal == buyer) {
            Some(index) if index % (2 * wave(0).len()) == 0 => Fate::StopsBeforeItBuys,
            Some(index) if index % wave(0).len() == 0 => Fate::StopsAfterItBought,
            _ => Fate::Lives,
        };
        let branch = dying.get_mut(buyer).unwrap_or_else(|| &mut branches[lots.usize(..BRANCHES)]);
        branch.admit(*buyer, fate).await?;
        has_place(&sale, buyer + 1).await?;
    }
    let (opened, client) = doorman.open().await?;
    for buyers in (0..WAVES).map(wave) {
        dying.get_mut(&buyers[0]).ok_or("unknown buyer")?.holds().await?;
        for buyer in buyers {
            dying.get_mut(&buyer).ok_or("unknown buyer")?.kill()?;
        }
        stage.tell(format_args!("buyer {} died in its turn, and {DIE_WAITING} buyers in the queue", buyers[0]));
    }
    try_join_all(branches.into_iter().map(Branch::close)).await?;
    client.shutdown(Duration::from_secs(5)).await?;
    Outcome::read(&sale, &arrivals, opened).await
}

//! The load test: two hundred connections send two thousand orders for a hundred units to two processes. The test kills
//! one process when half of the units are sold.

mod buyer;
mod shops;

use crate::store::Store;
use crate::{Failed, variable};
use buyer::{Buyer, Seen};
use shops::Process;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

const ITEM: i64 = 1;
const PROCESSES: usize = 2;

/// The load. An environment variable sets each value.
struct Load {
    orders: usize,
    connections: usize,
    units: i64,
}

/// The results of the load.
#[derive(Debug, Default)]
struct Told {
    sold: i64,
    sold_out: usize,
    unanswered: usize,
    sent_again: usize,
    slowest: Duration,
}

/// The number of started orders, and of responses with "sold".
#[derive(Default)]
struct Counter {
    given: AtomicUsize,
    sold: AtomicUsize,
    /// Notified when half of the units are sold, or a buyer finds no more orders.
    half: Notify,
}

/// Runs the load, and prints the results. Fails unless every unit was sold once.
pub async fn run() -> Result<(), Failed> {
    let load = Load {
        orders: number("ORDERS", 2_000)?,
        connections: number("CONNECTIONS", 200)?,
        units: number("UNITS", 100)?,
    };
    let database = variable("DATABASE_URL").unwrap_or_else(|| {
        let file = std::env::temp_dir().join(format!("axum-inventory-{}.db", std::process::id()));
        format!("sqlite://{}?mode=rwc", file.display())
    });
    let store = Store::open(&database).await?;
    store.restock(ITEM, load.units).await?;
    let locks = variable("INVENTORY_LOCKS").unwrap_or_else(|| "fair".to_owned());
    let environment = [("DATABASE_URL", database.as_str()), ("INVENTORY_LOCKS", locks.as_str())];
    let mut processes = Vec::new();
    for _ in 0..PROCESSES {
        processes.push(Process::start(&environment).await?);
    }
    let kind = database.split(':').next().unwrap_or_default();
    println!(
        "{} orders by {} connections for {} units, on {kind}, locks: {locks}",
        load.orders, load.connections, load.units
    );

    let begun = Instant::now();
    let told = sell(&load, &mut processes).await?;
    let took = begun.elapsed();
    let (left, sold) = store.count(ITEM).await?;
    let oversold = (sold - load.units).max(0);
    println!("{took:.1?}; slowest order {:.1?}, {} sent again", told.slowest, told.sent_again);
    println!(
        "sold {sold}, oversold {oversold}, left {left}; answers: {} sold, {} sold out, {} none",
        told.sold, told.sold_out, told.unanswered
    );
    if database.contains("axum-inventory-") {
        remove(&database);
    }
    let exact = sold == load.units && left == 0 && told.sold == sold && told.unanswered == 0;
    if exact { Ok(()) } else { Err("the sale is not exact".into()) }
}

/// Sends all orders, and kills the first process during the sale.
async fn sell(load: &Load, processes: &mut [Process]) -> Result<Told, Failed> {
    let addresses: Vec<_> = processes.iter().map(|process| process.address.clone()).collect();
    let counter = Arc::new(Counter::default());
    let half = usize::try_from(load.units / 2)?;
    let buyers: Vec<_> = (0..load.connections)
        .map(|at| tokio::spawn(buy(Buyer::new(addresses.clone(), at), counter.clone(), load.orders, half)))
        .collect();
    counter.half.notified().await;
    processes[0].kill().await?;
    println!("killed one of {} processes after {} units", processes.len(), counter.sold.load(Ordering::Relaxed));
    let mut all = Told::default();
    for buyer in buyers {
        let told = buyer.await?;
        all.sold += told.sold;
        all.sold_out += told.sold_out;
        all.unanswered += told.unanswered;
        all.sent_again += told.sent_again;
        all.slowest = all.slowest.max(told.slowest);
    }
    Ok(all)
}

/// Runs one connection, which sends orders until none is left.
async fn buy(mut buyer: Buyer, counter: Arc<Counter>, orders: usize, half: usize) -> Told {
    let mut told = Told::default();
    loop {
        let order = counter.given.fetch_add(1, Ordering::Relaxed);
        if order >= orders {
            counter.half.notify_one();
            return told;
        }
        let begun = Instant::now();
        let (seen, tries) = buyer.order(ITEM, order).await;
        match seen {
            Seen::Sold => told.sold += 1,
            Seen::SoldOut => told.sold_out += 1,
            Seen::Unanswered => told.unanswered += 1,
        }
        told.sent_again += tries - 1;
        told.slowest = told.slowest.max(begun.elapsed());
        if seen == Seen::Sold && counter.sold.fetch_add(1, Ordering::Relaxed) + 1 == half {
            counter.half.notify_one();
        }
    }
}

fn number<T: std::str::FromStr>(name: &str, default: T) -> Result<T, Failed> {
    match variable(name) {
        None => Ok(default),
        Some(value) => value.parse().map_err(|_| format!("{name} is not a number: {value}").into()),
    }
}

/// Removes the files of a temporary database.
fn remove(database: &str) {
    let file = database.trim_start_matches("sqlite://").split('?').next().unwrap_or_default();
    for ending in ["", "-wal", "-shm"] {
        // A remaining file is in the directory for temporary files.
        let _ = std::fs::remove_file(format!("{file}{ending}"));
    }
}

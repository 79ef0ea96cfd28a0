//! The link in random worlds, with a check of its traces.
//!
//! The link opens sockets of the system, so it does not run on the simulated network. It runs on servers that are written for this, inside the
//! process. These lose and delay as a seed says, and note when they execute what. The link's caller
//! notes what it is told. A world keeps the contract of [`Link`] if its trace does.
//!
//! `LEASEHOLD_SEEDS=n` runs that many worlds instead of the usual slice, and `LEASEHOLD_SEED=s` one, with its trace. The plan of a world
//! follows from its seed; how its threads interleave does not, so a rare finding may take a few runs to come back.

mod batch;
mod calls;
mod channels;
mod commands;
mod driver;
mod found;
mod notices;
mod peer;
mod plan;
mod servers;
mod slots;
mod tally;
mod trace;

use parking_lot::Mutex;
use plan::Plan;
use servers::Servers;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
use tally::{Happened, Tally};
use trace::Trace;

/// Worlds that are played side by side: they wait most of the time.
const SIDE_BY_SIDE: u64 = 4;

/// A world that was played.
struct Played {
    tally: Tally,
    /// The breaches of the contract.
    breaches: Vec<String>,
    trace: Trace,
}

fn play(seed: u64, cluster: bool) -> Played {
    let plan = Plan::new(seed, cluster);
    let trace = Trace::new();
    let servers = Servers::start(&plan, &trace);
    let (mut tally, mut breaches) = driver::play(&plan, &servers, &trace);
    let lines = trace.lines();
    breaches.extend(calls::violations(&lines));
    breaches.extend(notices::violations(&lines));
    tally.add(&servers.state.lock().tally);
    Played { tally, breaches, trace }
}

/// Plays the worlds of many seeds, or of the one that is asked for.
fn worlds(usual: u64, cluster: bool, wanted: &[Happened]) {
    let of_environment = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    if let Some(seed) = of_environment("LEASEHOLD_SEED") {
        let played = play(seed, cluster);
        eprintln!("{}\n{:?}", played.trace.told(), played.tally.0);
        assert!(played.breaches.is_empty(), "seed {seed}:\n{}", played.breaches.join("\n"));
        return;
    }
    let count = of_environment("LEASEHOLD_SEEDS").unwrap_or(usual);
    let (next, sum, found) = (AtomicU64::new(0), Mutex::new(Tally::default()), Mutex::new(None));
    let began = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..SIDE_BY_SIDE {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= count || found.lock().is_some() {
                        return;
                    }
                    let played = play(seed, cluster);
                    sum.lock().add(&played.tally);
                    if !played.breaches.is_empty() {
                        found.lock().get_or_insert((seed, played));
                    }
                }
            });
        }
    });
    if let Some((seed, played)) = found.into_inner() {
        panic!("seed {seed}:\n{}\n\n{}", played.breaches.join("\n"), played.trace.told());
    }
    let sum = sum.into_inner();
    eprintln!("{count} worlds in {:?}: {:?}", began.elapsed(), sum.0);
    let missing = sum.missing(wanted);
    assert!(count < usual || missing.is_empty(), "no world has met {missing:?}");
}

#[test]
fn the_link_keeps_its_contract_in_worlds_of_one_server() {
    worlds(80, false, &tally::OF_ONE);
}

#[test]
fn the_link_keeps_its_contract_in_worlds_of_two_nodes() {
    worlds(80, true, &tally::OF_A_CLUSTER);
}

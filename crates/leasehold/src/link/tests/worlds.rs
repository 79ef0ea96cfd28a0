//! The link in random worlds, with a check of their traces.
//!
//! A world is a link, its caller, and fake servers, on one thread. It has an in-memory network and a clock that jumps
//! to the next event. The servers lose and delay messages as the seed chooses, and record what they execute and when.
//! The caller records what the link returns. The check verifies that the trace obeys the contract of [`Link`]. The seed
//! determines the trace.
//!
//! `LEASEHOLD_SEEDS=n` runs n worlds instead of the usual number, and `LEASEHOLD_SEED=s` a single one, with its trace.

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

use plan::Plan;
use servers::Servers;
use std::time::Instant;
use tally::{Happened, Tally};
use trace::Trace;

/// A finished world.
struct Played {
    tally: Tally,
    /// The breaches of the contract.
    breaches: Vec<String>,
    trace: Trace,
}

fn play(seed: u64, cluster: bool) -> Played {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime").block_on(async {
        let plan = Plan::new(seed, cluster);
        let trace = Trace::new();
        let servers = Servers::start(&plan, &trace);
        let (mut tally, mut breaches) = driver::play(&plan, &servers, &trace).await;
        let lines = trace.lines();
        breaches.extend(calls::violations(&lines));
        breaches.extend(notices::violations(&lines));
        tally.add(&servers.state.lock().tally);
        Played { tally, breaches, trace }
    })
}

/// Runs the worlds of many seeds, or of the requested seed.
fn worlds(usual: u64, cluster: bool, wanted: &[Happened]) {
    let of_environment = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    if let Some(seed) = of_environment("LEASEHOLD_SEED") {
        let played = play(seed, cluster);
        eprintln!("{}\n{:?}", played.trace.told(), played.tally.0);
        assert!(played.breaches.is_empty(), "seed {seed}:\n{}", played.breaches.join("\n"));
        return;
    }
    let count = of_environment("LEASEHOLD_SEEDS").unwrap_or(usual);
    let mut sum = Tally::default();
    let began = Instant::now();
    for seed in 0..count {
        let played = play(seed, cluster);
        sum.add(&played.tally);
        if !played.breaches.is_empty() {
            panic!("seed {seed}:\n{}\n\n{}", played.breaches.join("\n"), played.trace.told());
        }
    }
    eprintln!("{count} worlds in {:?}: {:?}", began.elapsed(), sum.0);
    let missing = sum.missing(wanted);
    assert!(count < usual || missing.is_empty(), "no world has met {missing:?}");
}

#[test]
fn the_link_keeps_its_contract_in_worlds_of_one_server() {
    worlds(200, false, &tally::OF_ONE);
}

#[test]
fn the_link_keeps_its_contract_in_worlds_of_two_nodes() {
    worlds(120, true, &tally::OF_A_CLUSTER);
}

#[test]
fn two_runs_of_a_seed_leave_equal_traces() {
    for (seed, cluster) in (0..10).flat_map(|seed| [(seed, false), (seed, true)]) {
        let [first, second] = [(); 2].map(|()| play(seed, cluster).trace.told());
        assert!(first == second, "seed {seed}, cluster {cluster}:\n{first}\n\n{second}");
    }
}

//! The embedded engine against real servers: random scripts, late and repeated calls, commands from outside and steps of the clock.
//! Replies, messages and all that the keys hold, their times to live to the millisecond, must be the same after every step.
//!
//! Each server goes by a wall clock that is moved by hand, so that leases end on both sides in the same step. A seed is a history;
//! one that shows a difference is made as short as it can be and then told. `LEASEHOLD_SEEDS=n` runs that many histories on each
//! server instead of the usual slice, and `LEASEHOLD_SEED=s` one.

mod engines;
#[path = "../support/eval.rs"]
mod eval;
#[path = "../support/histories.rs"]
mod histories;
mod history;
mod names;
mod same;
mod shrink;
mod step;
mod values;

use engines::Pair;
use histories::each_seed;
use history::History;
use leasehold_core::script;
use leasehold_test_support::{Binary, binaries};
use std::collections::{BTreeMap, BTreeSet};
use step::Step;

/// How many histories a server gets in a run of all tests.
const SLICE: u64 = 120;

#[test]
fn the_embedded_engine_does_what_every_server_does() {
    let binaries = binaries();
    assert!(!binaries.is_empty(), "{:?}", Binary::any());
    std::thread::scope(|scope| {
        let runs: Vec<_> = binaries.iter().map(|binary| scope.spawn(|| compare(binary))).collect();
        for (run, binary) in runs.into_iter().zip(&binaries) {
            let (histories, tally) = run.join().unwrap_or_else(|_| panic!("{binary}: see above"));
            eprintln!("{binary} agrees: {tally:?}");
            if histories >= 100 {
                for (what, least) in [("reply", 1_000), ("ERR", 15), ("WRONGTYPE", 50), ("OOM", 20), ("message", 30)] {
                    let found = tally.get(what).copied().unwrap_or_default();
                    assert!(found >= least, "{binary}: {what} came {found} times, and is to be seen {least} times");
                }
            }
        }
    });
}

/// Compares all histories; gives how many there were, and what came of their steps.
fn compare(binary: &Binary) -> (u64, BTreeMap<String, usize>) {
    let mut pair = Pair::start(binary);
    let histories = each_seed(SLICE, |seed| {
        let history = History::random(seed, pair.knows_sharded());
        if pair.run(&history).is_some() {
            let (shortest, difference) = shrink::shortest(&mut pair, history);
            panic!("{binary} and the embedded engine differ\n{shortest}{difference}");
        }
    });
    (histories, pair.tally)
}

#[test]
fn a_slice_of_histories_calls_every_script() {
    let called: BTreeSet<_> = (0..SLICE)
        .flat_map(|seed| History::random(seed, true).steps)
        .filter_map(|step| if let Step::Script(call) = step { Some(call.script().name()) } else { None })
        .collect();
    for script in script::ALL {
        assert!(called.contains(script.name()), "{} is never called", script.name());
    }
}

/// The comparison is enough to see an engine that is wrong in one thing: each of these changes one reply, message, value or time.
#[test]
fn a_difference_of_any_sort_is_seen_and_the_history_made_short() {
    let mut pair = Pair::start(&Binary::any().unwrap_or_else(|error| panic!("{error}")));
    for flaw in engines::Flaw::ALL {
        pair.set_flaw(Some(flaw));
        let flawed = (0..SLICE).map(|seed| History::random(seed, true)).find(|history| pair.run(history).is_some());
        let flawed = flawed.unwrap_or_else(|| panic!("{flaw:?} is not seen"));
        let before = flawed.steps.len();
        let (shortest, difference) = shrink::shortest(&mut pair, flawed);
        assert!(shortest.steps.len() <= 6 && shortest.steps.len() < before, "{flaw:?}\n{shortest}{difference}");
    }
}

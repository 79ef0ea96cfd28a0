//! Many worlds, one after the other and on several threads.

use crate::run::{observed, run as run_world};
use crate::terms::LockFamily;
use crate::world::Engines;
use crate::world::stats::Stats;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use std::{fmt, thread};

/// Which worlds are run.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// The first seed.
    pub from: u64,
    /// How many seeds follow.
    pub seeds: u64,
    /// The family of locks of every world; without it the seed says which.
    pub family: Option<LockFamily>,
    /// After so long no new world is begun.
    pub at_most: Option<Duration>,
    /// How many worlds run at once.
    pub threads: usize,
    /// Whether it tells on standard error now and then how far it is.
    pub telling: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { from: 0, seeds: 1_000, family: None, at_most: None, threads: 1, telling: false }
    }
}

/// The run.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Report {
    /// How many worlds ended well.
    pub histories: u64,
    /// How long it took.
    pub took: Duration,
    stats: Stats,
}

impl Report {
    /// A digest of the histories: another version of the code whose clients do the same has the same one.
    pub fn digest(&self) -> u64 {
        self.stats.digest.value()
    }

    /// How many things happened in all.
    pub const fn steps(&self) -> u64 {
        self.stats.steps
    }

    /// Faults that never happened, and events that were never come to: what the worlds say nothing of.
    pub fn missing(&self) -> Vec<&'static str> {
        self.stats.missing()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let minutes = self.took.as_secs_f64() / 60.0;
        writeln!(f, "histories           {}", self.histories)?;
        writeln!(f, "wall time           {:.1} s", self.took.as_secs_f64())?;
        writeln!(f, "histories a minute  {:.0}", self.histories as f64 / minutes)?;
        self.stats.write(f, self.histories)
    }
}

/// A world in which something went wrong.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Failure {
    /// Its seed.
    pub seed: u64,
    /// The finding.
    pub what: String,
}

/// It tells how far it is after every so many histories.
const TOLD: u64 = 50_000;

/// Runs the worlds of `options`, until one fails: the one with the lowest seed of those that did.
///
/// # Errors
///
/// The world that failed. [`replay`] tells its history.
pub fn run(options: &Options) -> Result<Report, Failure> {
    let began = Instant::now();
    let next = AtomicU64::new(options.from);
    let end = options.from.saturating_add(options.seeds);
    let histories = AtomicU64::new(0);
    let failure: Mutex<Option<Failure>> = Mutex::new(None);
    let sums = Mutex::new(Stats::default());
    let work = || {
        let (mut stats, mut engines) = (Stats::default(), Engines::default());
        while options.at_most.is_none_or(|at_most| began.elapsed() < at_most) {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= end {
                break;
            }
            match play(seed, options.family, false, &mut engines) {
                Ok(of_world) => stats.add(&of_world),
                Err(found) => {
                    next.store(end, Ordering::Relaxed);
                    let mut failure = failure.lock().unwrap_or_else(PoisonError::into_inner);
                    if failure.as_ref().is_none_or(|known| known.seed > seed) {
                        *failure = Some(found);
                    }
                    break;
                }
            }
            let histories = histories.fetch_add(1, Ordering::Relaxed) + 1;
            if options.telling && histories.is_multiple_of(TOLD) {
                eprintln!("{histories} histories in {:.0} s", began.elapsed().as_secs_f64());
            }
        }
        sums.lock().unwrap_or_else(PoisonError::into_inner).add(&stats);
    };
    thread::scope(|scope| {
        for _ in 0..options.threads.max(1) {
            scope.spawn(work);
        }
    });
    match failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(failure) => Err(failure),
        None => Ok(Report {
            histories: histories.into_inner(),
            took: began.elapsed(),
            stats: sums.into_inner().unwrap_or_else(PoisonError::into_inner),
        }),
    }
}

/// Runs the world of one seed, and tells its history on standard error.
///
/// # Errors
///
/// The fault, if there is one.
pub fn replay(seed: u64, family: Option<LockFamily>) -> Result<(), Failure> {
    play(seed, family, true, &mut Engines::default()).map(drop)
}

/// Plays the world of a seed, with a family of locks that follows from it unless one is given.
fn play(seed: u64, family: Option<LockFamily>, tracing: bool, engines: &mut Engines) -> Result<Stats, Failure> {
    let family = family.unwrap_or_else(|| LockFamily::of_seed(seed));
    let mut world = observed(seed, engines);
    world.tracing |= tracing;
    let played = caught(seed, || run_world(&mut world, seed, family));
    if played.is_err() && tracing {
        world.tell_beliefs();
    }
    played?;
    let stats = world.stats.clone();
    world.give_engines(engines);
    Ok(stats)
}

/// The statistics of a world, or the fault that was found in it.
fn caught<T>(seed: u64, play: impl FnOnce() -> T) -> Result<T, Failure> {
    catch_unwind(AssertUnwindSafe(play)).map_err(|panic| Failure { seed, what: text_of(&*panic) })
}

/// The words of a panic.
pub(crate) fn text_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As many as a test in a debug build may take.
    const SLICE: u64 = 3_000;

    #[test]
    fn a_slice_of_the_seeds_finds_nothing_and_comes_to_everything() {
        let report = run(&Options { seeds: SLICE, threads: 2, ..Options::default() });
        let report = report.unwrap_or_else(|failure| panic!("seed {}: {}", failure.seed, failure.what));
        assert_eq!(report.histories, SLICE);
        assert_eq!(report.missing(), [""; 0], "no world came to this");
        let each = |sum: u64| sum / SLICE;
        assert!(each(report.stats.clients) >= 4, "{report}");
        assert!(each(report.stats.operations) >= 40, "{report}");
        assert!(each(report.stats.all_faults()) >= 3, "{report}");
    }

    /// They are about a semaphore's late copies, places in queues, waiters that were not woken or told, an entry that brought a lost hold
    /// back, and worlds that were wrong themselves.
    const FOUND: [(u64, LockFamily); 38] = [
        (3_599, LockFamily::FencedFair),
        (8_856, LockFamily::Fair),
        (9_788, LockFamily::Fair),
        (16_645, LockFamily::Fair),
        (16_869, LockFamily::Semaphore),
        (24_307, LockFamily::Fair),
        (35_399, LockFamily::Fair),
        (56_828, LockFamily::Simple),
        (57_863, LockFamily::Fenced),
        (57_976, LockFamily::FencedFair),
        (64_823, LockFamily::Lock),
        (66_153, LockFamily::Fair),
        (69_993, LockFamily::FencedFair),
        (107_611, LockFamily::FencedFair),
        (112_367, LockFamily::FencedFair),
        (138_788, LockFamily::Spin),
        (144_429, LockFamily::Fair),
        (149_591, LockFamily::FencedFair),
        (190_103, LockFamily::Fair),
        (192_693, LockFamily::Semaphore),
        (198_167, LockFamily::FencedFair),
        (200_264, LockFamily::Fair),
        (235_187, LockFamily::PreferWriters),
        (272_807, LockFamily::PreferWriters),
        (371_025, LockFamily::Semaphore),
        (421_666, LockFamily::Spin),
        (640_369, LockFamily::Fenced),
        (661_399, LockFamily::ReadWrite),
        (704_267, LockFamily::Fenced),
        (101_950, LockFamily::Semaphore),
        (103_771, LockFamily::Semaphore),
        (108_706, LockFamily::Semaphore),
        (117, LockFamily::Fair),
        (2_006_806, LockFamily::Fair),
        (8_880_057_418, LockFamily::Lock),
        (30_764, LockFamily::Fair),
        (2_742, LockFamily::PreferWriters),
        (358_819_237_145_084, LockFamily::Fenced),
    ];

    #[test]
    fn worlds_that_have_found_something_end_well() {
        for (seed, family) in FOUND {
            let report = run(&Options { from: seed, seeds: 1, family: Some(family), ..Options::default() });
            assert!(report.is_ok(), "seed {seed}: {report:?}");
        }
    }

    #[test]
    fn a_seed_makes_the_same_world_each_time() {
        for seed in [9, 11, 47, 131] {
            let mut engines = Engines::default();
            let [new, used, used_again] = [(); 3].map(|()| {
                let mut world = observed(seed, &mut engines);
                run_world(&mut world, seed, LockFamily::ALL[usize::try_from(seed / 12).expect("a small number")]);
                let outcome = (world.stats.clone(), world.events.next_number, world.rng.u64(..), world.server.keys());
                world.give_engines(&mut engines);
                outcome
            });
            assert_eq!(new, used, "{seed}");
            assert_eq!(new, used_again, "{seed}");
        }
    }
}

//! Many worlds, one after the other and on several threads.

use crate::kinds::Family;
use crate::random;
use crate::stats::Stats;
use crate::world::World;
use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Which worlds are run.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// The first seed.
    pub from: u64,
    /// How many seeds follow.
    pub seeds: u64,
    /// The family of locks of every world; without it the seed says which.
    pub family: Option<Family>,
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

/// What was run.
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
    /// What was found.
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
        let mut stats = Stats::default();
        while options.at_most.is_none_or(|at_most| began.elapsed() < at_most) {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= end {
                break;
            }
            let mut world = World::new(seed);
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| random::run(&mut world, seed, options.family))) {
                next.store(end, Ordering::Relaxed);
                let mut failure = failure.lock().unwrap_or_else(PoisonError::into_inner);
                if failure.as_ref().is_none_or(|known| known.seed > seed) {
                    *failure = Some(Failure { seed, what: text_of(&*panic) });
                }
                break;
            }
            stats.add(&world.stats);
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
/// What went wrong, if something did.
pub fn replay(seed: u64, family: Option<Family>) -> Result<(), Failure> {
    let mut world = World::new(seed);
    world.telling = true;
    catch_unwind(AssertUnwindSafe(|| random::run(&mut world, seed, family))).map_err(|panic| {
        world.tell_beliefs();
        Failure { seed, what: text_of(&*panic) }
    })
}

/// What a panic says.
fn text_of(panic: &(dyn Any + Send)) -> String {
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

    /// Of a semaphore's late copies, of places in queues, of waiters that nobody woke or told, of an entry that brought a lost hold back, and of
    /// worlds that were wrong themselves.
    const FOUND: [(u64, Option<Family>); 34] = [
        (3_599, None),
        (8_856, None),
        (9_788, None),
        (16_645, None),
        (16_869, None),
        (24_307, None),
        (35_399, None),
        (56_828, None),
        (57_863, None),
        (57_976, None),
        (64_823, None),
        (66_153, None),
        (69_993, None),
        (107_611, None),
        (112_367, None),
        (138_788, None),
        (144_429, None),
        (149_591, None),
        (190_103, None),
        (192_693, None),
        (198_167, None),
        (200_264, None),
        (235_187, None),
        (272_807, None),
        (371_025, None),
        (421_666, None),
        (640_369, None),
        (661_399, None),
        (704_267, None),
        (101_950, Some(Family::Semaphore)),
        (103_771, Some(Family::Semaphore)),
        (108_706, Some(Family::Semaphore)),
        (117, Some(Family::Fair)),
        (2_006_806, Some(Family::Fair)),
    ];

    #[test]
    fn worlds_that_have_found_something_end_well() {
        for (seed, family) in FOUND {
            let report = run(&Options { from: seed, seeds: 1, family, ..Options::default() });
            assert!(report.is_ok(), "seed {seed}: {report:?}");
        }
    }

    #[test]
    fn a_seed_makes_the_same_world_each_time() {
        for seed in [9, 11, 47, 131] {
            let [one, other] = [(); 2].map(|()| {
                let mut world = World::new(seed);
                random::run(&mut world, seed, None);
                (world.stats.clone(), world.next_number, world.rng.u64(..), world.server.keys())
            });
            assert_eq!(one, other, "{seed}");
        }
    }
}

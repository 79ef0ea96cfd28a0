//! Makes a world that fails small: it is played again and again with parts left out, and what still fails by the same rule is kept.

use crate::report::text_of;
use crate::run::{observed, run as run_world};
use crate::terms::LockFamily;
use crate::world::draws::Record;
use crate::world::parts::{Mask, Part};
use crate::world::stats::Stats;
use crate::world::{Engines, World};
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Once};
use std::time::{Duration, Instant};

/// A world that fails, in which nothing more can be left out.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Shrunk {
    /// The parts that are left out.
    pub mask: Mask,
    /// The finding.
    pub what: String,
    /// How many operations and faults there were before the failure, in the whole world and in the small one.
    pub steps: (u64, u64),
    /// How many worlds were played, and for how long.
    pub tries: u64,
    /// The time that it took.
    pub took: Duration,
    /// Whether no single part can be left out any more; otherwise the time was over.
    pub is_least: bool,
}

/// The world of a seed, with all that was drawn in it.
pub(crate) struct Recorded {
    seed: u64,
    family: LockFamily,
    draws: Arc<Record>,
    insides: Arc<Record>,
    #[cfg(test)]
    rule: Option<fn(&World)>,
}

/// The end of a world.
pub(crate) struct Ending {
    /// The place in the code of the rule that was broken, and its words.
    pub(crate) failure: Option<(String, String)>,
    pub(crate) happened: BTreeSet<Part>,
    pub(crate) planned: BTreeSet<Part>,
    pub(crate) stats: Stats,
}

impl Ending {
    /// How many operations and faults there were.
    fn steps(&self) -> u64 {
        self.stats.operations + self.stats.all_faults()
    }
}

impl Recorded {
    /// Plays the world of a seed, which is none of groups.
    pub(crate) fn new(seed: u64, family: LockFamily) -> (Self, Ending) {
        Self {
            seed,
            family,
            draws: Arc::default(),
            insides: Arc::default(),
            #[cfg(test)]
            rule: None,
        }
        .record()
    }

    /// The same, with another rule.
    #[cfg(test)]
    pub(crate) fn with_rule(seed: u64, family: LockFamily, rule: fn(&World)) -> (Self, Ending) {
        Self { seed, family, draws: Arc::default(), insides: Arc::default(), rule: Some(rule) }.record()
    }

    fn record(mut self) -> (Self, Ending) {
        let mut world = observed(self.seed, &mut Engines::default());
        world.rng.record();
        world.net.insides.record();
        let ending = self.end_of(&mut world);
        self.draws = world.rng.into_record();
        self.insides = world.net.insides.into_record();
        (self, ending)
    }

    /// Plays the world without some of its parts. All else in it is drawn as it was in the whole world.
    pub(crate) fn play(&self, mask: Mask, tracing: bool, engines: &mut Engines) -> Ending {
        let mut world = observed(self.seed, engines);
        world.rng.replay(self.draws.clone(), self.seed);
        world.net.insides.replay(self.insides.clone(), !self.seed);
        world.parts.mask = mask;
        world.tracing = tracing;
        let ending = self.end_of(&mut world);
        if ending.failure.is_none() {
            world.give_engines(engines);
        } else if tracing {
            world.tell_beliefs();
        }
        ending
    }

    fn end_of(&self, world: &mut World) -> Ending {
        world.parts.are_noted = true;
        #[cfg(test)]
        {
            world.parts.rule = self.rule;
        }
        let failure = rule_broken(!world.tracing, || run_world(world, self.seed, self.family));
        Ending {
            failure,
            happened: std::mem::take(&mut world.parts.happened),
            planned: std::mem::take(&mut world.parts.planned),
            stats: world.stats.clone(),
        }
    }
}

thread_local! {
    /// The rule that the last panic of this thread is of.
    static PLACE: RefCell<String> = const { RefCell::new(String::new()) };
    /// Whether panics of this thread are said nothing of.
    static QUIET: Cell<bool> = const { Cell::new(false) };
}

/// The rule that `play` breaks, and its words. The place in the code tells rules apart: their words name holds and times.
fn rule_broken(quiet: bool, play: impl FnOnce()) -> Option<(String, String)> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let others = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            let place = panic.location().map(ToString::to_string).unwrap_or_default();
            PLACE.with_borrow_mut(|last| *last = place);
            if !QUIET.get() {
                others(panic);
            }
        }));
    });
    QUIET.set(quiet);
    let played = catch_unwind(AssertUnwindSafe(play));
    QUIET.set(false);
    let panic = played.err()?;
    Some((PLACE.with_borrow(Clone::clone), text_of(&*panic)))
}

/// Shrinks the world of a seed within a time limit. Returns `None` if the world passes.
pub fn shrink(seed: u64, family: LockFamily, at_most: Duration) -> Option<Shrunk> {
    let began = Instant::now();
    let (world, whole) = Recorded::new(seed, family);
    shrink_recorded(&world, whole, began, at_most)
}

/// The sorts of parts, in the order in which they are left out: what takes much along comes first.
const SORTS: [fn(&Part) -> bool; 4] = [
    |part| matches!(part, Part::Client(_) | Part::Jvm(_)),
    |part| matches!(part, Part::Lock(_) | Part::Chance(_)),
    |part| matches!(part, Part::Operation(_) | Part::Fault(_) | Part::GiveBack(_)),
    |_| true,
];

pub(crate) fn shrink_recorded(world: &Recorded, whole: Ending, began: Instant, at_most: Duration) -> Option<Shrunk> {
    let (rule, _) = whole.failure.clone()?;
    let steps_before = whole.steps();
    let until = began + at_most;
    let mut engines = Engines::default();
    let mut tries = 0;
    // Parts behind the failure did not happen.
    let unreached: Vec<Part> = whole.planned.difference(&whole.happened).copied().collect();
    let (mut mask, mut best) = (Mask::default(), whole);
    let mut is_least = false;
    let mut keep = |mask: &mut Mask, best: &mut Ending, parts: &mut dyn Iterator<Item = Part>| {
        tries += 1;
        let smaller = mask.and(parts);
        let ending = world.play(smaller.clone(), false, &mut engines);
        let is_same =
            ending.failure.as_ref().is_some_and(|(place, _)| *place == rule) && ending.steps() <= best.steps();
        if is_same {
            *mask = smaller;
            *best = ending;
        }
        is_same
    };
    keep(&mut mask, &mut best, &mut unreached.into_iter());
    while !is_least && Instant::now() < until {
        let before = mask.clone();
        for is_of_sort in SORTS {
            let parts: Vec<Part> = best.happened.iter().copied().filter(is_of_sort).collect();
            let all: BTreeSet<Part> = parts.iter().copied().collect();
            let (_, ended) = reduce(parts, until, |left| {
                let left: BTreeSet<Part> = left.iter().copied().collect();
                keep(&mut mask, &mut best, &mut all.difference(&left).copied())
            });
            is_least = ended;
        }
        // A part that began to happen only when another one was gone is left out in the next round.
        is_least &= mask == before;
    }
    let steps = (steps_before, best.steps());
    let what = best.failure.map(|(_, what)| what).unwrap_or_default();
    Some(Shrunk { mask, what, steps, tries, took: began.elapsed(), is_least })
}

/// Delta debugging: the fewest of `parts` that are still enough: large pieces are left out first, then smaller ones, and at last one after the other, until
/// no single part can be left out any more or the time is over. `is_enough` is asked about what would be left.
///
/// The flag says whether it came to its end within the time.
fn reduce<T: Clone>(parts: Vec<T>, until: Instant, mut is_enough: impl FnMut(&[T]) -> bool) -> (Vec<T>, bool) {
    let mut left = parts;
    let mut size = left.len();
    while size > 0 && !left.is_empty() {
        let (mut from, mut smaller) = (0, false);
        while from < left.len() {
            if Instant::now() >= until {
                return (left, false);
            }
            let to = (from + size).min(left.len());
            let rest = [&left[..from], &left[to..]].concat();
            if is_enough(&rest) {
                left = rest;
                smaller = true;
            } else {
                from = to;
            }
        }
        // A part that could not be left out before may be now.
        if size > 1 || !smaller {
            size /= 2;
        }
    }
    (left, true)
}

/// Plays the world of a seed without some of its parts, and tells its history on standard error. Gives the finding, if there is one.
pub fn replay_without(seed: u64, family: LockFamily, mask: Mask) -> Option<String> {
    let (world, _) = Recorded::new(seed, family);
    world.play(mask, true, &mut Engines::default()).failure.map(|(_, what)| what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recorded_world_is_the_same_when_nothing_is_left_out() {
        for family in LockFamily::ALL {
            for seed in 0..12 {
                let mut plain = observed(seed, &mut Engines::default());
                run_world(&mut plain, seed, family);
                let (world, recorded) = Recorded::new(seed, family);
                assert_eq!(recorded.stats, plain.stats, "{seed} {family}");
                let replayed = world.play(Mask::default(), false, &mut Engines::default());
                assert_eq!(replayed.stats, plain.stats, "{seed} {family}");
                assert_eq!(replayed.happened, recorded.happened, "{seed} {family}");
            }
        }
    }

    #[test]
    fn world_without_its_operations_does_nothing() {
        let (world, whole) = Recorded::new(1, LockFamily::Lock);
        let operations: Vec<_> = whole.happened.iter().filter(|part| matches!(part, Part::Operation(_))).collect();
        let mask = Mask::default().and(operations.iter().map(|part| **part));
        let ending = world.play(mask, false, &mut Engines::default());
        assert_eq!(ending.stats.operations, 0);
        assert_eq!(ending.stats.all_faults(), 0);
    }

    /// It fails once two clients have had the first lock, one after the other.
    fn two_have_had_the_lock(world: &World) {
        let of_lock = || world.guards.iter().filter(|guard| guard.name.key() == b"lock0");
        let first = of_lock().next().map(|guard| guard.client);
        assert!(of_lock().all(|guard| Some(guard.client) == first), "two clients have had the lock");
    }

    #[test]
    fn real_world_shrinks_to_the_operations_that_its_rule_needs() {
        for seed in [1, 6, 9] {
            let (world, whole) = Recorded::with_rule(seed, LockFamily::Lock, two_have_had_the_lock);
            let rule = whole.failure.clone().expect("the rule is broken").0;
            let shrunk = shrink_recorded(&world, whole, Instant::now(), Duration::from_secs(600));
            let shrunk = shrunk.expect("it fails");
            assert!(shrunk.is_least);
            assert_eq!(shrunk.what, "two clients have had the lock");
            assert!((2..=6).contains(&shrunk.steps.1), "{seed}: {shrunk:?}");
            let again = world.play(shrunk.mask.clone(), false, &mut Engines::default());
            assert_eq!(again.failure.as_ref().map(|(place, _)| place), Some(&rule));
            let text = shrunk.mask.to_string();
            assert_eq!(text.parse(), Ok(shrunk.mask.clone()));
            for part in again.happened.iter().copied() {
                let less = world.play(shrunk.mask.and([part]), false, &mut Engines::default());
                let fails = less.failure.as_ref().is_some_and(|(place, _)| *place == rule);
                assert!(!fails || less.steps() > again.steps(), "{seed}: {part:?} can be left out, too");
            }
        }
    }

    #[test]
    fn world_that_ends_well_does_not_shrink() {
        assert!(shrink(1, LockFamily::Lock, Duration::from_secs(60)).is_none());
    }

    fn in_time() -> Instant {
        Instant::now() + Duration::from_secs(600)
    }

    #[test]
    fn what_is_needed_is_left_and_nothing_else() {
        for needed in [vec![], vec![0], vec![63], vec![3, 4, 5], vec![0, 31, 32, 63], (0..64).collect::<Vec<_>>()] {
            let mut asked = 0;
            let (left, ended) = reduce((0..64).collect(), in_time(), |left| {
                asked += 1;
                needed.iter().all(|part| left.contains(part))
            });
            assert_eq!(left, needed);
            assert!(ended);
            assert!(asked <= 64 * 4, "{needed:?} took {asked}");
        }
    }

    #[test]
    fn part_that_another_one_held_fast_is_left_out_after_it() {
        // Nine is needed as long as five is there.
        let is_enough = |left: &[u32]| left.contains(&7) && (!left.contains(&5) || left.contains(&9));
        for parts in [(0..16).collect::<Vec<_>>(), (0..16).rev().collect()] {
            assert_eq!(reduce(parts, in_time(), is_enough), (vec![7], true));
        }
    }

    #[test]
    fn no_question_is_asked_once_the_time_is_over() {
        let (left, ended) = reduce(vec![1, 2, 3], Instant::now(), |_| panic!("it was asked"));
        assert_eq!((left, ended), (vec![1, 2, 3], false));
    }
}

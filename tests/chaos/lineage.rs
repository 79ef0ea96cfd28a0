//! The descent of the servers' data: which server process went on with the data of which other one, and what was lost on the way.
//!
//! Two holders at once are excused by nothing but this: the processes that granted their locks are two, and the later one took over without
//! all that the earlier one had confirmed; or one process lost what it had confirmed between the two grants.

use std::collections::{BTreeMap, BTreeSet};

/// A grant, as the server process executed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Executed {
    /// The server process: the beginning of its run id, and its port.
    pub(crate) server: String,
    /// Between these two instants.
    pub(crate) asked: u64,
    pub(crate) at: u64,
}

/// Something that happened to the servers between two instants.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    pub(crate) from: u64,
    pub(crate) to: u64,
    pub(crate) steps: Vec<Step>,
}

/// One process went on with the data of another, or of its own.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) before: String,
    pub(crate) after: String,
    /// By what data was lost; `None` where none was.
    pub(crate) lost: Option<&'static str>,
}

impl Event {
    /// Whether data was lost by it.
    pub(crate) fn loses(&self) -> bool {
        self.steps.iter().any(|step| step.lost.is_some())
    }
}

/// Servers of the same data: one, or a primary and its replica.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shard {
    /// The names of their processes.
    pub(crate) processes: Vec<String>,
    /// That of the primary.
    pub(crate) primary: Option<String>,
}

/// What happened to the servers, as far as their data is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// A process that takes the place of another one has all of its data.
    Keeps,
    /// Slots have moved between primaries, with all of their data.
    Moves,
    /// A process that takes the place of another one may lack some of its data, and both may grant for a while.
    Replaces(&'static str),
    /// Every process may have lost some of its own data.
    LosesInPlace(&'static str),
}

impl Event {
    /// What became of the data, from the processes before and after. `unseen` is whether a primary was replaced and replaced again, so that
    /// nothing shows it.
    pub(crate) fn new((from, to): (u64, u64), before: &[Shard], after: &[Shard], cause: Cause, unseen: bool) -> Self {
        let mut steps = Vec::new();
        let mut step = |before: &str, after: &str, lost| {
            steps.push(Step { before: before.to_owned(), after: after.to_owned(), lost });
        };
        let pairs = before.iter().zip(after);
        match cause {
            Cause::Keeps => {
                for (before, after) in pairs.filter(|(before, after)| before.primary != after.primary) {
                    step(
                        before.primary.as_deref().unwrap_or_default(),
                        after.primary.as_deref().unwrap_or_default(),
                        None,
                    );
                }
            }
            Cause::Moves => {
                let primaries: Vec<_> =
                    before.iter().chain(after).filter_map(|shard| shard.primary.as_deref()).collect();
                for one in &primaries {
                    primaries.iter().filter(|other| *other != one).for_each(|other| step(one, other, None));
                }
            }
            Cause::Replaces(how) => {
                for (before, after) in pairs.filter(|(before, after)| unseen || before != after) {
                    let all: BTreeSet<_> = before.processes.iter().chain(&after.processes).collect();
                    for one in &all {
                        all.iter().filter(|other| *other != one).for_each(|other| step(one, other, Some(how)));
                    }
                }
            }
            Cause::LosesInPlace(how) => {
                let primaries = before.iter().filter_map(|shard| shard.primary.as_deref());
                primaries.for_each(|primary| step(primary, primary, Some(how)));
            }
        }
        Self { from, to, steps }
    }
}

/// Why the second of two grants could be made beside the first: what lost the first on the way from its process to that of the second,
/// between the two. `None` where the second process had all that the first had confirmed. `events` are in the order of their instants.
pub(crate) fn excuse(events: &[Event], one: &Executed, other: &Executed) -> Option<&'static str> {
    let (first, second) = if one.at <= other.at { (one, other) } else { (other, one) };
    let mut reached: BTreeMap<&str, Option<&'static str>> = BTreeMap::from([(first.server.as_str(), None)]);
    // Each event is one step at most: who was a primary twice has lost something twice.
    for event in events.iter().filter(|event| event.to >= first.asked && event.from <= second.at) {
        let taken = event.steps.iter().filter_map(|step| {
            let so_far = reached.get(step.before.as_str())?;
            Some((step.after.as_str(), so_far.or(step.lost)))
        });
        for (after, lost) in taken.collect::<Vec<_>>() {
            let known = reached.entry(after).or_default();
            *known = known.or(lost);
        }
    }
    reached.get(second.server.as_str()).copied().flatten()
}

/// The same of a counter that never forgets what once went wrong with it: any loss between an instant and the second grant.
pub(crate) fn excuse_since(events: &[Event], since: u64, second: &Executed) -> Option<&'static str> {
    let mut events = events.iter().filter(|event| event.to >= since && event.from <= second.at);
    events.find_map(|event| event.steps.iter().find_map(|step| step.lost))
}

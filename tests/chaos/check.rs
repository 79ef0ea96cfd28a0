//! The rules that a history must keep. Everything here is a function of the history alone.

use crate::history::{Op, Rule, SEVERAL};
use crate::lineage::{Event, Executed, excuse, excuse_since};
use crate::moment::{MILLISECOND, SECOND};
use std::collections::BTreeMap;
use std::time::Duration;

/// Two or more that held at once what they must not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Overlap {
    pub(crate) lock: String,
    pub(crate) earlier: String,
    pub(crate) later: String,
    pub(crate) from: u64,
    pub(crate) to: u64,
    /// The grants of both; several where it is not known which of them is the one.
    pub(crate) grants: [Vec<Executed>; 2],
    /// Whether each was told of its loss.
    pub(crate) told: [bool; 2],
    /// How many permits each has, if they are permits.
    pub(crate) permits: Option<[u32; 2]>,
}

/// Why two holders at once are no failure.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Excuse {
    /// By what the first grant was lost.
    pub(crate) lost: String,
    /// The server processes of the earlier and of the later grant.
    pub(crate) processes: [String; 2],
}

impl Overlap {
    /// Two holders at once are excused by their grants alone: whichever of the possible ones these are, the second was made where the first
    /// had been lost. A bare semaphore is a counter that stays wrong for good, so that any loss since it was made excuses them.
    pub(crate) fn excuse(&self, events: &[Event]) -> Option<Excuse> {
        let made = self.lock.strip_prefix(BARE).map(|generation| generation.parse::<u64>().unwrap_or(u64::MAX));
        let [earlier, later] = &self.grants;
        let mut found = None;
        for (one, other) in earlier.iter().flat_map(|one| later.iter().map(move |other| (one, other))) {
            let lost = match made {
                Some(generation) => {
                    let lost = excuse_since(events, generation.saturating_mul(GENERATION), other)?;
                    format!("bare semaphore, wrong since: {lost}")
                }
                None => excuse(events, one, other)?.to_owned(),
            };
            found = Some(Excuse { lost, processes: [one.server.clone(), other.server.clone()] });
        }
        found
    }
}

/// Tells pairs that have an excuse from failures. A server that grants permits knows of those holders beside whom there is no excuse: where
/// these and the new one have no more than there are, the others alone are too many.
pub(crate) fn judge<'a>(
    pairs: &'a [Overlap],
    events: &[Event],
    capacity: u32,
) -> (Vec<(Excuse, &'a Overlap)>, Vec<&'a Overlap>) {
    let (mut excused, mut failures) = (Vec::new(), Vec::new());
    let mut known: BTreeMap<(&str, &str), u32> = BTreeMap::new();
    for pair in pairs {
        match pair.excuse(events) {
            Some(excuse) => excused.push((excuse, pair)),
            None => {
                failures.push(pair);
                let [earlier, later] = pair.permits.unwrap_or([0, 0]);
                *known.entry((&pair.lock, &pair.later)).or_insert(later) += earlier;
            }
        }
    }
    failures.retain(|pair| pair.permits.is_none() || known[&(&*pair.lock, &*pair.later)] > capacity);
    (excused, failures)
}

/// What the names of bare semaphores begin with. The number of their generation follows.
pub(crate) const BARE: &str = "bare:";

/// How long a bare semaphore is taken permits of, in nanoseconds, before the next one takes its place.
pub(crate) const GENERATION: u64 = 4 * SECOND;

/// Guards of which it is not known which server process granted them: none, while all connections go by way of relays. Of a group that is
/// the case where it is unknown for one of its locks.
pub(crate) fn unwitnessed(ops: &[Op]) -> Vec<String> {
    // One reply may open a latch for several tasks.
    let held = ops.iter().filter(|op| op.granted.is_some() && op.wish.rule != Rule::Open);
    let unknown = held.filter(|op| op.executed.values().any(Vec::is_empty));
    unknown.map(|op| format!("{}: it is not known who granted it to {}: {op:?}", op.wish.lock, op.who)).collect()
}

/// Every holder that believed to hold a lock beside another that it excludes. `capacity` is that of the semaphores.
pub(crate) fn overlaps(ops: &[Op], capacity: u32) -> Vec<Overlap> {
    let mut beliefs: BTreeMap<&str, Vec<(u64, u64, &Op)>> = BTreeMap::new();
    for op in ops {
        let Some((from, to)) = op.belief() else { continue };
        for lock in op.wish.lock.split(SEVERAL) {
            beliefs.entry(lock).or_default().push((from, to, op));
        }
    }
    let mut found = Vec::new();
    for (lock, mut beliefs) in beliefs {
        beliefs.sort_by_key(|(from, ..)| *from);
        let mut holders: Vec<(u64, &Op)> = Vec::new();
        for (from, to, op) in beliefs {
            holders.retain(|(end, _)| *end > from);
            let taken: u32 = holders.iter().map(|(_, other)| other.wish.share).sum();
            for (end, other) in &holders {
                let excluded = match (other.wish.rule, op.wish.rule) {
                    (Rule::Read, Rule::Read) | (Rule::Open, _) | (_, Rule::Open) => false,
                    (Rule::Permits, Rule::Permits) => taken + op.wish.share > capacity,
                    _ => true,
                };
                let to = to.min(*end);
                if excluded && to > from {
                    let (earlier, later) = (other.who.clone(), op.who.clone());
                    let grants = [*other, op].map(|op| op.executed.get(lock).cloned().unwrap_or_default());
                    let told = [*other, op].map(|op| op.lost.is_some());
                    let permits = (op.wish.rule == Rule::Permits).then_some([other.wish.share, op.wish.share]);
                    found.push(Overlap { lock: lock.to_owned(), earlier, later, from, to, grants, told, permits });
                }
            }
            holders.push((to, op));
        }
    }
    found
}

/// Fencing tokens that were given twice, or that are not greater than one that was handed out before their acquire began. Two primaries on
/// both sides of a network that is cut in two draw tokens from the same microsecond now and then: that is excused as two holders at once are.
/// The store knows the owners apart.
pub(crate) fn tokens(ops: &[Op], events: &[Event]) -> Vec<String> {
    let mut grants: BTreeMap<&str, Vec<(u64, u64, u64, &Op)>> = BTreeMap::new();
    for op in ops {
        if let Some(granted) = op.granted.filter(|granted| granted.token > 0) {
            grants.entry(&op.wish.lock).or_default().push((op.invoked, granted.at, granted.token, op));
        }
    }
    let mut found = Vec::new();
    for (lock, mut grants) in grants {
        grants.sort_by_key(|(.., token, _)| *token);
        let is_excused = |one: &Op, other: &Op| {
            let of = |op: &Op| op.executed.get(lock).cloned().unwrap_or_default();
            let (one, other) = (of(one), of(other));
            let two = one.first().zip(other.first());
            two.is_some_and(|(one, other)| one.server != other.server && excuse(events, one, other).is_some())
        };
        let twice = grants.windows(2).filter(|pair| pair[0].2 == pair[1].2);
        for pair in twice.filter(|pair| !is_excused(pair[0].3, pair[1].3)) {
            found.push(format!(
                "{lock}: the token {} was given to {} and to {}",
                pair[0].2, pair[0].3.who, pair[1].3.who
            ));
        }
        let mut handed_out = grants.clone();
        grants.sort_by_key(|(invoked, ..)| *invoked);
        handed_out.sort_by_key(|(_, granted, ..)| *granted);
        let mut handed_out = handed_out.into_iter().peekable();
        let mut greatest = (0, "");
        for (invoked, _, token, op) in grants {
            while let Some((_, _, token, op)) = handed_out.next_if(|(_, granted, ..)| *granted < invoked) {
                greatest = greatest.max((token, &op.who));
            }
            if token <= greatest.0 {
                found.push(format!(
                    "{lock}: {} got the token {token} after {} had got {}",
                    op.who, greatest.1, greatest.0
                ));
            }
        }
    }
    found
}

/// Holds that were lost, by their own clock, and whose release said that they had been held to the end.
pub(crate) fn unreported(ops: &[Op]) -> Vec<String> {
    let said_ok = |op: &&Op| op.ended.as_ref().is_some_and(|(_, how)| how == "ok");
    let was_lost = |op: &&Op| op.lost.is_some() || op.ending.is_some_and(|(_, remaining)| remaining == 0);
    ops.iter()
        .filter(said_ok)
        .filter(was_lost)
        .map(|op| format!("{}: {} was lost, and was released as if it had been held", op.wish.lock, op.who))
        .collect()
}

/// Operations that were refused for a reason that is none: no name is used for another kind of lock, and no client is shut down while it
/// works.
pub(crate) fn confused(ops: &[Op]) -> Vec<String> {
    let words = ["conflict", "other"];
    let refused = ops.iter().filter_map(|op| Some((op, op.refused.as_ref().map(|(_, why)| why)?)));
    let ended = ops.iter().filter_map(|op| Some((op, op.ended.as_ref().map(|(_, how)| how)?)));
    refused
        .chain(ended)
        .filter(|(_, word)| words.contains(&word.as_str()))
        .map(|(op, word)| format!("{}: {} was told: {word}", op.wish.lock, op.who))
        .collect()
}

/// How long parts of an operation may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// An acquire, beyond the wait that its caller asked for.
    pub(crate) acquire: Duration,
    /// A release.
    pub(crate) release: Duration,
    /// The news of a loss, after the deadline.
    pub(crate) loss: Duration,
}

/// Operations that took longer than they may, or did not end at all. `stalled` tells for how long a process did not run between two
/// instants.
pub(crate) fn hangs(ops: &[Op], bounds: Bounds, stalled: impl Fn(&str, u64, u64) -> u64) -> Vec<String> {
    let mut found = Vec::new();
    let mut judge = |op: &Op, what: &str, from: u64, to: Option<u64>, bound: Option<Duration>| {
        let Some(to) = to else {
            // The operations of a killed process have no end.
            if op.died.is_none() {
                found.push(format!("{}: the {what} of {} has not ended", op.wish.lock, op.who));
            }
            return;
        };
        let process = op.who.split('#').next().unwrap_or_default();
        let took = (to - from).saturating_sub(stalled(process, from, to));
        if bound.is_some_and(|bound| u128::from(took) > bound.as_nanos()) {
            found.push(format!("{}: the {what} of {} took {} ms", op.wish.lock, op.who, took / MILLISECOND));
        }
    };
    for op in ops {
        let bound = op.wish.bound.map(|wait| wait + bounds.acquire);
        judge(op, "acquire", op.invoked, op.answered(), bound);
        let Some(granted) = op.granted else { continue };
        judge(op, "work", granted.at, op.ending.map(|(at, _)| at), None);
        if let Some((at, _)) = op.ending {
            judge(op, "release", at, op.ended.as_ref().map(|(at, _)| *at), Some(bounds.release));
        }
        // A holder that learned of it by the release has not asked before.
        let before_its_end = |at: u64| op.ending.is_none_or(|(ending, _)| at <= ending);
        if let Some((at, _)) = op.lost.as_ref().filter(|(at, _)| *at > granted.until && before_its_end(*at)) {
            judge(op, "news of the loss", granted.until, Some(*at), Some(bounds.loss));
        }
    }
    found
}

/// How much of the time between two instants lies in any of these spans, which may overlap.
pub(crate) fn within(spans: impl IntoIterator<Item = (u64, u64)>, from: u64, to: u64) -> u64 {
    let mut spans: Vec<_> = spans.into_iter().map(|(start, end)| (start.max(from), end.min(to))).collect();
    spans.retain(|(start, end)| start < end);
    spans.sort_unstable();
    let (mut sum, mut reached) = (0, from);
    for (start, end) in spans {
        sum += end.saturating_sub(start.max(reached));
        reached = reached.max(end);
    }
    sum
}

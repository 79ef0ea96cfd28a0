//! The rules that a history must keep. Everything here is a function of the history alone.

use crate::history::{Op, Rule, SEVERAL};
use crate::moment::MILLISECOND;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// A time in which holders may be doubled: a failover or a restart has lost data. From its beginning until the holder before it knows that.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    pub(crate) from: u64,
    pub(crate) to: u64,
}

impl Window {
    /// Whether two holders at once are explained by it, the later of whom came at an instant: what was lost later did not let him in.
    const fn explains(self, at: u64) -> bool {
        self.from <= at && at <= self.to
    }
}

/// Two or more that held at once what they must not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Overlap {
    pub(crate) lock: String,
    pub(crate) earlier: String,
    pub(crate) later: String,
    pub(crate) from: u64,
    pub(crate) to: u64,
}

impl Overlap {
    pub(crate) fn is_explained(&self, windows: &[Window]) -> bool {
        windows.iter().any(|window| window.explains(self.from))
    }
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
                    (Rule::Read, Rule::Read) => false,
                    (Rule::Permits, Rule::Permits) => taken + op.wish.share > capacity,
                    _ => true,
                };
                let to = to.min(*end);
                if excluded && to > from {
                    let (earlier, later) = (other.who.clone(), op.who.clone());
                    found.push(Overlap { lock: lock.to_owned(), earlier, later, from, to });
                }
            }
            holders.push((to, op));
        }
    }
    found
}

/// Fencing tokens that were given twice, or that are not greater than one that was handed out before their acquire began. Two primaries on
/// both sides of a network that is cut in two draw tokens from the same microsecond now and then: that is explained by a window in which
/// both were handed out. The store knows the owners apart.
pub(crate) fn tokens(ops: &[Op], windows: &[Window]) -> Vec<String> {
    let mut grants: BTreeMap<&str, Vec<(u64, u64, u64, &str)>> = BTreeMap::new();
    for op in ops {
        if let Some(granted) = op.granted.filter(|granted| granted.token > 0) {
            grants.entry(&op.wish.lock).or_default().push((op.invoked, granted.at, granted.token, &op.who));
        }
    }
    let mut found = Vec::new();
    for (lock, grants) in grants {
        let mut by_token = grants.clone();
        by_token.sort_by_key(|(.., token, _)| *token);
        let is_explained = |one: u64, other: u64| {
            windows.iter().any(|window| window.from <= one.min(other) && one.max(other) <= window.to)
        };
        let twice = by_token.windows(2).filter(|pair| pair[0].2 == pair[1].2);
        for pair in twice.filter(|pair| !is_explained(pair[0].1, pair[1].1)) {
            found.push(format!("{lock}: the token {} was given to {} and to {}", pair[0].2, pair[0].3, pair[1].3));
        }
        let (mut by_invoked, mut by_granted) = (grants.clone(), grants);
        by_invoked.sort_by_key(|(invoked, ..)| *invoked);
        by_granted.sort_by_key(|(_, granted, ..)| *granted);
        let mut handed_out = by_granted.into_iter().peekable();
        let mut greatest = (0, "");
        for (invoked, _, token, who) in by_invoked {
            while let Some((_, _, token, who)) = handed_out.next_if(|(_, granted, ..)| *granted < invoked) {
                greatest = greatest.max((token, who));
            }
            if token <= greatest.0 {
                found.push(format!("{lock}: {who} got the token {token} after {} had got {}", greatest.1, greatest.0));
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

/// How many of these pairs were both released as if they had been alone.
pub(crate) fn untold(ops: &[Op], pairs: &[&Overlap]) -> u64 {
    let ok = |op: &&Op| op.ended.as_ref().is_some_and(|(_, how)| how == "ok");
    let alone: BTreeSet<_> = ops.iter().filter(ok).map(|op| op.who.as_str()).collect();
    let both = pairs.iter().filter(|two| alone.contains(&*two.earlier) && alone.contains(&*two.later));
    both.count() as u64
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

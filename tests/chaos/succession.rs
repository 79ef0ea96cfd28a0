//! Whether a leader that died is followed in time. Everything here is a function of the history alone.

use crate::history::Op;
use crate::moment::MILLISECOND;
use std::time::Duration;

/// What the names of leaderships begin with.
pub(crate) const LEADER: &str = "leader:";

/// The leaders that died in a round.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Succession {
    /// How many were followed while nothing else went wrong.
    pub(crate) followed: u64,
    /// The longest of these times, in nanoseconds.
    pub(crate) longest: u64,
    /// Those that were followed too late, in words.
    pub(crate) late: Vec<String>,
}

/// Looks for those who follow the leaders that died. A death counts only where nothing else went wrong for a while before it, and until it was followed or
/// should have been: `disturbed` has the times of everything else. The while is `slack`. `stalled` tells for how long a process did not run.
pub(crate) fn succession(
    ops: &[Op],
    (lease, slack): (Duration, Duration),
    disturbed: &[(u64, u64)],
    stalled: impl Fn(&str, u64, u64) -> u64,
) -> Succession {
    let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    let bound = nanos(lease + slack);
    let mut found = Succession::default();
    for op in ops.iter().filter(|op| op.wish.lock.starts_with(LEADER)) {
        let (Some(died), Some(granted), None) = (op.died, op.granted, op.ending) else { continue };
        if op.belief().is_none_or(|(_, to)| to < died) || granted.at > died {
            continue;
        }
        let of_name = ops.iter().filter(|other| other.wish.lock == op.wish.lock);
        let next = of_name.clone().filter_map(|other| Some((other.granted?.at, other))).filter(|(at, _)| *at > died);
        let next = next.min_by_key(|(at, _)| *at);
        // Only a candidate that campaigned all the while was to follow.
        let campaigned = |other: &&Op| other.invoked < died && other.died.is_none_or(|at| at > died + bound);
        let (candidates, followed_at) = (of_name.filter(campaigned), next.map_or(died + bound, |(at, _)| at));
        let is_disturbed = disturbed.iter().any(|(from, to)| *from < followed_at && *to + nanos(slack) > died);
        let ends =
            |other: &Op| other.granted.map(|granted| granted.at).or_else(|| other.refused.as_ref().map(|(at, _)| *at));
        let waited = |other: &Op| ends(other).is_none_or(|at| at >= followed_at.min(died + bound));
        let waiting: Vec<_> = candidates.filter(|other| other.who != op.who && waited(other)).collect();
        if is_disturbed || waiting.is_empty() {
            continue;
        }
        let unready = |other: &&Op| stalled(other.who.split('#').next().unwrap_or_default(), died, followed_at);
        let excused = waiting.iter().map(unready).max().unwrap_or_default();
        let took = (followed_at - died).saturating_sub(excused);
        if next.is_none() || took > bound {
            found.late.push(format!("{}: nobody followed {} for {} ms", op.wish.lock, op.who, took / MILLISECOND));
        } else {
            found.followed += 1;
            found.longest = found.longest.max(took);
        }
    }
    found
}

//! The past holds of the locks: who, when, how long, and how each ended. The memory is bounded.

use super::row::{Holding, Process};
use crate::moment;
use leasehold::inspect::FoundKind;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Maximum number of past holds of a lock.
pub(crate) const MOST_OF_A_LOCK: usize = 50;

/// Maximum number of past holds of all locks, about 25 MB.
const MOST: usize = 100_000;

/// Maximum number of past holds, and of lost holds, in the lists of all locks.
const MOST_RECENT: usize = 500;

/// After a longer pause of the looks, the end of a hold says nothing about its reason.
const PAUSE: Duration = Duration::from_secs(15);

/// The end of a hold, according to two looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Released by the holder or freed by an operator.
    Released,
    /// The lease ended without a renewal.
    Lost,
    /// Either of them: there was no look for too long.
    Unclear,
}

impl Outcome {
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Released => "released",
            Self::Lost => "lost",
            Self::Unclear => "unclear",
        }
    }
}

/// A hold that has ended.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Past {
    /// Unique and increasing.
    pub(crate) number: u64,
    pub(crate) name: Arc<str>,
    pub(crate) kind: FoundKind,
    pub(crate) id: String,
    pub(crate) half: Option<&'static str>,
    pub(crate) process: Option<Arc<Process>>,
    /// The end in milliseconds since 1970.
    pub(crate) ended: u64,
    pub(crate) lasted: Duration,
    /// Whether the hold began before the first look, so that it lasted longer.
    pub(crate) is_longer: bool,
    pub(crate) outcome: Outcome,
}

/// The first look that found a hold.
#[derive(Clone, Copy, Debug)]
pub(super) struct First {
    /// The end of the look.
    pub(super) at: Instant,
    /// Whether an earlier look found the lock without the hold.
    pub(super) is_grant: bool,
    /// The longest lease since then.
    pub(super) longest: Option<Duration>,
}

/// The end of a hold between two looks.
#[derive(Debug)]
pub(super) struct End<'a> {
    pub(super) name: &'a str,
    pub(super) kind: FoundKind,
    pub(super) hold: &'a Holding,
    pub(super) first: First,
    /// The start of the last look that found the hold.
    pub(super) last: Instant,
    /// The end of the look that did not find it.
    pub(super) missed: Instant,
}

impl End<'_> {
    fn outcome(&self) -> Outcome {
        let unseen = self.missed.saturating_duration_since(self.last);
        match self.hold.lease {
            _ if unseen > PAUSE => Outcome::Unclear,
            Some(left) if left > unseen => Outcome::Released,
            None => Outcome::Released,
            Some(left) if self.hold.is_late || self.is_unrenewed(left) => Outcome::Lost,
            Some(_) => Outcome::Unclear,
        }
    }

    /// Returns whether a lease of this remaining time was not renewed. Clients renew a lease after a third of it.
    fn is_unrenewed(&self, left: Duration) -> bool {
        self.first.longest.is_some_and(|longest| left < longest / 2)
    }

    /// The duration of the hold, and whether it is a lower bound.
    fn lasted(&self) -> (Duration, bool) {
        let seen = self.missed.saturating_duration_since(self.first.at);
        let said = self.hold.said.map(|said| said + self.missed.saturating_duration_since(self.last));
        match said {
            Some(said) if said >= seen => (said, false),
            _ => (seen, !self.first.is_grant),
        }
    }
}

/// The past holds.
#[derive(Debug, Default)]
pub(crate) struct Journal {
    by_lock: HashMap<Arc<str>, VecDeque<Arc<Past>>>,
    /// The locks of all past holds in `by_lock`, by the number of the hold.
    order: BTreeMap<u64, Arc<str>>,
    recent: VecDeque<Arc<Past>>,
    lost: VecDeque<Arc<Past>>,
    next: u64,
}

impl Journal {
    pub(super) fn add(&mut self, end: &End<'_>) {
        let name = self.by_lock.get_key_value(end.name).map_or_else(|| Arc::from(end.name), |(name, _)| name.clone());
        let (lasted, is_longer) = end.lasted();
        let past = Arc::new(Past {
            number: self.next,
            name: name.clone(),
            kind: end.kind,
            id: end.hold.id.clone(),
            half: end.hold.half,
            process: end.hold.process.clone(),
            ended: moment::millis_at(end.missed),
            lasted,
            is_longer,
            outcome: end.outcome(),
        });
        self.next += 1;
        if past.outcome == Outcome::Lost {
            push(&mut self.lost, &past);
        }
        push(&mut self.recent, &past);
        let of_lock = self.by_lock.entry(name.clone()).or_default();
        if of_lock.len() >= MOST_OF_A_LOCK
            && let Some(oldest) = of_lock.pop_front()
        {
            self.order.remove(&oldest.number);
        }
        self.order.insert(past.number, name);
        of_lock.push_back(past);
        self.shrink();
    }

    /// Forgets the oldest holds beyond the limit.
    fn shrink(&mut self) {
        while self.order.len() > MOST
            && let Some((_, name)) = self.order.pop_first()
            && let Some(of_lock) = self.by_lock.get_mut(&name)
        {
            of_lock.pop_front();
            if of_lock.is_empty() {
                self.by_lock.remove(&name);
            }
        }
    }

    /// The past holds of a lock, newest first.
    pub(crate) fn of_lock(&self, name: &str) -> Vec<Arc<Past>> {
        self.by_lock.get(name).into_iter().flat_map(|all| all.iter().rev().cloned()).collect()
    }

    /// The last holds of all locks, newest first; only the lost ones if `is_lost`.
    pub(crate) fn recent(&self, is_lost: bool) -> Vec<Arc<Past>> {
        let all = if is_lost { &self.lost } else { &self.recent };
        all.iter().rev().cloned().collect()
    }

    /// The number of holds lost within a time before now, at most `MOST_RECENT`.
    pub(crate) fn lost_within(&self, time: Duration) -> usize {
        let earliest = moment::millis_at(Instant::now()).saturating_sub(time.as_millis() as u64);
        self.lost.iter().rev().take_while(|past| past.ended >= earliest).count()
    }
}

fn push(list: &mut VecDeque<Arc<Past>>, past: &Arc<Past>) {
    if list.len() >= MOST_RECENT {
        list.pop_front();
    }
    list.push_back(past.clone());
}

#[cfg(test)]
mod tests {
    use super::super::sample::hold;
    use super::*;

    fn end(journal: &mut Journal, name: &str, lease: Option<u64>, after: u64) {
        let (at, longest) = (Instant::now(), Some(Duration::from_secs(20)));
        let hold = Holding { lease: lease.map(Duration::from_secs), ..hold("a:1") };
        let (first, missed) = (First { at, is_grant: true, longest }, at + Duration::from_secs(after));
        journal.add(&End { name, kind: FoundKind::Lock, hold: &hold, first, last: at, missed });
    }

    #[test]
    fn outcome_follows_from_the_lease_and_the_pause() {
        let mut journal = Journal::default();
        for (lease, after, outcome) in [
            (Some(20), 1, Outcome::Released),
            (None, 1, Outcome::Released),
            (Some(1), 1, Outcome::Lost),
            (Some(20), 40, Outcome::Unclear),
        ] {
            end(&mut journal, "stock", lease, after);
            let last = journal.of_lock("stock").remove(0);
            assert_eq!((last.outcome, last.lasted), (outcome, Duration::from_secs(after)), "{lease:?} {after}");
        }
        end(&mut journal, "stock", Some(12), 14);
        assert_eq!(journal.of_lock("stock")[0].outcome, Outcome::Unclear, "released, or killed after the last look");
        assert_eq!((journal.recent(false).len(), journal.recent(true).len()), (5, 1));
        assert_eq!(journal.lost_within(Duration::from_secs(3_600)), 1);
    }

    #[test]
    fn memory_is_bounded_for_each_lock_and_for_all() {
        let mut journal = Journal::default();
        for _ in 0..60 {
            end(&mut journal, "busy", Some(20), 1);
        }
        assert_eq!(journal.of_lock("busy").len(), MOST_OF_A_LOCK);
        for at in 0..MOST {
            end(&mut journal, &format!("stock:{}", at % 10_000), Some(20), 1);
        }
        assert_eq!(journal.order.len(), MOST);
        assert_eq!(journal.by_lock.values().map(VecDeque::len).sum::<usize>(), MOST);
        assert!(journal.of_lock("busy").is_empty() && journal.of_lock("stock:9999").len() == 10);
        assert_eq!(journal.recent(false).len(), MOST_RECENT);
    }
}

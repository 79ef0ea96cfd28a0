//! The past holds of the locks: holder, time, duration and outcome. Memory is bounded.

mod kept;
mod processes;

use super::row::{Holding, Process};
use crate::moment;
use kept::Kept;
use leasehold::inspect::FoundKind;
use processes::Processes;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Maximum number of past holds of a lock.
const MOST_OF_A_LOCK: usize = 50;

/// Maximum size of all past holds in bytes: enough for fifty holds of each of 10 000 locks.
const MOST_BYTES: usize = 64 << 20;

/// Size in bytes of a lock's entries in both maps, without its name.
const LOCK_BYTES: usize = 200;

/// Maximum number of viewed locks, whose holds are exempt from the size limit.
const MOST_VIEWED: usize = 1_000;

/// Maximum number of past holds, and of lost holds, in the lists of all locks.
const MOST_RECENT: usize = 500;

/// Maximum pause between scans. After a longer pause, the outcome of a hold is unclear.
const PAUSE: Duration = Duration::from_secs(15);

/// The outcome of a hold, derived from two scans.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Released by the holder or freed by an operator.
    Released,
    /// The lease ended without a renewal.
    Lost,
    /// Released or lost: the scans were too far apart.
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
    /// Whether the hold began before the first scan, which makes `lasted` a lower bound.
    pub(crate) is_longer: bool,
    pub(crate) outcome: Outcome,
}

/// The first scan that found a hold.
#[derive(Clone, Copy, Debug)]
pub(super) struct First {
    /// The end of the scan.
    pub(super) at: Instant,
    /// Whether an earlier scan found the lock without the hold.
    pub(super) is_grant: bool,
    /// The longest remaining lease seen since then.
    pub(super) longest: Option<Duration>,
}

/// A hold that ended between two scans.
#[derive(Debug)]
pub(super) struct End<'a> {
    pub(super) name: &'a str,
    pub(super) kind: FoundKind,
    pub(super) hold: &'a Holding,
    pub(super) first: First,
    /// The start of the last scan that found the hold.
    pub(super) last: Instant,
    /// The end of the scan that missed the hold.
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

    /// Returns whether a live client would have renewed a lease with this remaining time. Clients renew every third of
    /// a lease.
    fn is_unrenewed(&self, left: Duration) -> bool {
        self.first.longest.is_some_and(|longest| left < longest / 2)
    }

    /// Returns the duration of the hold, and whether it is a lower bound.
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
#[derive(Debug)]
pub(crate) struct Journal {
    by_lock: HashMap<Arc<str>, VecDeque<Kept>>,
    /// The locks that are not exempt from the size limit, by the number of their oldest hold.
    oldest: BTreeMap<u64, Arc<str>>,
    /// The viewed locks. The last viewed lock is at the end.
    viewed: VecDeque<Arc<str>>,
    processes: Processes,
    /// The size of `by_lock` and `oldest`.
    bytes: usize,
    most_bytes: usize,
    recent: VecDeque<Arc<Past>>,
    lost: VecDeque<Arc<Past>>,
    next: u64,
}

impl Default for Journal {
    fn default() -> Self {
        Self {
            by_lock: HashMap::new(),
            oldest: BTreeMap::new(),
            viewed: VecDeque::new(),
            processes: Processes::default(),
            bytes: 0,
            most_bytes: MOST_BYTES,
            recent: VecDeque::new(),
            lost: VecDeque::new(),
            next: 0,
        }
    }
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
            process: end.hold.process.as_ref().map(|process| self.processes.share(process)),
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
        if self.by_lock.get(&name).is_some_and(|of_lock| of_lock.len() >= MOST_OF_A_LOCK) {
            self.forget_oldest(&name);
        }
        let kept = Kept::from(&*past);
        self.bytes += kept.bytes();
        let of_lock = self.by_lock.entry(name.clone()).or_default();
        if of_lock.is_empty() {
            self.bytes += lock_bytes(&name);
            if !self.viewed.contains(&name) {
                self.oldest.insert(past.number, name);
            }
        }
        if of_lock.len() == of_lock.capacity() {
            // Reserve less unused capacity than doubling would.
            of_lock.reserve_exact(of_lock.len().clamp(1, 8));
        }
        of_lock.push_back(kept);
        self.shrink();
    }

    /// Drops the oldest holds beyond the size limit.
    fn shrink(&mut self) {
        while self.bytes + self.processes.bytes() > self.most_bytes
            && let Some((_, name)) = self.oldest.first_key_value()
        {
            let name = name.clone();
            self.forget_oldest(&name);
        }
    }

    /// Drops the oldest hold of a lock.
    fn forget_oldest(&mut self, name: &Arc<str>) {
        let Some(of_lock) = self.by_lock.get_mut(name) else { return };
        let Some(gone) = of_lock.pop_front() else { return };
        self.bytes -= gone.bytes();
        let number = gone.number();
        drop(gone);
        self.processes.forget_one();
        let may_be_forgotten = self.oldest.remove(&number).is_some();
        match of_lock.front() {
            Some(next) if may_be_forgotten => {
                self.oldest.insert(next.number(), name.clone());
            }
            Some(_) => {}
            None => {
                self.by_lock.remove(name);
                self.bytes -= lock_bytes(name);
            }
        }
    }

    /// Returns the past holds of a viewed lock, newest first, and exempts the lock from the size limit.
    pub(crate) fn of_lock(&mut self, name: &str) -> Vec<Arc<Past>> {
        self.view(name);
        let Some((name, of_lock)) = self.by_lock.get_key_value(name) else { return Vec::new() };
        of_lock.iter().rev().map(|kept| Arc::new(kept.past(name))).collect()
    }

    /// Exempts a lock from the size limit.
    fn view(&mut self, name: &str) {
        let number = |all: &VecDeque<Kept>| all.front().map(Kept::number);
        if let Some(at) = self.viewed.iter().position(|viewed| **viewed == *name) {
            let viewed = self.viewed.remove(at);
            self.viewed.extend(viewed);
            return;
        }
        if self.viewed.len() >= MOST_VIEWED
            && let Some(former) = self.viewed.pop_front()
            && let Some(number) = self.by_lock.get(&former).and_then(number)
        {
            self.oldest.insert(number, former);
        }
        let known = self.by_lock.get_key_value(name);
        if let Some(number) = known.and_then(|(_, all)| number(all)) {
            self.oldest.remove(&number);
        }
        let name = known.map_or_else(|| Arc::from(name), |(name, _)| name.clone());
        self.viewed.push_back(name);
    }

    /// Returns the last holds of all locks, newest first. Only lost holds if `is_lost`.
    pub(crate) fn recent(&self, is_lost: bool) -> Vec<Arc<Past>> {
        let all = if is_lost { &self.lost } else { &self.recent };
        all.iter().rev().cloned().collect()
    }

    /// Returns the number of recently lost holds, at most `MOST_RECENT`.
    pub(crate) fn lost_within(&self, time: Duration) -> usize {
        let earliest = moment::millis_at(Instant::now()).saturating_sub(time.as_millis() as u64);
        self.lost.iter().rev().take_while(|past| past.ended >= earliest).count()
    }
}

/// Returns the size in bytes of a lock without its holds.
fn lock_bytes(name: &str) -> usize {
    LOCK_BYTES + name.len()
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
        assert_eq!(journal.of_lock("stock")[0].outcome, Outcome::Unclear, "released, or killed after the last scan");
        assert_eq!((journal.recent(false).len(), journal.recent(true).len()), (5, 1));
        assert_eq!(journal.lost_within(Duration::from_secs(3_600)), 1);
    }

    #[test]
    fn memory_is_bounded_for_each_lock_and_for_all() {
        let mut journal = Journal { most_bytes: 200_000, ..Journal::default() };
        for _ in 0..60 {
            end(&mut journal, "busy", Some(20), 1);
        }
        let kept = |journal: &Journal, name: &str| journal.by_lock.get(name).map_or(0, VecDeque::len);
        assert_eq!(kept(&journal, "busy"), MOST_OF_A_LOCK);
        end(&mut journal, "seen", Some(20), 1);
        journal.of_lock("seen");
        for at in 0..10_000 {
            end(&mut journal, &format!("stock:{}", at % 100), Some(20), 1);
            assert!(journal.bytes <= journal.most_bytes);
        }
        let of_stock = (0..100).map(|at| kept(&journal, &format!("stock:{at}"))).collect::<Vec<_>>();
        let (least, most) = (of_stock.iter().min(), of_stock.iter().max());
        assert!(least >= Some(&10) && most < Some(&MOST_OF_A_LOCK), "{of_stock:?}");
        assert_eq!((kept(&journal, "busy"), kept(&journal, "seen")), (0, 1), "only the viewed lock keeps its old hold");
        let of_locks = journal.by_lock.keys().map(|name| lock_bytes(name)).sum::<usize>();
        assert_eq!(journal.bytes, of_locks + journal.by_lock.values().flatten().map(Kept::bytes).sum::<usize>());
        assert_eq!(journal.recent(false).len(), MOST_RECENT);
    }

    #[test]
    fn lock_that_somebody_looks_at_keeps_fifty_holds_beside_ten_thousand_busy_locks() {
        let mut journal = Journal { most_bytes: 4 << 20, ..Journal::default() };
        journal.of_lock("stock:7");
        for at in 0..500_000 {
            end(&mut journal, &format!("stock:{}", at % 10_000), Some(20), 1);
        }
        assert_eq!(journal.of_lock("stock:7").len(), MOST_OF_A_LOCK);
        for at in 0..MOST_VIEWED {
            journal.of_lock(&format!("other:{at}"));
        }
        assert_eq!(journal.viewed.len(), MOST_VIEWED);
        let held = journal.by_lock["stock:7"].front().map(Kept::number);
        assert!(held.is_some_and(|number| journal.oldest.contains_key(&number)), "1000 other pages were viewed later");
    }
}

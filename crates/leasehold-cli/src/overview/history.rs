//! Data from several scans: the rate of grants, the observed age of holds, and past holds.

use super::journal::{End, First, Journal};
use super::row::{Found, Held, Row};
use super::scans::Glance;
use crate::moment;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Time constant in seconds of the average grant rate.
const MEMORY: f64 = 10.0;

/// Time for which a free lock stays in the table.
const KEPT: Duration = Duration::from_secs(10);

/// Maximum number of free locks in the table.
const MOST_KEPT: usize = 10_000;

/// The history of the scans.
#[derive(Debug, Default)]
pub(crate) struct History {
    known: HashMap<String, Known>,
    /// The start of the last scan.
    last: Option<Instant>,
    /// The decayed sum of seconds over all scans.
    seconds: f64,
    /// The past holds. `None` without a reader.
    journal: Option<Arc<Mutex<Journal>>>,
}

/// The history of a lock.
#[derive(Debug)]
struct Known {
    found: Found,
    place: Place,
    /// The end of the last scan that found the lock.
    seen: Instant,
    /// The start of the latest scan with this lock. Results of a scan that started earlier are older, even if they
    /// arrive later.
    looked: Instant,
    /// The holders in the last scan, each with the first scan that found it.
    since: BTreeMap<String, First>,
    /// The start of the oldest hold in milliseconds since 1970.
    start: Option<u64>,
    /// The decayed number of new holders.
    grants: f64,
}

/// The state of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// The last scan found the lock.
    There,
    /// The lock is free.
    Gone,
}

/// Maximum error of the age in a record.
const ROUNDING: Duration = Duration::from_secs(1);

/// Maximum difference between two computed starts of one hold.
const SAME_START: u64 = 1_500;

impl History {
    /// Creates a history that also records past holds.
    pub(crate) fn recorded(journal: Arc<Mutex<Journal>>) -> Self {
        Self { journal: Some(journal), ..Self::default() }
    }

    /// Adds a scan of all locks, and returns the rows.
    pub(crate) fn add(&mut self, begun: Instant, ended: Instant, found: Vec<Found>) -> Vec<Row> {
        let passed = self.last.map(|last| begun.saturating_duration_since(last).as_secs_f64());
        let kept = (-passed.unwrap_or_default() / MEMORY).exp();
        self.seconds = self.seconds * kept + passed.unwrap_or_default();
        self.last = Some(begun);
        for known in self.known.values_mut() {
            known.grants *= kept;
        }
        let mut there = HashSet::new();
        for found in found {
            there.insert(found.name.clone());
            self.add_lock(found, begun, ended);
        }
        for (name, known) in &mut self.known {
            if !there.contains(name) {
                known.leave(begun, ended, self.journal.as_deref());
            }
        }
        self.forget(ended);
        self.known.values_mut().map(|known| known.row(begun, self.seconds)).collect()
    }

    /// Adds an inspection of some locks, and returns their rows. An unknown lock that is free has no row.
    pub(crate) fn glance(&mut self, glance: Glance) -> Vec<Row> {
        let (begun, ended) = (glance.begun, glance.ended);
        let mut rows = Vec::new();
        for (name, found) in glance.found {
            match (found, self.known.get_mut(&name)) {
                (Some(found), _) => self.add_lock(found, begun, ended),
                (None, Some(known)) => known.leave(begun, ended, self.journal.as_deref()),
                (None, None) => {}
            }
            rows.extend(self.known.get_mut(&name).map(|known| known.row(begun, self.seconds)));
        }
        rows
    }

    fn add_lock(&mut self, found: Found, begun: Instant, ended: Instant) {
        if self.known.get(&found.name).is_some_and(|known| known.looked > begun) {
            return;
        }
        let counts = self.seconds > 0.0;
        let old = self.known.remove(&found.name);
        let there = |id: &String| found.holds.iter().any(|hold| hold.id == *id);
        if let Some(old) = &old
            && found.is_listed_whole
        {
            old.end_holds(ended, self.journal.as_deref(), |id| !there(id));
        }
        let (before, mut grants, start) = old.map(|old| (old.since, old.grants, old.start)).unwrap_or_default();
        let is_new = |id: &&String| !before.contains_key(*id);
        let ids = || found.holds.iter().map(|hold| &hold.id);
        if counts {
            // f64 represents the number of holders exactly.
            grants += ids().filter(is_new).count() as f64;
        }
        let since = found.holds.iter().map(|hold| {
            let first = First { at: ended, is_grant: counts, longest: None };
            let first = before.get(&hold.id).copied().unwrap_or(first);
            (hold.id.clone(), First { longest: first.longest.max(hold.lease), ..first })
        });
        let (since, place) = (since.collect(), Place::There);
        let known = Known { since, start, place, seen: ended, looked: begun, grants, found };
        self.known.insert(known.found.name.clone(), known);
    }

    /// Forgets locks that have been free for too long, and the oldest free locks beyond the limit.
    fn forget(&mut self, ended: Instant) {
        let mut free = 0;
        self.known.retain(|_, known| match known.place {
            Place::There => true,
            Place::Gone => {
                free += 1;
                ended.saturating_duration_since(known.seen) < KEPT && free <= MOST_KEPT
            }
        });
    }
}

impl Known {
    /// The lock is free.
    fn leave(&mut self, begun: Instant, ended: Instant, journal: Option<&Mutex<Journal>>) {
        if self.looked <= begun {
            self.end_holds(ended, journal, |_| true);
            self.looked = begun;
            self.place = Place::Gone;
            self.since.clear();
            self.start = None;
        }
    }

    /// Records the end of holds that are missing from a complete list.
    fn end_holds(&self, ended: Instant, journal: Option<&Mutex<Journal>>, is_over: impl Fn(&String) -> bool) {
        let Some(journal) = journal.filter(|_| self.place == Place::There && self.found.is_listed_whole) else {
            return;
        };
        let mut journal = journal.lock().unwrap_or_else(PoisonError::into_inner);
        for hold in self.found.holds.iter().filter(|hold| is_over(&hold.id)) {
            let Some(first) = self.since.get(&hold.id).copied() else { continue };
            let (name, kind, last) = (&self.found.name, self.found.kind, self.looked);
            journal.add(&End { name, kind, hold, first, last, missed: ended });
        }
    }

    fn row(&mut self, begun: Instant, seconds: f64) -> Row {
        let is_gone = self.place != Place::There;
        let begun = self.looked.max(begun);
        let first = self.since.values().map(|first| first.at).min();
        let seen = first.map(|first| begun.saturating_duration_since(first)).filter(|seen| !seen.is_zero());
        let held = match (self.found.said.filter(|_| !is_gone), seen) {
            (Some(said), seen) if seen.is_none_or(|seen| said + ROUNDING >= seen) => {
                Held::Said(said.max(seen.unwrap_or_default()))
            }
            (_, Some(seen)) => Held::AtLeast(seen),
            (_, None) => Held::Unknown,
        };
        self.start = held.time().map(|time| {
            let start = moment::millis_at(begun).saturating_sub(time.as_millis() as u64);
            // Records are refreshed at intervals, so the computed start varies a little.
            self.start.filter(|old| old.abs_diff(start) < SAME_START).unwrap_or(start)
        });
        let rate = if seconds > 0.0 { self.grants / seconds } else { 0.0 };
        Row {
            found: if is_gone { self.found.when_free() } else { self.found.clone() },
            is_gone,
            grants: self.found.is_listed_whole.then_some(rate),
            held,
            since: self.start,
            is_older: matches!(held, Held::AtLeast(_)) && self.since.values().any(|first| !first.is_grant),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample::{hold, lock};
    use super::*;

    /// The scans of a test: one per second, each with a duration of 100 ms.
    struct Scans {
        history: History,
        begun: Instant,
    }

    impl Scans {
        fn new() -> Self {
            Self { history: History::default(), begun: Instant::now() }
        }

        fn scan(&mut self, found: Vec<Found>) -> Vec<Row> {
            self.begun += Duration::from_secs(1);
            self.history.add(self.begun, self.begun + Duration::from_millis(100), found)
        }
    }

    fn held_by(id: &str) -> Vec<Found> {
        vec![Found { holds: vec![hold(id)], ..lock("stock") }]
    }

    #[test]
    fn grants_are_new_holders_a_second() {
        let mut scans = Scans::new();
        assert_eq!(scans.scan(held_by("a:1"))[0].grants, Some(0.0), "the first scan counts no grants");
        let rate = |rows: &[Row]| rows[0].grants.expect("a rate");
        for hold in 2..40 {
            let rate = rate(&scans.scan(held_by(&format!("a:{hold}"))));
            assert!((rate - 1.0).abs() < 1e-9, "{rate}");
        }
        let mut last = 1.0;
        for _ in 0..20 {
            let rate = rate(&scans.scan(held_by("a:39")));
            assert!(rate < last, "{rate} after {last}");
            last = rate;
        }
        assert!((0.1..0.2).contains(&last), "after two time constants: {last}");
    }

    #[test]
    fn grants_are_unknown_where_holders_are_not_listed() {
        let mut scans = Scans::new();
        let found = || vec![Found { is_listed_whole: false, ..lock("stock") }];
        scans.scan(found());
        assert_eq!(scans.scan(found())[0].grants, None);
    }

    #[test]
    fn holds_are_as_old_as_their_holder_says_or_as_they_were_seen() {
        let mut scans = Scans::new();
        assert_eq!(scans.scan(held_by("a:1"))[0].held, Held::Unknown);
        // The time from the end of the first scan to the start of this scan.
        assert_eq!(scans.scan(held_by("a:1"))[0].held, Held::AtLeast(Duration::from_millis(900)));
        let said = |seconds| {
            let said = Some(Duration::from_secs(seconds));
            held_by("a:1").into_iter().map(|found| Found { said, ..found }).collect()
        };
        assert_eq!(scans.scan(said(7))[0].held, Held::Said(Duration::from_secs(7)));
        assert_eq!(scans.scan(said(1))[0].held, Held::AtLeast(Duration::from_millis(2_900)), "an old record");
        assert_eq!(scans.scan(held_by("a:2"))[0].held, Held::Unknown, "another holder");
    }

    #[test]
    fn inspection_is_younger_than_a_scan() {
        let mut scans = Scans::new();
        scans.scan(held_by("a:1"));
        let begun = scans.begun + Duration::from_secs(1);
        let at = |millis| begun + Duration::from_millis(millis);
        let glance = |found: Vec<Found>| Glance {
            begun: at(40),
            ended: at(50),
            found: vec![("stock".to_owned(), found.into_iter().next())],
        };
        // Both inspections happen during a scan that has already found the lock.
        let rows = scans.history.glance(glance(Vec::new()));
        assert_eq!((rows[0].is_gone, rows[0].found.holder.as_str()), (true, "free"));
        assert!(scans.scan(held_by("a:1"))[0].is_gone, "the lock is still free");
        assert!(!scans.scan(held_by("a:1"))[0].is_gone, "a later scan has newer data");
        let begun = scans.begun + Duration::from_secs(1);
        let found = vec![("stock".to_owned(), held_by("a:2").pop())];
        let rows = scans.history.glance(Glance {
            begun: begun + Duration::from_millis(40),
            ended: begun + Duration::from_millis(50),
            found,
        });
        assert_eq!(rows[0].found.holds, [hold("a:2")]);
        assert_eq!(scans.scan(held_by("a:1"))[0].found.holds, [hold("a:2")]);
        let nothing = Glance { begun: at(0), ended: at(1), found: vec![("new".to_owned(), None)] };
        assert_eq!(scans.history.glance(nothing), []);
    }

    #[test]
    fn late_scan_does_not_undo_a_newer_inspection() {
        let mut scans = Scans::new();
        scans.scan(held_by("a:1"));
        let at = |millis| scans.begun + Duration::from_millis(millis);
        let glance = |begun, ended, found: Option<Found>| Glance {
            begun: at(begun),
            ended: at(ended),
            found: vec![("stock".to_owned(), found)],
        };
        let (free, held) = (glance(300, 310, None), glance(200, 400, held_by("a:1").pop()));
        assert!(scans.history.glance(free)[0].is_gone);
        assert!(scans.history.glance(held)[0].is_gone, "the inspection started earlier");
    }

    #[test]
    fn locks_that_are_free_stay_for_ten_seconds() {
        let mut scans = Scans::new();
        scans.scan(held_by("a:1"));
        let rows = scans.scan(Vec::new());
        assert_eq!((rows[0].is_gone, rows[0].found.holder.as_str(), rows[0].held), (true, "free", Held::Unknown));
        let grants = scans.scan(held_by("a:1"))[0].grants;
        assert!(grants.is_some_and(|grants| grants > 0.4), "a hold that returns is a grant: {grants:?}");
        for _ in 0..9 {
            assert_eq!(scans.scan(Vec::new()).len(), 1);
        }
        assert_eq!(scans.scan(Vec::new()), []);
    }

    #[test]
    fn past_holds_are_recorded_with_their_end() {
        let journal = Arc::new(Mutex::new(Journal::default()));
        let mut scans = Scans { history: History::recorded(journal.clone()), begun: Instant::now() };
        scans.scan(held_by("a:1"));
        scans.scan(held_by("a:2"));
        scans.scan(held_by("a:2"));
        scans.scan(Vec::new());
        scans.scan(Vec::new());
        let past = journal.lock().expect("no panic").of_lock("stock");
        let seen: Vec<_> = past.iter().map(|past| (past.id.as_str(), past.lasted.as_secs(), past.is_longer)).collect();
        assert_eq!(seen, [("a:2", 2, false), ("a:1", 1, true)], "newest first; the first scan found the older hold");
    }
}

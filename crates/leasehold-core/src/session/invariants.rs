//! The invariants of a session, as far as it can see them itself.
//!
//! Most relations between requests, locks, holds and channels are kept from both ends, because both ends must be found quickly. This is
//! what says that the two ends agree. It runs after every public call in builds with debug assertions: in tests, in random worlds and
//! under the fuzzer.

use crate::number_map::NumberMap;
use crate::session::Event;
use crate::session::ids::LockId;
use crate::session::parts::Parts;
use std::collections::HashSet;

/// A session with more than this in its tables is not checked: that would take longer than what the session does.
const AT_MOST: usize = 256;

/// The references to a lock, its holds, and their permits.
#[derive(Debug, Default, PartialEq, Eq)]
struct Found {
    refs: usize,
    held: usize,
    permits: u64,
}

fn ensure(holds: bool, what: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(what()) }
}

impl Parts {
    /// The counts of a hold (invariant 2), that its deadline is watched (invariant 4), that no two holds which may be handed on have one
    /// name on the server (invariant 6), and that one lingers at rest and is asked for (invariant 7).
    fn check_holds(&self) -> Result<(), String> {
        let mut names = HashSet::new();
        for (number, hold) in self.holds.iter() {
            let lock = self.locks.get(hold.lock());
            let is_named = lock.is_some_and(|lock| lock.protocol().may_be_handed_on());
            ensure(!is_named || names.insert(hold.cell().name()), || format!("{number:?} is there twice"))?;
            let is_heard = !hold.lingers() || self.subscriptions.hears(hold.lock());
            ensure(is_heard, || format!("{number:?} lingers, and nothing is heard of others that want it"))?;
            ensure(self.locks.contains(hold.lock()), || format!("{number:?} is of a lock that is not there"))?;
            hold.check().map_err(|found| format!("{number:?}: {found}"))?;
        }
        Ok(())
    }

    /// A lock knows how many refer to it and hold it (invariant 5 speaks of its one contender), and its channels know of it.
    fn check_locks(&self) -> Result<(), String> {
        let mut found: NumberMap<LockId, Found> = NumberMap::default();
        for (_, acquire) in self.requests.acquires() {
            found.entry(acquire.lock()).or_default().refs += 1;
        }
        for hold in self.holds.iter().map(|(_, hold)| hold) {
            let of_lock = found.entry(hold.lock()).or_default();
            of_lock.refs += 1;
            if hold.is_granted() && hold.has_guards() {
                of_lock.held += 1;
                of_lock.permits += hold.permits();
            }
        }
        for lock in self.listening.locks() {
            found.entry(lock).or_default().refs += 1;
        }
        for (id, lock) in self.locks.iter() {
            let mut of_lock = found.remove(&id).unwrap_or_default();
            of_lock.refs += usize::from(lock.heartbeat().is_under_way());
            let kept = Found { refs: lock.refs(), held: lock.held(), permits: lock.permits() };
            ensure(kept == of_lock, || format!("{} keeps {kept:?}, and has {of_lock:?}", lock.name()))?;
            let members = lock.line().members();
            for ticket in members {
                let waits = self.requests.acquire(ticket).is_some_and(|acquire| acquire.lock() == id);
                ensure(waits, || format!("{ticket:?} stands in the line of {}, and does not ask for it", lock.name()))?;
            }
        }
        let stale = self.subscriptions.locks().find(|lock| !self.locks.contains(*lock));
        ensure(stale.is_none() && self.subscriptions.is_sound(), || {
            format!("locks and channels do not agree: {:?}", self.subscriptions)
        })?;
        Ok(())
    }

    /// The hold that a request has begun, or was handed, is known (invariant 1), and a request stands in the line of its lock exactly while it waits there.
    fn check_requests(&self) -> Result<(), String> {
        for (ticket, acquire) in self.requests.acquires() {
            let begun = acquire.hold().map(|number| (number, self.holds.get(number)));
            ensure(begun.is_none_or(|(_, hold)| hold.is_some_and(|hold| hold.lock() == acquire.lock())), || {
                format!("{ticket:?} has begun {begun:?}, which is no hold of its lock")
            })?;
            let unread = acquire.unread().map(|granted| (granted, self.holds.get(granted.hold)));
            ensure(unread.is_none_or(|(_, hold)| hold.is_some_and(|hold| hold.lock() == acquire.lock())), || {
                format!("{ticket:?} was handed {unread:?}, which is no hold of its lock")
            })?;
            ensure(unread.is_none() || acquire.timer().is_some(), || {
                format!("nothing watches whether the future of {ticket:?} reads its grant")
            })?;
            ensure(self.locks.contains(acquire.lock()), || format!("{ticket:?} asks for a lock that is not there"))?;
            let lock = &self.locks[acquire.lock()];
            let waits = acquire.waits_in_line();
            let stands = [lock.line().is_contender(ticket), lock.line().queue().contains(ticket)];
            ensure(stands.map(usize::from).iter().sum::<usize>() == usize::from(waits), || {
                format!("{ticket:?} contends, and is queued: {stands:?}, {acquire:?}")
            })?;
        }
        Ok(())
    }

    /// Every timer has its slot, and owners own what is there.
    fn check_tables(&self) -> Result<(), String> {
        let of_requests = self.requests.iter().filter_map(|(_, request)| request.timer_at());
        let of_locks = self.locks.iter().filter_map(|(_, lock)| lock.timer());
        let of_holds = self.holds.iter().map(|(_, hold)| hold).filter_map(|hold| hold.timer());
        let slots = of_requests.chain(of_locks).chain(of_holds).count()
            + self.subscriptions.timers()
            + self.listening.locks().count();
        ensure(self.timers.len() == slots, || format!("{} timers are set, and {slots} are known", self.timers.len()))?;
        for (lock, owner, owned) in self.owners.iter() {
            let (holds, wishes) = (owned.holds(), owned.wishes());
            let there = holds.iter().all(|number| self.holds.get(*number).is_some_and(|hold| hold.lock() == lock))
                && wishes
                    .iter()
                    .all(|ticket| self.requests.acquire(*ticket).is_some_and(|acquire| acquire.lock() == lock));
            ensure(there, || format!("{owner:?} owns or wants what is not there: {owned:?}"))?;
        }
        Ok(())
    }

    /// Tells of an entry that a flow has named and that was not there.
    pub(super) fn report_bugs(&mut self) {
        let found = self.holds.missing().take().or_else(|| self.requests.missing().take());
        if let Some(place) = found {
            self.out.tell(Event::Bug { place });
        }
    }

    /// Panics on a broken invariant, in debug builds of the tests. It checks everything after each call, which is too
    /// expensive for users.
    pub(super) fn assert_invariants(&self) {
        let size = self.locks.len() + self.holds.len() + self.requests.len() + self.subscriptions.len();
        if cfg!(all(debug_assertions, any(test, feature = "self-checks"))) && size <= AT_MOST {
            let found = self
                .check_requests()
                .and_then(|()| self.check_locks())
                .and_then(|()| self.check_holds())
                .and_then(|()| self.check_tables());
            assert_eq!(found, Ok(()), "an invariant of the session is broken");
        }
    }
}

//! The checks of groups.

use super::process::Process;
use super::user::{Hold, PollPolicy, Stage, User};
use super::wish::{Patience, Thing};
use super::world::World;
use crate::faults::mix::FaultMix;
use crate::report::stats::Coverage;
use crate::workload::plan::LEASE;
use leasehold::{ClientStats, Error};
use leasehold_core::reply::Reply;
use std::time::Duration;

/// A wait may be longer than it was given by this: for the last command, and for giving back what was had of a group.
const SLACK: Duration = Duration::from_millis(600);

impl World {
    /// The checks after every step.
    pub(super) fn check(&mut self) {
        for number in 0..self.processes.len() {
            let process = &self.processes[number];
            if !process.runs() {
                continue;
            }
            for user in &process.users {
                let Stage::Holds(hold) = &user.stage else { continue };
                let is_held = hold.grant.is_held();
                assert!(is_held || hold.is_told, "a holder in process {number} is not told of a loss: {:?}", user.wish);
                assert!(!is_held || !hold.is_told, "process {number} has again what was lost: {:?}", user.wish);
                assert!(is_held || hold.grant.remaining() == Duration::ZERO, "what is lost lasts");
                if let Some(servers) = hold.grant.servers().filter(|_| is_held) {
                    assert!(servers * 2 > self.servers.len(), "a quorum of {servers}");
                    if servers < self.servers.len() {
                        self.stats.reach(Coverage::QuorumOfSome);
                    }
                }
                if !is_held {
                    let may_be = !self.plan.fault_free || user.wish.lease.is_some();
                    assert!(may_be, "nothing goes wrong, and {:?} is lost", user.wish);
                }
            }
        }
        if self.plan.fault_free && !self.plan.stepped {
            self.check_that_waiters_hold_nothing();
        }
    }

    /// Wants no other user to believe that it has what was just granted.
    pub(super) fn check_grant(&mut self, process: usize, user: usize, hold: &Hold) {
        let state = &self.processes[process].users[user];
        assert!(
            hold.grant.is_held() || state.polls != PollPolicy::AtOnce,
            "what was lost is granted: {:?}",
            state.wish
        );
        // An owner's hold has the longest of its leases, which is longer by as much as the server's clock was put back since.
        let longest = state.wish.lease.filter(|_| !state.wish.owned).unwrap_or(LEASE) + self.put_back();
        let remaining = hold.grant.remaining();
        assert!(remaining <= longest, "it lasts for {remaining:?}: {:?}", state.wish);
        let (things, owned) = (state.things.clone(), state.wish.owned);
        if state.has_met_somebody() {
            self.stats.reach(Coverage::GroupWaited);
        }
        if self.processes[process].clock_is_wrong {
            return;
        }
        let is_sure = |thing: &&Thing| !self.processes[process].doubts(state, thing, self.now);
        let sure: Vec<&Thing> = things.iter().filter(is_sure).collect();
        let mut compared = false;
        for (number, other) in self.processes.iter().enumerate() {
            for one in &other.users {
                let one_owner = number == process && owned && one.wish.owned;
                if !one_owner && self.believes(other, one) {
                    compared = !sure.is_empty();
                    let both = one
                        .things
                        .iter()
                        .find(|theirs| excludes(theirs, &sure) && !other.doubts(one, theirs, self.now));
                    assert_eq!(both, None, "{process} and {number} believe at once that they have it");
                }
            }
        }
        if state.saw_loss && compared {
            self.stats.reach(Coverage::ComparedAfterLoss);
        }
    }

    /// Whether a user believes that he has what he was granted, by the clock of his process: who stands still believes it, too.
    fn believes(&self, process: &Process, user: &User) -> bool {
        let Stage::Holds(hold) = &user.stage else { return false };
        let until = process.seen() + hold.grant.remaining();
        !process.dead && !process.clock_is_wrong && process.local(self.now) < until
    }

    /// No user is told of trouble that there was not, and a wait ends when it is to.
    pub(super) fn check_refusal(&mut self, process: usize, user: usize, error: &Error) {
        let state = &self.processes[process].users[user];
        let waited = self.processes[process].local(self.now).since(state.since);
        match error {
            Error::WaitElapsed { .. } => {
                let Patience::For(wait) = state.wish.patience else { panic!("{error}: {:?}", state.wish) };
                assert!(waited >= wait, "it gave up after {waited:?}, not {wait:?}");
                let calm = self.plan.fault_free && state.polls == PollPolicy::AtOnce;
                assert!(!calm || waited <= wait + SLACK, "it gave up after {waited:?}, not {wait:?}");
                self.stats.reach(Coverage::WaitElapsed);
            }
            Error::Unreachable { .. } => {
                self.check_that_something_is_wrong(error);
                self.stats.reach(Coverage::Unreachable);
            }
            Error::OutcomeUnknown { .. } => {
                self.check_that_something_is_wrong(error);
                self.stats.reach(Coverage::OutcomeUnknown);
            }
            // An owner who has lost what he still has a guard of is told so when he asks again.
            Error::Lost { .. } => {
                assert!(!self.plan.fault_free || state.wish.owned || state.wish.lease.is_some(), "{error}")
            }
            // Its memory is full, or a script was refused something in its middle.
            Error::Refused { .. } if self.refuses() => self.check_that_something_is_wrong(error),
            _ => panic!("a user of {process} is told: {error}"),
        }
    }

    pub(super) fn check_release(&self, process: usize, user: usize, held: bool, outcome: &Result<(), Error>) {
        let state = &self.processes[process].users[user];
        match outcome {
            Ok(()) => assert!(held, "what was lost is released: {:?}", state.wish),
            Err(Error::Lost { .. }) => assert!(!self.plan.fault_free || state.wish.lease.is_some(), "{outcome:?}"),
            Err(error @ (Error::Unreachable { .. } | Error::OutcomeUnknown { .. })) => {
                self.check_that_something_is_wrong(error);
            }
            Err(error @ Error::Refused { .. }) if self.refuses() => {
                self.check_that_something_is_wrong(error);
            }
            Err(error) => panic!("a user of {process} is told: {error}"),
        }
    }

    /// Whether servers refuse what they will refuse again.
    fn refuses(&self) -> bool {
        self.plan.mix.has(FaultMix::Unproven) || self.plan.mix.has(FaultMix::Losses)
    }

    fn check_that_something_is_wrong(&self, error: &Error) {
        let calm = self.plan.over && self.now > self.plan.ended + Duration::from_secs(5);
        assert!(!self.plan.fault_free && !calm, "nothing is wrong, and somebody is told: {error}");
    }

    /// Nothing is left on the servers when all have gone, but the counters of fencing tokens, and nothing in a client.
    pub(super) fn check_nothing_left(&self) {
        for server in &self.servers {
            let expires = |key: &[u8]| matches!(server.command(&[b"PTTL", key]), Ok(Reply::Int(left)) if left >= 0);
            let may_stay = |key: &[u8]| {
                key.starts_with(b"redisson_lock_token:") || key.starts_with(b"leasehold:1:") && expires(key)
            };
            let left: Vec<_> = server.keys().into_iter().filter(|key| !may_stay(key)).collect();
            assert!(left.is_empty(), "left on a server: {left:?}");
        }
        for client in self.processes.iter().flat_map(|process| &process.clients) {
            assert_eq!(client.stats(), ClientStats::default(), "left in a client");
        }
    }

    /// No client listens any more or is connected when the clients are gone.
    pub(super) fn check_nobody_listens(&self) {
        for server in &self.servers {
            assert_eq!(server.subscriptions(), 0, "somebody listens who has gone");
            assert_eq!(server.links(), 0, "somebody is connected who has gone");
        }
    }
}

fn excludes(theirs: &Thing, things: &[&Thing]) -> bool {
    things.iter().any(|thing| thing.name == theirs.name && !(thing.reads && theirs.reads))
}

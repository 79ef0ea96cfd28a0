//! Waiters for one lock of several: they have met another, and hold none.

use super::process::Process;
use super::user::{PollPolicy, Stage, User};
use super::wish::{Answer, Thing, What};
use super::world::World;
use crate::report::stats::Coverage;
use crate::workload::plan::LEASE;
use bytes::Bytes;
use leasehold::embedded::{EmbeddedLink, EmbeddedServer, Recorded, Recorder};
use leasehold_core::reply::Reply;
use leasehold_core::time::Instant;
use std::collections::BTreeMap;

/// The fields of everything that is locked on a server.
type Holds = BTreeMap<Bytes, Vec<Bytes>>;

impl World {
    /// If nothing goes wrong, and nothing takes time, each hold that a server has of a process is that of a guard. So a waiter has none.
    /// The field of a hold says which process it is of, and one process is no excuse for another.
    pub(super) fn check_that_waiters_hold_nothing(&mut self) {
        let holds: Vec<Holds> = self.servers.iter().map(holds_on).collect();
        for (number, process) in self.processes.iter_mut().enumerate() {
            if process.dead || process.users.iter().any(|user| may_differ(user, self.now)) {
                continue;
            }
            let of_guards = |user: &User| if matches!(user.stage, Stage::Holds(_)) { user.things.len() } else { 0 };
            let expected: usize = process.users.iter().map(of_guards).sum();
            let found = found(process, &holds);
            assert_eq!(
                found, expected,
                "holds of process {number} on the servers, and things that its guards stand for"
            );
            for user in &mut process.users {
                if !user.compared && waits_for_one_of_several(user, &holds) {
                    user.compared = true;
                    self.stats.reach(Coverage::WaitersCompared);
                }
            }
        }
    }
}

impl User {
    /// Polls what he asked for, and notes which holds he tries to begin.
    pub(super) fn poll_question(&mut self, links: &[EmbeddedLink]) -> Option<Answer> {
        let Stage::Asks(task) = &mut self.stage else { return None };
        if self.things.len() < 2 {
            return task.poll();
        }
        let calls: Vec<Recorder> = links.iter().map(EmbeddedLink::record).collect();
        let answer = task.poll();
        let sent = calls.iter().flat_map(Recorder::calls).filter(is_acquire);
        self.tried.extend(sent.map(|call| call.args()[0].clone()));
        answer
    }

    /// Whether it was told that another has one of several things that it asked for.
    pub(super) fn has_met_somebody(&self) -> bool {
        let is_busy = |call: &Recorded| match call.outcome() {
            Some(Ok(Reply::Array(said))) => said.first() == Some(&Reply::Int(0)),
            _ => false,
        };
        let mut acquires = self.calls.iter().flat_map(Recorder::calls).filter(is_acquire);
        acquires.any(|call| is_busy(&call) && self.tried.contains(&call.args()[0]))
    }
}

/// The first argument of an acquire is the field of the hold.
fn is_acquire(call: &Recorded) -> bool {
    call.script().ends_with("/acquire")
}

/// Whether the servers may have something else of a user than what he has a guard of. A user that is late may have part of what it asked
/// for, or still what it gave up; owners share holds; a quorum is tried beside others; and what is held for a fixed time is over on the
/// client first, and on the server no later than a lease after that.
fn may_differ(user: &User, now: Instant) -> bool {
    let differs = user.wish.owned || user.wish.lease.is_some() || matches!(user.wish.what, What::Quorum { .. });
    match user.stage {
        Stage::Over => differs && now < user.ended + LEASE,
        _ => differs || user.polls != PollPolicy::AtOnce,
    }
}

/// The locked things on a server, and their holders. The mode of a read-write lock is a field of its hash, too, but of no holder. A reader
/// whose time is over counts for nothing; its field stays until a script comes that looks.
fn holds_on(server: &EmbeddedServer) -> Holds {
    let fields = |key: Bytes| match server.command(&[b"HKEYS", &key]) {
        Ok(Reply::Array(fields)) => {
            let fields: Vec<Bytes> =
                fields.into_iter().filter_map(text).filter(|field| !is_over(server, &key, field)).collect();
            Some((key, fields))
        }
        // The counter of fencing tokens.
        _ => None,
    };
    server.keys().into_iter().filter_map(fields).collect()
}

/// Whether a field is that of a reader whose deadline has passed.
fn is_over(server: &EmbeddedServer, key: &[u8], field: &[u8]) -> bool {
    let readers = [b"leasehold:1:rw_readers:{", key, b"}"].concat();
    match server.command(&[b"ZSCORE", &readers, field]) {
        Ok(Reply::Bulk(deadline)) => {
            String::from_utf8_lossy(&deadline).parse().is_ok_and(|deadline: i64| deadline <= server.wall_millis())
        }
        _ => false,
    }
}

fn text(reply: Reply) -> Option<Bytes> {
    match reply {
        Reply::Bulk(text) => Some(text),
        _ => None,
    }
}

/// How many holds the servers have of a process.
fn found(process: &Process, holds: &[Holds]) -> usize {
    let on_one = |(holds, id): (&Holds, &String)| {
        holds.values().flatten().filter(|field| field.starts_with(id.as_bytes())).count()
    };
    holds.iter().zip(&process.ids).map(on_one).sum()
}

/// Whether another has a thing that a user asks for, while another thing that it asks for is there for the taking.
fn waits_for_one_of_several(user: &User, holds: &[Holds]) -> bool {
    let is_locked = |thing: &Thing| holds.iter().any(|holds| holds.contains_key(thing.name.as_bytes()));
    matches!(user.stage, Stage::Asks(_))
        && user.things.iter().any(|thing| !thing.reads && is_locked(thing))
        && user.things.iter().any(|thing| !is_locked(thing))
}

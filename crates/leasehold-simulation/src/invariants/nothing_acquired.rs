//! Callers that are told that nothing was acquired: the server has nothing of it, then or later.

use crate::report::stats::Coverage;
use crate::world::World;
use crate::world::client::{Outcome, PollPolicy, TaskKind};
use bytes::Bytes;
use leasehold_core::command::Kind;
use leasehold_core::command::permits::ID_BYTES;
use leasehold_core::error::AcquireError;
use leasehold_core::name::LockName;
use leasehold_core::reply::Reply;

impl World {
    /// Wants the server to have nothing of the holds that a caller asked for who is told that nothing was acquired.
    ///
    /// A caller that polls late is told of what was given up in its place meanwhile, and that may still be under way. A hold that a late
    /// copy may bring about ends with its lease. A place in a queue and the mark of a writer are no holds; they are gone as well where
    /// nothing goes wrong.
    pub(crate) fn check_nothing_acquired(&mut self, client: usize, task: usize, outcome: &Outcome) {
        let state = &self.clients[client].tasks[task];
        let TaskKind::Acquire(wish) = &state.kind else { return };
        let (kind, lock) = (wish.kind, wish.name.clone());
        let nothing = match outcome {
            Outcome::Nothing => true,
            Outcome::NotAcquired(error) => matches!(
                error,
                AcquireError::Unreachable(_)
                    | AcquireError::Refused(_)
                    | AcquireError::KeyConflict(_)
                    | AcquireError::WaitElapsed
            ),
            _ => false,
        };
        if !nothing || state.polls != PollPolicy::AtOnce || self.plan.copies || self.restored {
            return;
        }
        for id in state.all_asked.clone() {
            // An entry leaves the hold as it was, which others compare.
            if self.guards.iter().any(|guard| guard.wire_id == id) {
                continue;
            }
            assert!(
                !self.has_on_server(kind, &lock, &id),
                "client {client} is told {outcome:?}, and the server has {id:?} of {lock}"
            );
            assert!(
                !self.plan.orderly || !self.waits_on_server(kind, &lock, &id),
                "client {client} is told {outcome:?}, and {id:?} still waits for {lock}"
            );
            self.stats.reach(Coverage::NothingThere);
            if self.half_done.contains(&id) {
                self.stats.reach(Coverage::HalfDone);
            }
            self.told_of_nothing.insert(id);
        }
    }

    /// Wants nothing to be granted to a hold of which a caller was told that there is nothing.
    pub(crate) fn check_told(&self, id: &Bytes) {
        assert!(
            !self.told_of_nothing.contains(id) || self.plan.copies,
            "{id:?} is granted after its caller was told that nothing was acquired"
        );
    }

    /// Whether the server has a place of a waiter, or its mark. A score of a place that was given up is small.
    fn waits_on_server(&self, kind: Kind, lock: &LockName, id: &Bytes) -> bool {
        let key = match kind {
            Kind::Fair | Kind::FencedFair => lock.prefixed("redisson_lock_timeout"),
            Kind::Write => lock.prefixed("leasehold:1:rw_writers"),
            _ => return false,
        };
        let Ok(Reply::Bulk(score)) = self.server.command(&[b"ZSCORE", &key, id]) else { return false };
        score.len() > 1
    }

    /// Whether the server has a hold, or a part of it.
    fn has_on_server(&self, kind: Kind, lock: &LockName, id: &Bytes) -> bool {
        let say = |words: &[&[u8]]| self.server.command(words).unwrap_or(Reply::Nil);
        let key = lock.key();
        match kind {
            Kind::Simple => say(&[b"GET", key]) == Reply::Bulk(id.clone()),
            Kind::Semaphore => {
                !matches!(say(&[b"GET", id]), Reply::Nil) && say(&[b"GET", id]) != Reply::Bulk("0".into())
            }
            Kind::Permits => {
                let deadlines = lock.suffixed("timeout");
                id.chunks(ID_BYTES).any(|id| say(&[b"ZSCORE", &deadlines, id]) != Reply::Nil)
            }
            Kind::Latch => false,
            _ => say(&[b"HEXISTS", key, id]) == Reply::Int(1),
        }
    }
}

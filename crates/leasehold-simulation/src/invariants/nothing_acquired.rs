//! Callers that are told that nothing was acquired: the server has nothing of it, then or later.

use crate::world::World;
use crate::world::client::{Outcome, PollPolicy, TaskKind};
use bytes::Bytes;
use leasehold_core::command::Kind;
use leasehold_core::command::permits::ID_BYTES;
use leasehold_core::error::AcquireError;
use leasehold_core::name::LockName;
use leasehold_core::reply::Reply;
use rustc_hash::FxHashSet;

/// Holds of which a caller was told that the server has nothing of them.
#[derive(Debug, Default)]
pub(crate) struct NothingAcquired {
    told: FxHashSet<Bytes>,
}

impl NothingAcquired {
    /// Wants the server to have nothing of the holds that a caller asked for who is told that nothing was acquired.
    ///
    /// A caller that polls late is told of what was given up in its place meanwhile, and that may still be under way. A hold that a late
    /// copy may bring about ends with its lease. A place in a queue and the mark of a writer are no holds; they are gone as well where
    /// nothing goes wrong.
    ///
    /// It gives the holds that its caller was rightly told of.
    pub(crate) fn check(&self, world: &World, client: usize, task: usize, outcome: &Outcome) -> Vec<Bytes> {
        let state = &world.clients[client].tasks[task];
        let TaskKind::Acquire(wish) = &state.kind else { return Vec::new() };
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
        if !nothing || state.polls != PollPolicy::AtOnce || world.plan.copies || world.doubts.restored {
            return Vec::new();
        }
        // An entry leaves the hold as it was, which others compare.
        let tasks = || world.clients[client].tasks.iter().enumerate();
        let is_of_another = |id: &Bytes| tasks().any(|(other, state)| other != task && state.all_asked.contains(id));
        let is_entry = |id: &&Bytes| world.guards.iter().any(|guard| guard.wire_id == **id) || is_of_another(id);
        let ids: Vec<_> = state.all_asked.iter().filter(|id| !is_entry(id)).cloned().collect();
        for id in &ids {
            assert!(
                !has_on_server(world, kind, &lock, id),
                "client {client} is told {outcome:?}, and the server has {id:?} of {lock}"
            );
            assert!(
                !world.plan.orderly || !waits_on_server(world, kind, &lock, id),
                "client {client} is told {outcome:?}, and {id:?} still waits for {lock}"
            );
        }
        ids
    }

    pub(crate) fn tell(&mut self, id: Bytes) {
        self.told.insert(id);
    }

    /// Wants nothing to be granted to a hold of which a caller was told that there is nothing.
    pub(crate) fn check_grant(&self, world: &World, id: &Bytes) {
        assert!(
            !self.told.contains(id) || world.plan.copies,
            "{id:?} is granted after its caller was told that nothing was acquired"
        );
    }
}

/// Every real deadline is later. That of a place that was given up is 1, and less where JVMs have been granted the lock since.
const FIRST_DEADLINE: f64 = 1e12;

/// Whether the server has a place of a waiter, or its mark.
fn waits_on_server(world: &World, kind: Kind, lock: &LockName, id: &Bytes) -> bool {
    let key = match kind {
        Kind::Fair | Kind::FencedFair => lock.prefixed("redisson_lock_timeout"),
        Kind::Write => lock.prefixed("leasehold:1:rw_writers"),
        _ => return false,
    };
    let Ok(Reply::Bulk(score)) = world.server.command(&[b"ZSCORE", &key, id]) else { return false };
    let score = String::from_utf8_lossy(&score).parse::<f64>();
    score.is_ok_and(|score| score >= FIRST_DEADLINE)
}

/// Whether the server has a hold, or a part of it.
fn has_on_server(world: &World, kind: Kind, lock: &LockName, id: &Bytes) -> bool {
    let say = |words: &[&[u8]]| world.server.command(words).unwrap_or(Reply::Nil);
    let key = lock.key();
    match kind {
        Kind::Simple => say(&[b"GET", key]) == Reply::Bulk(id.clone()),
        Kind::Semaphore => !matches!(say(&[b"GET", id]), Reply::Nil) && say(&[b"GET", id]) != Reply::Bulk("0".into()),
        Kind::Permits => {
            let deadlines = lock.suffixed("timeout");
            id.chunks(ID_BYTES).any(|id| say(&[b"ZSCORE", &deadlines, id]) != Reply::Nil)
        }
        Kind::Latch => false,
        _ => say(&[b"HEXISTS", key, id]) == Reply::Int(1),
    }
}

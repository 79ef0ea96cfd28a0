//! Outcomes: what a caller is told is true, and it is told in time.

use crate::invariants::grants::Grants;
use crate::world::client::{Outcome, PollPolicy, Task, TaskKind};
use crate::world::stats::Coverage;
use crate::world::{World, ms};
use bytes::Bytes;
use leasehold_core::call::Call;
use leasehold_core::command::Kind;
use leasehold_core::command::permits::ID_BYTES;
use leasehold_core::error::{AcquireError, MoveError, ReleaseError};
use leasehold_core::name::LockName;
use leasehold_core::reply::Reply;
use leasehold_core::session::Patience;
use rustc_hash::{FxHashMap, FxHashSet};
use std::time::Duration;

/// Whether a release's outcome is true to table 1.4.
pub(crate) fn check_release(world: &World, grants: &Grants, client: usize, task: usize, outcome: &Outcome) {
    let TaskKind::Release { guard, held, last: true, deadline, handed_on } = world.clients[client].tasks[task].kind
    else {
        return;
    };
    let now = world.local(client);
    let guard = &world.guards[guard];
    let field = &guard.field;
    let ended = grants.is_released(&guard.wire_id);
    // A copy of a release that was refused is not known: the caller believes to have lost what was released, and never the other way
    // round.
    let refused = world.doubts.refused_releases.contains(&guard.wire_id);
    match outcome {
        Outcome::Released => {
            assert!(held, "a hold that was lost was released");
            // If guards were detached, something is left of the hold. If the outcome of a call is not known, it may have been that one
            // after which there is no hold any more. A hold that was granted without the server is not there.
            // The server is not told of a hold that another task has from here on.
            let is_left = world.detached_of(client, guard.hold) > 0 || guard.cell.is_degraded() || handed_on;
            assert!(ended || is_left || world.doubts.doubtful.contains(&guard.wire_id), "nobody released {field:?}");
        }
        Outcome::NotReleased(ReleaseError::Lost(_)) => {
            // A copy that was sent after the local deadline proves nothing.
            // A lock that was to stay busy after its release, and that the server has lost since, is not known to have been released.
            let was_kept = guard.busy_until.is_some() && world.doubts.broken;
            assert!(
                !held || !ended || refused || was_kept || now >= deadline,
                "the release of {field:?} was carried out"
            );
        }
        // It is repeated in the background, which may have succeeded before a late poll.
        Outcome::NotReleased(ReleaseError::Unreachable(_) | ReleaseError::Refused(_))
            if world.clients[client].tasks[task].polls == PollPolicy::AtOnce =>
        {
            assert!(!ended || refused, "the release of {field:?} was carried out");
        }
        _ => {}
    }
}

/// A wait ends when the caller's patience does, give or take the time of one command and a half; and of another one where the server must
/// take back what the last attempt began.
pub(crate) fn check_patience(world: &World, client: usize, task: usize) {
    let state = &world.clients[client].tasks[task];
    let TaskKind::Acquire(wish) = &state.kind else { return };
    let (Some(outcome), PollPolicy::AtOnce) = (&state.outcome, state.polls) else { return };
    let leapt = world.clients[client].leapt.is_some_and(|at| at >= state.started);
    if *outcome == Outcome::Dropped || leapt {
        return;
    }
    let slack = world.clients[client].session.settings().command_timeout + ms(120);
    match wish.patience {
        Patience::Until(until) => {
            let takes_back = matches!(outcome, Outcome::NotAcquired(error) if *error != AcquireError::WaitElapsed);
            // The holds that its client has given up of the same lock may be awaited for half as long as a command. Then the server is asked
            // once more, and may wait for replicas once more.
            let half = world.clients[client].session.settings().command_timeout / 2;
            let replicas = wish.replicas.map_or(Duration::ZERO, |replicas| replicas.within);
            let slack = if takes_back { slack * 2 } else { slack + half + replicas };
            assert!(state.done <= until + slack, "waited until {:?}, not {until:?}: {outcome:?}", state.done);
            if *outcome == Outcome::NotAcquired(AcquireError::WaitElapsed) {
                assert!(state.done >= until, "gave up at {:?}, before {until:?}", state.done);
            }
            assert_ne!(*outcome, Outcome::Nothing);
        }
        Patience::Try => {
            assert!(state.done <= state.started + slack * 3, "tried until {:?}: {outcome:?}", state.done);
            assert_ne!(*outcome, Outcome::NotAcquired(AcquireError::WaitElapsed));
        }
        Patience::Forever => {
            assert_ne!(*outcome, Outcome::Nothing);
            assert_ne!(*outcome, Outcome::NotAcquired(AcquireError::WaitElapsed));
        }
    }
}

/// No caller is told of trouble that there was not.
pub(crate) fn check_reason(world: &World, client: usize, task: usize) {
    let Some(outcome) = &world.clients[client].tasks[task].outcome else { return };
    let settings = &world.plan.settings;
    let over = world.plan.ended + world.plan.under_way() + settings.unreachable_after + settings.command_timeout;
    // If a future is polled late, the time for an answer passes for the next request at the same hold, too.
    let now = world.local(client);
    let lock_of = |task: &Task| match &task.kind {
        TaskKind::Acquire(wish) | TaskKind::Adopt(wish) => wish.name.clone(),
        TaskKind::Release { guard, .. } | TaskKind::Offer { guard } => world.guards[*guard].name.clone(),
    };
    let lock = lock_of(&world.clients[client].tasks[task]);
    let is_late = |task: &Task| {
        let goes_on = task.outcome.is_none() || now.since(task.done) <= settings.command_timeout;
        goes_on && lock_of(task) == lock && !matches!(task.polls, PollPolicy::AtOnce)
    };
    let waits = || world.clients[client].tasks.iter().any(is_late);
    let fault_free = world.plan.orderly || world.plan.over && world.now > over && !waits();
    match outcome {
        Outcome::NotAcquired(
            AcquireError::Unreachable(_) | AcquireError::OutcomeUnknown(_) | AcquireError::Refused(_),
        )
        | Outcome::NotReleased(
            ReleaseError::Unreachable(_) | ReleaseError::OutcomeUnknown(_) | ReleaseError::Refused(_),
        )
        | Outcome::NotMoved(MoveError::Unreachable(_) | MoveError::OutcomeUnknown(_) | MoveError::Refused(_)) => {
            assert!(!fault_free, "nothing is wrong, and client {client} is told: {outcome:?}");
        }
        Outcome::NotAcquired(AcquireError::KeyConflict(_) | AcquireError::ExceedsCapacity { .. })
        | Outcome::NotMoved(MoveError::KeyConflict(_)) => {
            assert!(world.doubts.broken, "client {client} is told: {outcome:?}");
        }
        Outcome::NotAcquired(AcquireError::NotReplicated { .. }) => {
            assert!(world.plan.replicas.is_some(), "client {client} is told: {outcome:?}");
        }
        Outcome::NotAcquired(AcquireError::WaitElapsed | AcquireError::Lost(_) | AcquireError::UpgradeNotSupported)
        | Outcome::NotReleased(ReleaseError::Lost(_))
        | Outcome::NotMoved(MoveError::Lost(_) | MoveError::Shared(_) | MoveError::Bound(_) | MoveError::Spent) => {}
        Outcome::NotAcquired(_) | Outcome::NotMoved(MoveError::Closed) => {
            panic!("client {client} is told: {outcome:?}")
        }
        Outcome::Granted(_)
        | Outcome::Offered(_)
        | Outcome::Opened
        | Outcome::Nothing
        | Outcome::Released
        | Outcome::Dropped => {}
    }
}

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

/// What is left of the counts of latches, by a model of them beside the server.
#[derive(Debug, Default)]
pub(crate) struct Latches {
    left: FxHashMap<Bytes, i64>,
    /// Counts that have been carried out.
    counted: FxHashSet<Bytes>,
}

impl Latches {
    /// So much is left of a latch.
    pub(crate) fn set(&mut self, lock: Bytes, left: i64) {
        self.left.insert(lock, left);
    }

    /// A count arrives: it changes what is left, unless it is a copy, or the latch is open. The server must answer this.
    pub(crate) fn count_down(&mut self, call: &Call) -> [i64; 2] {
        let keys = call.keys().to_vec();
        let (lock, operation) = (&keys[0], &keys[1]);
        let left = self.left.entry(lock.clone()).or_default();
        let code = if self.counted.contains(operation) {
            2
        } else if *left == 0 {
            0
        } else {
            *left -= 1;
            self.counted.insert(operation.clone());
            1
        };
        [code, *left]
    }

    /// No caller goes through a latch that is closed.
    pub(crate) fn check(&self, world: &World, client: usize, task: usize) -> Option<Coverage> {
        let state = &world.clients[client].tasks[task];
        let TaskKind::Acquire(wish) = &state.kind else { return None };
        let left = self.left.get(wish.name.key()).copied().unwrap_or_default();
        assert!(world.doubts.broken || left == 0, "client {client} went through {} with {left} left", wish.name);
        (world.local(client).since(state.started) > Duration::from_millis(50)).then_some(Coverage::LatchOpened)
    }
}

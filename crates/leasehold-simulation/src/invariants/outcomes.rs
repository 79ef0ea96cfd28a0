//! Outcomes: what a caller is told is true, and it is told in time.

use crate::world::client::{Outcome, PollPolicy, Task, TaskKind};
use crate::world::{World, ms};
use leasehold_core::error::{AcquireError, ReleaseError};
use leasehold_core::session::Patience;
use std::time::Duration;

/// Whether a release's outcome is true to table 1.4.
pub(crate) fn check_release(world: &World, client: usize, task: usize, outcome: &Outcome) {
    let TaskKind::Release { guard, held, last: true, deadline, handed_on } = world.clients[client].tasks[task].kind
    else {
        return;
    };
    let now = world.local(client);
    let guard = &world.guards[guard];
    let field = &guard.field;
    let ended = world.invariants.grants.is_released(&guard.wire_id);
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
        TaskKind::Acquire(wish) => wish.name.clone(),
        TaskKind::Release { guard, .. } => world.guards[*guard].name.clone(),
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
        ) => assert!(!fault_free, "nothing is wrong, and client {client} is told: {outcome:?}"),
        Outcome::NotAcquired(AcquireError::KeyConflict(_) | AcquireError::ExceedsCapacity { .. }) => {
            assert!(world.doubts.broken, "client {client} is told: {outcome:?}");
        }
        Outcome::NotAcquired(AcquireError::NotReplicated { .. }) => {
            assert!(world.plan.replicas.is_some(), "client {client} is told: {outcome:?}");
        }
        Outcome::NotAcquired(AcquireError::WaitElapsed | AcquireError::Lost(_) | AcquireError::UpgradeNotSupported)
        | Outcome::NotReleased(ReleaseError::Lost(_)) => {}
        Outcome::NotAcquired(_) => panic!("client {client} is told: {outcome:?}"),
        Outcome::Granted(_) | Outcome::Opened | Outcome::Nothing | Outcome::Released | Outcome::Dropped => {}
    }
}

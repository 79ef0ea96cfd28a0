//! The requests of users: their futures, and the guards that these give.

use crate::world::client::{Client, Flag, Guard, Outcome, PollPolicy, TaskKind};
use crate::world::events::WorldEvent;
use crate::world::history::Fact;
use crate::world::stats::Coverage;
use crate::world::{World, trace};
use leasehold_core::command::{HoldKey, Kind};
use leasehold_core::error::{AcquireError, HoldEnd, LossReason, ReleaseError};
use leasehold_core::hold_cell::EndWatch;
use leasehold_core::session::{AcquireRequest, Fallback, Granted, Outgoing};
use leasehold_core::time::Instant;
use std::mem::discriminant;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;

impl World {
    /// Starts an acquire whose future is polled as `polls` says; the first poll is at once.
    pub(crate) fn acquire_polled(&mut self, client: usize, wish: AcquireRequest, polls: PollPolicy) -> usize {
        self.stats.operations += 1;
        let now = self.local(client);
        let ticket = self.clients[client].session.acquire(now, wish.clone());
        trace!(
            self,
            "o{}: client {client} acquires {} as {ticket:?} {:?} {polls:?} {:?} {:?}",
            self.parts.acting,
            wish.name,
            wish.patience,
            wish.owner,
            wish.fallback
        );
        let task = self.clients[client].add_task(now, ticket, TaskKind::Acquire(Box::new(wish)), polls);
        self.clients[client].tasks[task].number = self.parts.acting;
        self.poll(client, task);
        task
    }

    /// Starts the release of a guard.
    pub(crate) fn release_polled(&mut self, guard: usize, polls: PollPolicy) -> usize {
        let Guard { client, hold, renewed, ref cell, .. } = self.guards[guard];
        self.stats.operations += 1;
        let now = self.clients[client].clock.shows(self.now);
        let held = cell.ended(now).is_none();
        let deadline = cell.deadline();
        self.guards[guard].alive = false;
        let unread = self.clients[client].session.unread_grants(hold);
        let last = self.guards_of(client, hold) + unread == 0;
        let before = self.clients[client].session.hand_overs();
        let ticket = self.clients[client].session.release(now, hold, renewed);
        let lingers = self.clients[client].session.lingers(hold);
        self.stats.reach_all(lingers.then_some(Coverage::Lingered));
        let handed_on = self.clients[client].session.hand_overs() > before || lingers;
        trace!(self, "g{}: client {client} releases {hold:?} as {ticket:?} {polls:?}", self.guards[guard].number);
        let kind = TaskKind::Release { guard, held, last, deadline, handed_on };
        let task = self.clients[client].add_task(now, ticket, kind, polls);
        self.clients[client].tasks[task].number = self.guards[guard].number;
        self.poll(client, task);
        task
    }

    pub(crate) fn drop_guard(&mut self, guard: usize) {
        let Guard { client, hold, renewed, .. } = self.guards[guard];
        trace!(self, "g{}: client {client} drops a guard of {hold:?}", self.guards[guard].number);
        self.guards[guard].alive = false;
        self.stats.operations += 1;
        let now = self.local(client);
        self.clients[client].session.drop_guard(now, hold, renewed);
        self.look_after(client);
    }

    pub(crate) fn detach(&mut self, guard: usize) {
        let Guard { client, hold, renewed, .. } = self.guards[guard];
        trace!(self, "g{}: client {client} detaches a guard of {hold:?}", self.guards[guard].number);
        self.guards[guard].alive = false;
        self.guards[guard].detached = true;
        self.stats.operations += 1;
        let now = self.local(client);
        self.clients[client].session.detach(now, hold, renewed);
        self.look_after(client);
    }

    /// The future of a task is dropped.
    pub(crate) fn abandon(&mut self, client: usize, task: usize) {
        let state = &mut self.clients[client].tasks[task];
        if state.outcome.is_some() {
            return;
        }
        state.outcome = Some(Outcome::Dropped);
        let ticket = state.ticket;
        trace!(self, "client {client} drops the future of {ticket:?}");
        let now = self.local(client);
        let Client { session, tasks, .. } = &mut self.clients[client];
        match tasks[task].kind {
            TaskKind::Acquire(_) => session.abandon_acquire(now, ticket),
            TaskKind::Release { .. } => session.abandon_release(now, ticket),
            TaskKind::Offer { .. } => session.abandon_offer(now, ticket),
            TaskKind::Adopt(_) => session.abandon_adopt(now, ticket),
        }
        self.finished.push((client, task));
        self.look_after(client);
    }

    /// Has every future that was woken polled in its own time.
    pub(crate) fn plan_polls(&mut self, client: usize) {
        for task in 0..self.clients[client].tasks.len() {
            let state = &mut self.clients[client].tasks[task];
            if state.outcome.is_some() || state.poll_planned || !state.flag.take() {
                continue;
            }
            let pause = match state.polls {
                PollPolicy::AtOnce => Duration::ZERO,
                PollPolicy::Late(pause) => pause,
                PollPolicy::Never => continue,
            };
            state.poll_planned = true;
            self.after(pause, WorldEvent::Poll { client, task });
        }
    }

    /// Polls the future of a task, once.
    pub(crate) fn poll(&mut self, client: usize, task: usize) {
        let state = &mut self.clients[client].tasks[task];
        state.poll_planned = false;
        if state.outcome.is_some() {
            return;
        }
        self.ask(client, task);
        self.look_after(client);
    }

    /// Polls the session for a future's outcome.
    fn ask(&mut self, client: usize, task: usize) {
        let now = self.local(client);
        let state = &mut self.clients[client].tasks[task];
        let (ticket, waker) = (state.ticket, Waker::from(state.flag.clone()));
        let Client { session, tasks, .. } = &mut self.clients[client];
        let before = session.resumed();
        let outcome = match tasks[task].kind {
            TaskKind::Acquire(_) => match session.poll_acquire(now, ticket, &waker) {
                Poll::Pending => return self.send_calls(client, Some(task)),
                Poll::Ready(Ok(Some(_))) if self.is_latch(client, task) => Outcome::Opened,
                Poll::Ready(Ok(Some(granted))) => Outcome::Granted(self.add_guard(client, task, granted)),
                Poll::Ready(Ok(None)) => Outcome::Nothing,
                Poll::Ready(Err(error)) => Outcome::NotAcquired(error),
            },
            TaskKind::Offer { .. } => match session.poll_offer(now, ticket, &waker) {
                Poll::Pending => return self.send_calls(client, Some(task)),
                Poll::Ready(Ok(offered)) => Outcome::Offered(offered),
                Poll::Ready(Err(error)) => Outcome::NotMoved(error),
            },
            TaskKind::Adopt(_) => match session.poll_adopt(ticket, &waker) {
                Poll::Pending => return self.send_calls(client, Some(task)),
                Poll::Ready(Ok(granted)) => Outcome::Granted(self.add_guard(client, task, granted)),
                Poll::Ready(Err(error)) => Outcome::NotMoved(error),
            },
            TaskKind::Release { .. } => match session.poll_release(now, ticket, &waker) {
                Poll::Pending => return self.send_calls(client, Some(task)),
                Poll::Ready(Ok(())) => Outcome::Released,
                Poll::Ready(Err(error)) => Outcome::NotReleased(error),
            },
        };
        let resumed = self.clients[client].session.resumed() > before;
        self.stats.reach_all(resumed.then_some(Coverage::Resumed));
        trace!(self, "client {client} {ticket:?} ends: {outcome:?}{}", if resumed { " (lingered)" } else { "" });
        self.stats.digest.record((self.now, client, task, discriminant(&outcome)));
        self.tell(Fact::Told { client, task, outcome: &outcome });
        self.note_outcome(&outcome);
        let state = &mut self.clients[client].tasks[task];
        state.outcome = Some(outcome);
        state.done = now;
        self.finished.push((client, task));
    }

    /// Sends the session's calls, for the polled task or for the background.
    pub(crate) fn send_calls(&mut self, client: usize, task: Option<usize>) {
        while let Some(Outgoing { id, call, of_request, .. }) = self.clients[client].session.poll_call() {
            match task.filter(|_| of_request) {
                Some(task) => self.send_by_task(client, task, id, call),
                None => self.send_by_background(client, id, call),
            }
        }
    }

    fn add_guard(&mut self, client: usize, task: usize, granted: Granted) -> usize {
        let number = self.clients[client].tasks[task].number;
        let (TaskKind::Acquire(wish) | TaskKind::Adopt(wish)) = &self.clients[client].tasks[task].kind else {
            panic!("a release was granted")
        };
        let now = self.local(client);
        // A grant without the server may be refused there before its future reads it, and a lease that is not renewed, or `max_hold`, may run
        // out before that. The guard says so from the start.
        let end = granted.cell.would_end(now);
        let refused = end == Some(HoldEnd::Lost(LossReason::NotRestored));
        let is_limited = !granted.renewed || end == Some(HoldEnd::Lost(LossReason::MaxHold));
        let runs_out = granted.cell.is_degraded() && is_limited && matches!(end, Some(HoldEnd::Lost(_)));
        assert!(refused || runs_out || end.is_none(), "a grant was handed out that has ended");
        assert_eq!(granted.renewed, wish.renewed);
        let ended: Arc<Flag> = Arc::default();
        let mut watch = EndWatch::new(granted.cell.clone());
        if !watch.wake_at_end(&Waker::from(ended.clone())) {
            Waker::from(ended.clone()).wake();
        }
        // A hold that was handed on has the field of the first of its holders.
        let field = granted.cell.field();
        let hold = HoldKey::new(field.clone(), wish.permits);
        let wire_id = self.wire_id(client, wish.kind, &wish.name, &hold);
        let known = self.guards.iter().rfind(|guard| (guard.client, guard.hold) == (client, granted.hold));
        if self.clients[client].tasks[task].is_answered_now {
            // A grant may be read late, after other guards ended and other grants arrived.
            let guards = self.guards_of(client, granted.hold) + self.detached_of(client, granted.hold) + 1;
            let count = guards + self.clients[client].session.unread_grants(granted.hold);
            assert!(
                granted.count as usize == count || granted.cell.is_degraded() || granted.handed_on,
                "the hold count of a grant is {}, and not {count}",
                granted.count
            );
        }
        let fell_back = known.map_or_else(|| granted.cell.is_degraded(), |guard| guard.fell_back);
        let passes_through =
            known.map_or(fell_back && wish.fallback == Fallback::PassThrough, |guard| guard.passes_through);
        let guard = Guard {
            client,
            hold: granted.hold,
            number,
            cell: granted.cell.clone(),
            renewed: granted.renewed,
            lease: wish.lease,
            name: wish.name.clone(),
            kind: wish.kind,
            owner: wish.owner,
            permits: wish.permits,
            limited: wish.max_hold.is_some(),
            field,
            wire_id,
            alive: true,
            detached: false,
            ended,
            _watch: watch,
            over: false,
            passed: false,
            fell_back,
            passes_through,
            epoch_of_data: 0,
            until: Instant::default(),
            busy_until: None,
        };
        let is_beside = |other: &Guard| {
            other.client == client && other.alive && other.renewed && other.lease != guard.lease && self.believes(other)
        };
        if guard.renewed && self.guards.iter().any(is_beside) {
            self.stats.reach(Coverage::SeveralLeases);
        }
        let is_of_another = |other: &Guard| {
            let halves = matches!(guard.kind, Kind::Read | Kind::Write);
            !halves && other.client == client && other.alive && other.kind != guard.kind && self.believes(other)
        };
        if self.guards.iter().any(is_of_another) {
            self.stats.reach(Coverage::SeveralFamilies);
        }
        if granted.count > 1 {
            self.stats.reach(Coverage::Reentry);
        }
        if granted.handed_on {
            let hands_on = self.clients[client].session.settings().hand_over.is_some();
            self.stats.reach_all(hands_on.then_some(Coverage::HandedOn));
        }
        if self.clients[client].lost.remove(guard.name.key()) {
            self.stats.reach(Coverage::LostThenReacquired);
        }
        self.guards.push(guard);
        let guard = self.guards.len() - 1;
        let Granted { count, handed_on, .. } = granted;
        self.tell(Fact::Granted { guard, count, handed_on, ended: refused });
        guard
    }

    fn note_outcome(&mut self, outcome: &Outcome) {
        match outcome {
            Outcome::NotAcquired(AcquireError::WaitElapsed) => self.stats.reach(Coverage::WaitElapsed),
            Outcome::NotAcquired(AcquireError::OutcomeUnknown(_))
            | Outcome::NotReleased(ReleaseError::OutcomeUnknown(_)) => self.stats.reach(Coverage::OutcomeUnknown),
            Outcome::NotAcquired(AcquireError::Unreachable(_)) => self.stats.reach(Coverage::Unreachable),
            Outcome::NotAcquired(AcquireError::NotReplicated { .. }) => self.stats.reach(Coverage::NotReplicated),
            _ => {}
        }
    }

    fn is_latch(&self, client: usize, task: usize) -> bool {
        matches!(&self.clients[client].tasks[task].kind, TaskKind::Acquire(wish) if wish.kind == Kind::Latch)
    }
}

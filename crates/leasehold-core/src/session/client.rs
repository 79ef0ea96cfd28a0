//! The client itself: its record on the server, and its shutdown.
//!
//! It also says which locks the client holds and waits for, as far as that has lasted for a while. So it is written again when that has
//! changed, for which the client looks once in a while, and not at each acquire.

use crate::call::Call;
use crate::command::record;
use crate::command::record::uses::{LockUse, MOST};
use crate::error::{AcquireError, LossReason};
use crate::link::LinkError;
use crate::name::LockName;
use crate::owner::{ClientId, HoldNumber, OwnerId};
use crate::reply::Reply;
use crate::session::calls::Purpose;
use crate::session::hold::Hold;
use crate::session::lock::LockId;
use crate::session::request::{Acquire, Request};
use crate::session::{AcquireRequest, Patience, Session, Ticket};
use crate::time::Instant;
use std::collections::HashSet;
use std::time::Duration;

/// How soon a record is written again that could not be written.
const AGAIN: Duration = Duration::from_secs(1);

/// How long lies between two looks at what the client holds and waits for, so that the record is written no more often.
const LOOK: Duration = Duration::from_secs(1);

/// The record of a client, if it keeps one.
#[derive(Debug, Default)]
pub(super) struct ClientRecord(Option<Kept>);

/// A record that is kept on the server.
#[derive(Debug)]
struct Kept {
    record: record::ClientRecord,
    lifetime: Duration,
    /// The time of the first record.
    since: Instant,
    state: State,
    /// The locks that the server was told of last.
    told: Vec<LockUse>,
    /// When the client looks again whether they are others.
    look_at: Instant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// It is written at this instant.
    Due(Instant),
    /// It is being written.
    Writing,
}

impl ClientRecord {
    /// When the record is to be written next, or to be looked at. A client that `is_idle` holds nothing and waits for nothing.
    pub(super) fn next(&self, is_idle: bool) -> Option<Instant> {
        let kept = self.0.as_ref()?;
        match kept.state {
            State::Due(at) if is_idle && kept.told.is_empty() => Some(at),
            State::Due(at) => Some(at.min(kept.look_at)),
            State::Writing => None,
        }
    }

    /// Whether it is to be written now, or to be looked at whether what it says has changed.
    pub(super) fn is_due(&self, now: Instant, is_idle: bool) -> bool {
        self.next(is_idle).is_some_and(|at| at <= now)
    }

    /// Keeps this record from now on.
    pub(super) fn keep(&mut self, now: Instant, record: record::ClientRecord, lifetime: Duration) {
        let (since, state, look_at) = (now, State::Due(now), now + LOOK);
        self.0 = Some(Kept { record, lifetime, since, state, told: Vec::new(), look_at });
    }

    /// Keeps no record any more. Says whether there was one.
    pub(super) fn give_up(&mut self) -> bool {
        self.0.take().is_some()
    }

    /// The call that writes the record with these locks, if it is time to, or if they are others than those that the server was told of.
    pub(super) fn write(&mut self, now: Instant, client: &ClientId, uses: Vec<LockUse>) -> Option<Call> {
        let kept = self.0.as_mut()?;
        let State::Due(at) = kept.state else { return None };
        if kept.look_at <= now {
            kept.look_at = now + LOOK;
        }
        let is_told = uses.len() == kept.told.len() && uses.iter().zip(&kept.told).all(|(now, told)| now.is_same(told));
        if at > now && is_told {
            return None;
        }
        kept.state = State::Writing;
        kept.told = uses;
        Some(record::put(client, &kept.record, now.since(kept.since), &kept.told, kept.lifetime))
    }

    /// Takes the answer to a writing of the record. A record that was replaced meanwhile is about to be written.
    pub(super) fn written(&mut self, now: Instant, was_written: bool) {
        if let Some(kept) = self.0.as_mut().filter(|kept| kept.state == State::Writing) {
            kept.state = State::Due(now + if was_written { kept.lifetime / 3 } else { AGAIN });
        }
    }
}

// ===== The record on the server =====
//
// The writing and the removal of the client's record of itself, and what it says of locks.

/// How long a client has held a lock, or waited for it, before its record says so.
const LASTING: Duration = Duration::from_secs(1);

/// The most requests of a record. The rest of it is for holds.
const MOST_REQUESTS: usize = MOST / 2;

/// The owners that go on only when the request is over.
fn blocked(wish: &AcquireRequest) -> impl Iterator<Item = OwnerId> {
    wish.owner.into_iter().chain(wish.outer.iter().flat_map(|outer| outer.0.iter().copied()))
}

/// The `most` that come first by their keys, in order. There may be many more.
fn first<K: Ord, T>(most: usize, all: impl Iterator<Item = (K, T)>) -> Vec<T> {
    let mut all: Vec<_> = all.collect();
    if all.len() > most {
        all.select_nth_unstable_by(most, |(one, _), (other, _)| one.cmp(other));
        all.truncate(most);
    }
    all.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
    all.into_iter().map(|(_, value)| value).collect()
}

impl Session {
    /// Keeps a record of this client on the server, which goes away `lifetime` after the client does.
    pub fn announce(&mut self, now: Instant, record: record::ClientRecord, lifetime: Duration) {
        self.record.keep(now, record, lifetime);
    }

    /// Removes the client's record, if there is one. A record that cannot be removed goes away by itself.
    pub fn retract(&mut self, now: Instant) {
        if self.record.give_up() {
            self.send_by_background(now, record::remove(&self.client), Purpose::Nothing);
        }
    }

    /// Whether the client holds nothing and waits for nothing.
    pub(super) fn is_idle(&self) -> bool {
        self.holds.is_empty() && self.requests.len() == 0
    }

    /// Writes the record if it is time to, or if it has to say something else of locks.
    pub(super) fn record_is_due(&mut self, now: Instant) {
        if !self.record.is_due(now, self.is_idle()) {
            return;
        }
        let uses = self.lock_uses(now);
        if let Some(call) = self.record.write(now, &self.client, uses) {
            self.send_by_background(now, call, Purpose::Record);
        }
    }

    /// The locks that the client has waited for, and has held, for a while. Requests come first whose owners hold something, because they
    /// may be part of a deadlock; among these, and among the others, the oldest. The holds of those owners follow, and then other holds.
    fn lock_uses(&self, now: Instant) -> Vec<LockUse> {
        let has_lasted = |since: Instant| now.since(since) >= LASTING;
        let owning: HashSet<OwnerId> =
            self.owners.iter().filter(|(.., owned)| !owned.holds.is_empty()).map(|(_, owner, _)| owner).collect();
        let requests = self.requests.acquires().filter(|(_, acquire)| {
            acquire.is_open()
                && acquire.entering().is_none()
                && acquire.wish.patience != Patience::Try
                && has_lasted(acquire.started)
        });
        let requests = requests.map(|(ticket, acquire)| {
            let may_lock = blocked(&acquire.wish).any(|owner| owning.contains(&owner));
            ((!may_lock, acquire.started, ticket), acquire)
        });
        let requests = first(MOST_REQUESTS, requests);
        let waiting: HashSet<OwnerId> = requests.iter().flat_map(|acquire| blocked(&acquire.wish)).collect();
        let holds = self
            .holds
            .iter()
            .filter(|(_, hold)| hold.is_live() && !hold.is_degraded() && has_lasted(hold.cell.acquired_at()));
        let holds = holds.map(|(number, hold)| {
            let may_lock = hold.owner.is_some_and(|owner| waiting.contains(&owner));
            ((!may_lock, hold.cell.acquired_at(), number), hold)
        });
        let holds = first(MOST - requests.len(), holds);
        let of_request = |acquire: &Acquire| {
            let owners = blocked(&acquire.wish).map(OwnerId::number).collect();
            self.lock_use(acquire.lock, None, owners, now.since(acquire.started), None)
        };
        let of_hold = |hold: &Hold| {
            let field = String::from_utf8_lossy(&hold.field()).into_owned();
            let owners = hold.owner.into_iter().map(OwnerId::number).collect();
            self.lock_use(hold.lock, Some(field), owners, now.since(hold.cell.acquired_at()), hold.renewed_lease())
        };
        requests.into_iter().map(of_request).chain(holds.into_iter().map(of_hold)).collect()
    }

    fn lock_use(
        &self,
        lock: LockId,
        hold: Option<String>,
        owners: Vec<u64>,
        lasted: Duration,
        lease: Option<Duration>,
    ) -> LockUse {
        let state = &self.locks[lock];
        let key = String::from_utf8_lossy(state.name.key()).into_owned();
        LockUse { key, kind: state.kind, hold, owners, lasted, lease }
    }

    /// Takes the answer to a writing of the record.
    pub(super) fn handle_recorded(&mut self, now: Instant, result: &Result<Reply, LinkError>) {
        self.record.written(now, result.as_ref().is_ok_and(|reply| record::put_done(reply).is_ok()));
    }
}

// ===== Shutdown =====
//
// The shutdown of a client: grants stop, guards end, and the remaining guards are lost.
//
// | step | effect |
// |---|---|
// | `close` | waiting callers fail; unread grants and lingering holds are released |
// | time passes | guards end as usual; holds with a guard are renewed |
// | `lose_all` | the remaining guards are lost; a lock is released only when its last guard is gone |
// | `end` | pending releases fail: the session sends nothing more |

impl Session {
    /// Stops granting: every waiting caller is told so, and every later acquire is refused. Holds stay as they are.
    pub fn close(&mut self, now: Instant) {
        self.closed = true;
        let mut waiting: Vec<Ticket> = self.requests.acquires().map(|(ticket, _)| ticket).collect();
        waiting.sort_unstable();
        for ticket in waiting {
            self.take_grant_back(now, ticket);
            self.fail_acquire(now, ticket, AcquireError::Closed);
        }
        self.stop_all_lingering(now);
        self.stop_all_listening();
    }

    /// An unread grant does not count: its caller gets the error that the client is closed.
    fn take_grant_back(&mut self, now: Instant, ticket: Ticket) {
        let Some(acquire) = self.requests.acquire_mut(ticket) else { return };
        if !matches!(acquire.outcome(), Some(Ok(Some(_)))) {
            return;
        }
        let granted = acquire.take_outcome().and_then(Result::ok).flatten();
        acquire.end(Err(AcquireError::Closed));
        if let Some(granted) = granted {
            self.drop_guard(now, granted.hold, granted.renewed);
        }
    }

    /// Loses every hold with a guard; the last guard's drop releases the hold. Ends every pause. Returns whether a hold
    /// was lost.
    pub fn lose_all(&mut self, now: Instant) -> bool {
        self.lost_all = true;
        let pauses = self.requests.iter().filter(|(_, request)| matches!(request, Request::Pause(_)));
        let pauses: Vec<Ticket> = pauses.map(|(ticket, _)| ticket).collect();
        pauses.into_iter().for_each(|ticket| self.wake(ticket));
        let guarded = self.holds.iter().filter(|(_, hold)| hold.is_granted() && hold.has_guards());
        let mut guarded: Vec<HoldNumber> = guarded.map(|(number, _)| number).collect();
        guarded.sort_unstable();
        for number in &guarded {
            self.lose(now, *number, LossReason::ShutDown);
            self.reconcile(now, *number);
        }
        !guarded.is_empty()
    }

    /// Ends the session when its driver stops: closes it, loses every hold with a guard, and fails pending releases.
    pub fn end(&mut self, now: Instant) {
        self.close(now);
        self.lose_all(now);
        let open = self.requests.iter().filter_map(|(ticket, request)| match request {
            Request::Release(release) if release.outcome.is_none() => Some((ticket, release.hold)),
            _ => None,
        });
        for (ticket, number) in open.collect::<Vec<_>>() {
            self.give_up_release(ticket, number, "no reply came before the client was shut down");
        }
    }

    /// Whether nothing of this client can be left on the server, and nothing is subscribed to.
    pub fn is_quiet(&self) -> bool {
        self.holds.is_empty() && self.subscriptions.is_empty()
    }

    /// Whether nothing of this client's holds may be on the server. A subscription may be: it ends with its
    /// connection.
    pub fn holds_nothing(&self) -> bool {
        self.holds.is_empty()
    }

    /// Whether a hold that no guard has any more may still be on the server.
    pub fn has_clean_up(&self) -> bool {
        self.holds.iter().map(|(_, hold)| hold).any(|hold| !hold.has_guards())
    }

    /// The locks of which something may be left on the server, by name.
    pub fn unreleased(&self) -> Vec<LockName> {
        let mut names: Vec<LockName> =
            self.holds.iter().map(|(_, hold)| hold).map(|hold| self.locks[hold.lock].name.clone()).collect();
        names.sort_unstable_by(|one, other| one.as_str().cmp(other.as_str()));
        names.dedup();
        names
    }
}

#[cfg(test)]
mod tests;

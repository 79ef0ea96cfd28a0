//! The client itself: its record on the server, and its shutdown.
//!
//! The record lists the locks that the client has held, or waited for, for a while. The client compares it with its holds once a second, not
//! at each acquire, and writes it again if they differ.
//!
//! # Shutdown
//!
//! | step | effect |
//! |---|---|
//! | `close` | waiting callers fail; unread grants and lingering holds are released |
//! | time passes | guards end as usual; holds with a guard are renewed |
//! | `lose_all` | the remaining guards are lost; a lock is released only when its last guard is gone |
//! | `end` | pending releases fail: the session sends nothing more |

use crate::call::Call;
use crate::command::record;
use crate::command::record::uses::{LockUse, MOST};
use crate::error::{AcquireError, LossReason};
use crate::name::LockName;
use crate::owner::{ClientId, OwnerId};
use crate::session::calls::Purpose;
use crate::session::hold::Hold;
use crate::session::lock::LockId;
use crate::session::renew::outcome_of_extension;
use crate::session::request::RequestKind;
use crate::session::{AcquireRequest, Patience, Session, Ticket};
use crate::time::Instant;
use std::collections::HashSet;
use std::time::Duration;

const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// Time between two comparisons of the record with the client's locks.
const COMPARE_INTERVAL: Duration = Duration::from_secs(1);

/// How long a client has held a lock, or waited for it, before the record lists it.
const MIN_LISTED_TIME: Duration = Duration::from_secs(1);

/// The most requests of a record. The rest of it is for holds.
const MOST_REQUESTS: usize = MOST / 2;

impl Session {
    /// Keeps a record of this client on the server. The record expires `lifetime` after its last write.
    pub fn announce(&mut self, now: Instant, record: record::ClientRecord, lifetime: Duration) {
        self.record = Some(Box::new(Kept::new(now, record, lifetime)));
    }

    /// Keeps the client's record on the server until `until`, also beyond the end of the client.
    pub fn outlive(&mut self, until: Instant) {
        if let Some(kept) = &mut self.record {
            kept.outlives = kept.outlives.max(Some(until));
        }
    }

    /// Removes the client's record, if there is one, or leaves it without locks for the time of [`outlive`](Self::outlive). If the call
    /// fails, the record expires.
    pub fn retract(&mut self, now: Instant) {
        if let Some(kept) = self.record.take() {
            let call = match kept.outlives.filter(|until| *until > now) {
                Some(until) => record::put(&self.client, &kept.record, now.since(kept.since), &[], until.since(now)),
                None => record::remove(&self.client),
            };
            self.send(now, call, Purpose::Nothing);
        }
    }

    /// The next write of the record, or its next comparison with the client's locks.
    pub(super) fn next_record(&self) -> Option<Instant> {
        self.record.as_ref()?.next(self.is_idle())
    }

    pub(super) fn record_is_due(&mut self, now: Instant) {
        if self.next_record().is_none_or(|at| at > now) {
            return;
        }
        let uses = self.lock_uses(now);
        if let Some(call) = self.record.as_mut().and_then(|kept| kept.write(now, &self.client, uses)) {
            self.send(now, call, Purpose::Record);
        }
    }

    /// Plans the next write after a reply. Ignores the reply to a record that was replaced.
    pub(super) fn record_written(&mut self, now: Instant, was_written: bool) {
        if let Some(kept) = self.record.as_mut().filter(|kept| kept.write_at.is_none()) {
            kept.write_at = Some(now + if was_written { kept.lifetime / 3 } else { RETRY_PAUSE });
        }
    }

    /// Whether the client holds nothing and waits for nothing.
    pub(super) fn is_idle(&self) -> bool {
        self.holds.is_empty() && self.requests.0.is_empty()
    }

    /// The locks that the client has waited for, and has held, for a while; the oldest first.
    ///
    /// Requests whose owners hold a lock precede other requests, because they may be part of a deadlock. Holds whose owners wait precede
    /// other holds.
    fn lock_uses(&self, now: Instant) -> Vec<LockUse> {
        let has_lasted = |since: Instant| now.since(since) >= MIN_LISTED_TIME;
        let owning: HashSet<OwnerId> =
            self.owners.iter().filter(|(.., owned)| !owned.holds.is_empty()).map(|(_, owner, _)| owner).collect();
        let requests = self.requests.acquires().filter(|(_, acquire)| {
            acquire.is_open()
                && acquire.entering().is_none()
                && acquire.request.patience != Patience::Try
                && has_lasted(acquire.started)
        });
        let requests = requests.map(|(ticket, acquire)| {
            let may_lock = blocked_owners(&acquire.request).any(|owner| owning.contains(&owner));
            ((!may_lock, acquire.started, ticket), acquire)
        });
        let requests = smallest(MOST_REQUESTS, requests);
        let waiting: HashSet<OwnerId> = requests.iter().flat_map(|acquire| blocked_owners(&acquire.request)).collect();
        let is_listed =
            |hold: &Hold| hold.is_live() && !hold.state.is_degraded() && has_lasted(hold.cell.acquired_at());
        let holds = self.holds.iter().filter(|(_, hold)| is_listed(hold)).map(|(number, hold)| {
            let may_lock = hold.owner.is_some_and(|owner| waiting.contains(&owner));
            ((!may_lock, hold.cell.acquired_at(), number), hold)
        });
        let holds = smallest(MOST - requests.len(), holds);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let lock_use = |lock: LockId, owners: Vec<u64>, since: Instant, hold: Option<&Hold>| LockUse {
            key: text(self.locks[lock].name.key()),
            kind: self.locks[lock].kind,
            hold: hold.map(|hold| text(&hold.cell.field())),
            owners,
            lasted: now.since(since),
            lease: hold.filter(|hold| hold.count.is_renewed()).map(|hold| hold.lease),
        };
        let of_requests = requests.into_iter().map(|acquire| {
            let owners = blocked_owners(&acquire.request).map(OwnerId::number).collect();
            lock_use(acquire.lock, owners, acquire.started, None)
        });
        let of_holds = holds.into_iter().map(|hold| {
            let owners = hold.owner.into_iter().map(OwnerId::number).collect();
            lock_use(hold.lock, owners, hold.cell.acquired_at(), Some(hold))
        });
        of_requests.chain(of_holds).collect()
    }
}

/// The owners that cannot go on before the request ends.
fn blocked_owners(request: &AcquireRequest) -> impl Iterator<Item = OwnerId> {
    request.owner.into_iter().chain(request.outer.iter().flat_map(|outer| outer.0.iter().copied()))
}

/// The values of the `most` smallest keys, sorted by key. Linear in the number of all values.
fn smallest<K: Ord, T>(most: usize, all: impl Iterator<Item = (K, T)>) -> Vec<T> {
    let mut all: Vec<_> = all.collect();
    if all.len() > most {
        all.select_nth_unstable_by(most, |(one, _), (other, _)| one.cmp(other));
        all.truncate(most);
    }
    all.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
    all.into_iter().map(|(_, value)| value).collect()
}

/// The client's record, and when the client writes it.
#[derive(Debug)]
pub(super) struct Kept {
    record: record::ClientRecord,
    lifetime: Duration,
    since: Instant,
    /// The next write; `None` while a write is in flight.
    write_at: Option<Instant>,
    written: Vec<LockUse>,
    compare_at: Instant,
    /// The time at which the record expires after the client ends.
    outlives: Option<Instant>,
}

impl Kept {
    fn new(now: Instant, record: record::ClientRecord, lifetime: Duration) -> Self {
        let (write_at, compare_at) = (Some(now), now + COMPARE_INTERVAL);
        Self { record, lifetime, since: now, write_at, written: Vec::new(), compare_at, outlives: None }
    }

    /// An idle client with an empty record does not compare.
    fn next(&self, is_idle: bool) -> Option<Instant> {
        let at = self.write_at?;
        Some(if is_idle && self.written.is_empty() { at } else { at.min(self.compare_at) })
    }

    /// The call that writes the record with these locks, if the write is due or the locks differ from the last write.
    fn write(&mut self, now: Instant, client: &ClientId, uses: Vec<LockUse>) -> Option<Call> {
        let at = self.write_at?;
        if self.compare_at <= now {
            self.compare_at = now + COMPARE_INTERVAL;
        }
        let is_same = uses.len() == self.written.len()
            && uses.iter().zip(&self.written).all(|(now, written)| now.is_same(written));
        if at > now && is_same {
            return None;
        }
        self.write_at = None;
        self.written = uses;
        Some(record::put(client, &self.record, now.since(self.since), &self.written, self.lifetime))
    }
}

/// Shutdown.
impl Session {
    /// Stops granting: every waiting acquire fails, and every later acquire. Releases grants that no future has read. Other holds stay.
    pub fn close(&mut self, now: Instant) {
        self.closed = true;
        let mut waiting: Vec<Ticket> = self.requests.acquires().map(|(ticket, _)| ticket).collect();
        waiting.sort_unstable();
        for ticket in waiting {
            let acquire = &mut self.requests[ticket];
            if let Some(granted) = acquire.take_granted() {
                acquire.end(Err(AcquireError::Closed));
                self.drop_guard(now, granted.hold, granted.renewed);
            }
            self.fail_acquire(now, ticket, AcquireError::Closed);
        }
        self.stop_all_lingering(now);
        let listening: Vec<LockId> = self.listening.keys().copied().collect();
        listening.into_iter().for_each(|lock| self.stop_listening(lock));
    }

    /// Loses every hold with a guard; the last guard's drop releases the hold. Ends every pause. Returns whether a hold was lost.
    pub fn lose_all(&mut self, now: Instant) -> bool {
        self.lost_all = true;
        let pauses = self.requests.0.iter().filter(|(_, request)| matches!(request.kind, RequestKind::Pause { .. }));
        let pauses: Vec<Ticket> = pauses.map(|(ticket, _)| ticket).collect();
        pauses.into_iter().for_each(|ticket| self.wake(ticket));
        let guarded = self.holds_where(|hold| hold.state.is_granted() && hold.count.has_guards());
        for number in &guarded {
            self.lose(now, *number, LossReason::ShutDown);
            self.reconcile(now, *number);
        }
        !guarded.is_empty()
    }

    /// Ends the session when its driver stops: closes it, loses every hold with a guard, and fails pending requests.
    pub fn end(&mut self, now: Instant) {
        self.close(now);
        self.lose_all(now);
        let why = "no reply came before the client was shut down";
        let open: Vec<Ticket> = self.requests.0.iter().map(|(ticket, _)| ticket).collect();
        for ticket in open {
            let Some(request) = self.requests.0.get(ticket) else { continue };
            match &request.kind {
                RequestKind::Release { hold, outcome: None } => self.give_up_release(ticket, *hold, why),
                RequestKind::Extension { .. } => {
                    self.set_result(ticket, outcome_of_extension, Err(AcquireError::Lost(LossReason::ShutDown)));
                }
                RequestKind::Offer { .. } | RequestKind::Adoption { .. } => self.end_move(now, ticket, why),
                RequestKind::Release { .. } | RequestKind::Acquire(_) | RequestKind::Pause { .. } => {}
            }
        }
    }

    /// Whether the server can have no hold of this client. A subscription may exist: it ends with its connection.
    pub fn holds_nothing(&self) -> bool {
        self.holds.is_empty()
    }

    /// Whether the server may have a hold without a guard.
    pub fn has_clean_up(&self) -> bool {
        self.holds.iter().any(|(_, hold)| !hold.count.has_guards())
    }

    /// The names of the locks of which the server may have a hold, sorted.
    pub fn unreleased(&self) -> Vec<LockName> {
        let mut names: Vec<LockName> = self.holds.iter().map(|(_, hold)| self.locks[hold.lock].name.clone()).collect();
        names.sort_unstable_by(|one, other| one.as_str().cmp(other.as_str()));
        names.dedup();
        names
    }
}

#[cfg(test)]
mod tests;

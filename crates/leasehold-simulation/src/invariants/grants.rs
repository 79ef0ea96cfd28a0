//! Grants and releases as the server sees them: who follows whom, in what order, and with which fencing token.

use crate::faults::server::OF_NO_EPOCH;
use crate::report::stats::Coverage;
use crate::workload::family::{CAPACITY, LockFamily};
use crate::world::client::Guard;
use crate::world::{World, trace};
use bytes::Bytes;
use leasehold_core::call::Call;
use leasehold_core::command::Kind;
use leasehold_core::command::permits::ID_BYTES;
use leasehold_core::session::Granted;
use leasehold_core::settings::Settings;
use leasehold_core::time::Instant;
use std::time::Duration;

/// The holder of a lock on the server, so far as it was granted.
#[derive(Debug, Default)]
pub(crate) struct Tenure {
    /// The last hold that was granted, unless it was released.
    holder: Option<Bytes>,
    /// The client that released it last, unless another got it since.
    released_by: Option<usize>,
}

/// The server's grant to a hold.
#[derive(Debug, Default)]
pub(crate) struct Grant {
    /// The lock.
    pub(crate) lock: Bytes,
    /// How often the server had lost its data, or its clock had been stepped, when the hold was granted.
    pub(crate) epoch: u32,
    /// How often when the server last said how much of the lease was left, to a grant or to an entry.
    pub(crate) told: u32,
    /// Until when a client may believe in that, if it was told without delay.
    pub(crate) until: Instant,
}

impl Grant {
    /// Nothing is promised of it any more.
    pub(crate) fn void(&mut self) {
        (self.epoch, self.told) = (OF_NO_EPOCH, OF_NO_EPOCH);
    }
}

impl Guard {
    /// Wants no deadline to be put earlier while nothing has disproved it.
    pub(crate) fn check_deadline(&mut self, expected_by_fault: bool) {
        let deadline = self.cell.deadline();
        assert!(deadline >= self.until || expected_by_fault, "the deadline of {:?} was put earlier", self.hold);
        if !self.cell.is_degraded() {
            self.until = deadline;
        }
    }
}

impl World {
    /// The client that a field is of.
    pub(crate) fn client_of(&self, field: &[u8]) -> Option<usize> {
        let uuid = std::str::from_utf8(field.get(..36)?).ok()?;
        let number = usize::from_str_radix(uuid.get(24..)?, 16).ok()?;
        (number < self.clients.len()).then_some(number)
    }

    pub(crate) fn is_of_the_dead(&self, field: &[u8]) -> bool {
        self.client_of(field).is_some_and(|client| self.clients[client].dead)
    }

    /// A hold was begun on the server.
    pub(crate) fn was_granted(&mut self, call: &Call, id: Bytes, count: u32, token: Option<i64>) {
        let script = call.script().name();
        let lock = call.keys()[0].clone();
        self.check_told(&id);
        if count == 1 {
            self.check_order(script, &lock, &id);
            self.check_token(&lock, &id, token);
            self.note_tenure(script, lock.clone(), &id);
        }
        if self.plan.family.counts() {
            self.check_permits_granted(call, &lock, &id);
        } else {
            self.check_grant(script, &lock, &id);
        }
        self.queues.leave(&id);
        let grant = Grant { lock, epoch: self.net.restarts, ..Grant::default() };
        if count == 1 {
            self.granted.insert(id, grant);
        } else {
            self.granted.entry(id).or_insert(grant);
        }
    }

    /// The server says to whom it has granted something how much of the lease is left.
    pub(crate) fn was_promised(&mut self, id: &Bytes, left: Duration) {
        let until = self.now + left - Settings::margin(left);
        if let Some(grant) = self.granted.get_mut(id) {
            (grant.told, grant.until) = (self.net.restarts, until);
        }
    }

    /// In which epoch the promise was made that a client believes in once it is granted so much of a hold. An entry makes nothing anew of
    /// what was promised before, unless it promises all of what is believed.
    pub(crate) fn epoch_of_promise(&self, client: usize, id: &Bytes, granted: &Granted) -> u32 {
        let Some(grant) = self.granted.get(id) else { return 0 };
        let deadline = granted.cell.deadline();
        // A message on its way may still bring a promise that is older.
        let is_new = granted.count > 1 && deadline < Instant::FAR_FUTURE && self.net.is_idle(client);
        if is_new && self.clients[client].clock.when(deadline) <= grant.until { grant.told } else { grant.epoch }
    }

    /// A hold was ended on the server, by its release.
    pub(crate) fn was_freed(&mut self, call: &Call, id: &Bytes) {
        let client = self.client_of(id);
        if let Some(tenure) = self.holders.get_mut(&call.keys()[0])
            && tenure.holder.as_ref() == Some(id)
        {
            *tenure = Tenure { holder: None, released_by: client };
        }
    }

    fn note_tenure(&mut self, script: &str, lock: Bytes, id: &Bytes) {
        if !self.plan.family.excludes() || script.starts_with("read") {
            return;
        }
        let client = self.client_of(id);
        let before = self.holders.insert(lock, Tenure { holder: Some(id.clone()), released_by: None });
        match before {
            Some(Tenure { holder: Some(other), .. }) if other != id => self.stats.reach(Coverage::TakeOver),
            Some(Tenure { released_by: Some(other), .. }) if Some(other) != client => {
                self.stats.reach(Coverage::HandOver)
            }
            _ => {}
        }
    }

    /// Fencing tokens grow with every grant, unless the server has lost the last one and the time at which it was issued: then they fall by
    /// no more than its clock was put back.
    pub(crate) fn check_token(&mut self, lock: &Bytes, id: &Bytes, token: Option<i64>) {
        let Some(token) = token else { return };
        let last = self.tokens.insert(lock.clone(), token);
        let back = if self.lost_tokens { i64::try_from(self.put_back.as_micros()).unwrap_or(i64::MAX) } else { 0 };
        assert!(
            last.is_none_or(|last| last < token.saturating_add(back)),
            "{id:?} got the token {token} of {lock:?} after {last:?}"
        );
    }

    /// No more permits are believed to be held than there are, when the server grants some.
    fn check_permits_granted(&self, call: &Call, lock: &Bytes, id: &Bytes) {
        let more = match self.plan.family {
            LockFamily::Permits => id.len() / ID_BYTES,
            _ => std::str::from_utf8(&call.args()[1]).ok().and_then(|text| text.parse().ok()).unwrap_or_default(),
        };
        let others = self
            .guards
            .iter()
            .filter(|guard| guard.alive && guard.name.key() == lock && guard.wire_id != id && self.is_believed(guard));
        let held: u32 = others.map(|guard| guard.permits).sum();
        assert!(
            held as usize + more <= CAPACITY as usize,
            "{id:?} got {more} permits of {lock:?} beside {held} others"
        );
    }

    /// Whether a client believes to hold what it was promised and the server has not lost.
    fn is_believed(&self, guard: &Guard) -> bool {
        guard.epoch_of_data == self.net.restarts && !self.clients[guard.client].clock_is_wrong && self.believes(guard)
    }

    /// No client believes to hold what the server grants to another.
    pub(crate) fn check_grant(&self, script: &str, lock: &Bytes, id: &Bytes) {
        if !self.excludes || !self.plan.family.excludes() {
            return;
        }
        let reads = script.starts_with("read");
        let client = self.client_of(id);
        let believer = self.guards.iter().find(|guard| {
            let beside =
                guard.owner.is_some() && Some(guard.client) == client && matches!(guard.kind, Kind::Read | Kind::Write);
            guard.alive
                && guard.name.key() == lock
                && guard.wire_id != id
                && !(reads && guard.kind == Kind::Read)
                && !beside
                && self.is_believed(guard)
        });
        if let Some(guard) = believer {
            trace!(self, "the server grants {id:?} beside {guard:?}");
            panic!(
                "the server granted {lock:?} to {id:?}, and client {} still believes in {:?} until {:?}",
                guard.client,
                guard.hold,
                guard.cell.deadline()
            );
        }
    }
}

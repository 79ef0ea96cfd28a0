//! The calls of a hold, put together from what the session knows of it.

use super::hold::Hold;
use super::lock::Lock;
use super::request::Ticket;
use super::{Session, replicas};
use crate::call::Call;
use crate::command::{Ask, Give, Verbs};
use crate::owner::HoldNumber;
use crate::settings::Settings;
use crate::time::Instant;
use std::time::Duration;

impl Session {
    /// The protocol of the kind of a hold's lock.
    pub(super) fn verbs_of(&self, number: HoldNumber) -> &'static dyn Verbs {
        let kind = self.holds.get(&number).map(|hold| self.locks[hold.lock].kind);
        kind.unwrap_or_default().verbs()
    }

    /// The call that raises a hold's count to `count` for a request.
    pub(super) fn ask(
        &self,
        number: HoldNumber,
        ticket: Ticket,
        count: u32,
        lease: Duration,
        not_after: Option<u64>,
    ) -> Option<Call> {
        let hold = self.holds.get(&number)?;
        let acquire = self.acquire_of(ticket)?;
        let lock = &self.locks[hold.lock];
        let call = lock.kind.verbs().acquire(&Ask {
            name: &lock.name,
            keys: &lock.keys,
            hold: hold.cell.key(),
            beside: acquire.beside.as_ref(),
            count,
            lease,
            not_after,
            waits: acquire.wish.patience != super::Patience::Try,
            placed: acquire.had_place,
            prefer_writers: acquire.wish.prefer_writers,
            settings: &self.settings,
        });
        Some(call.with_replicas(replicas::both(hold.replicas, acquire.wish.replicas)))
    }
}

/// The call that lowers a hold's count to the number of its guards.
pub(super) fn give(now: Instant, lock: &Lock, hold: &Hold, settings: &Settings) -> Call {
    lock.kind.verbs().release(&Give {
        name: &lock.name,
        keys: &lock.keys,
        hold: hold.cell.key(),
        count: hold.count.wanted(),
        granted: hold.is_surely_granted(now),
        settings,
    })
}

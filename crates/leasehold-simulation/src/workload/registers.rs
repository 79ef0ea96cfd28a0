//! A store beside the server, to which holders go to read a value, work on it, and write it back. It has three registers for each lock:
//! one that checks fencing tokens at reads and writes, one that checks them at writes alone, and one that checks nothing. The first
//! never loses an update, whatever goes wrong; of the others it is counted how often they do.

use crate::report::stats::Coverage;
use crate::workload::event::UserEvent;
use crate::workload::family::LockFamily;
use crate::workload::reference_store::{Access, ReferenceStore};
use crate::world::{World, ms, trace};
use bytes::Bytes;
use leasehold_core::owner::HoldNumber;
use leasehold_embedded::EmbeddedServer;
use rustc_hash::{FxHashMap, FxHashSet};
use std::time::Duration;

/// The number of a write.
type Version = u64;

/// The value that a holder has read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Versions {
    /// The value of the register that checks every access, if that admitted the reader.
    fenced: Option<Version>,
    at_writes: Version,
    bare: Version,
}

#[derive(Default)]
pub(crate) struct Registers {
    by_lock: FxHashMap<Bytes, Register>,
    /// Holds that are at work.
    at_work: FxHashSet<(usize, HoldNumber)>,
    writes: Version,
    pub(crate) reference: ReferenceStore,
}

impl Registers {
    /// A store whose reference goes on with the Lua state of this engine.
    pub(crate) fn with_engine(engine: Option<EmbeddedServer>) -> Self {
        Self { reference: ReferenceStore::with_engine(engine), ..Self::default() }
    }
}

/// The store's content for one lock.
#[derive(Debug, Default)]
pub(crate) struct Register {
    fence: Fence,
    fenced: Version,
    /// The greatest token that has written.
    writer: u64,
    at_writes: Version,
    bare: Version,
}

/// The greatest token that was shown, and who showed it first.
#[derive(Debug, Default)]
pub(crate) struct Fence {
    token: u64,
    owner: Bytes,
}

/// The answer of a fence to a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    Admitted,
    Stale,
    /// It was issued to another as well.
    Twice,
}

impl Fence {
    pub(crate) fn admit(&mut self, token: u64, owner: &Bytes) -> Admission {
        if token < self.token {
            return Admission::Stale;
        }
        if token == self.token && self.owner != owner {
            return Admission::Twice;
        }
        self.token = token;
        self.owner = owner.clone();
        Admission::Admitted
    }
}

impl World {
    /// Has the holder of a new guard work on what the store has, if its kind of lock is for that.
    pub(crate) fn plan_section(&mut self, guard: usize) {
        if self.plan.family.excludes() && !matches!(self.plan.family, LockFamily::ReadWrite | LockFamily::PreferWriters)
        {
            let pause = self.plan.hold.mul_f64(self.rng.f64());
            self.after(pause, UserEvent::Section { guard });
        }
    }

    /// How long a message to the store or back takes.
    fn way_to_the_store(&mut self) -> Duration {
        let most = if self.rng.u8(..12) == 0 { ms(3_000) } else { ms(5) };
        self.between(Duration::ZERO, most)
    }

    pub(crate) fn begin_section(&mut self, guard: usize) {
        let state = &self.guards[guard];
        let work = (state.client, state.hold);
        if !state.alive || !self.believes(state) || !self.registers.at_work.insert(work) {
            return;
        }
        let way = self.way_to_the_store();
        self.after(way, UserEvent::StoreRead { guard });
    }

    /// Shows a guard's token to the register that checks every access, which is to be read, or to have a version written.
    fn shown(&mut self, guard: usize, write: Option<Version>) -> bool {
        let state = &self.guards[guard];
        let Some(token) = state.cell.token() else { return false };
        let register = self.registers.by_lock.entry(state.name.to_key()).or_default();
        let admission = register.fence.admit(token, &state.field);
        let access = write.map_or(Access::Read(register.fenced), Access::Write);
        self.registers.reference.check(&state.name, token, &state.field, access, admission);
        match admission {
            Admission::Admitted => return true,
            Admission::Stale => self.stats.reach(Coverage::StaleRefused),
            Admission::Twice => {
                let may_be = self.doubts.lost_tokens && !self.server.put_back.is_zero();
                assert!(may_be, "the token {token} of {} was issued twice", state.name);
                self.stats.reach(Coverage::TwiceRefused);
            }
        }
        trace!(self, "the store refuses {:?} of client {}: {admission:?}", state.hold, state.client);
        false
    }

    pub(crate) fn store_reads(&mut self, guard: usize) {
        let admitted = self.shown(guard, None);
        let register = self.registers.by_lock.entry(self.guards[guard].name.to_key()).or_default();
        let fenced = admitted.then_some(register.fenced);
        let read = Versions { fenced, at_writes: register.at_writes, bare: register.bare };
        trace!(self, "{:?} of client {} reads {read:?}", self.guards[guard].hold, self.guards[guard].client);
        let way = self.way_to_the_store();
        let work = self.plan.hold.mul_f64(self.rng.f64() / 2.0);
        self.after(way + work, UserEvent::Work { guard, read });
    }

    /// The work is done, and is written if the holder believes that it holds: between that look and the write any time may pass.
    pub(crate) fn section_works(&mut self, guard: usize, read: Versions) {
        let state = &self.guards[guard];
        if !state.alive || !self.believes(state) {
            self.registers.at_work.remove(&(state.client, state.hold));
            return;
        }
        let way = self.way_to_the_store();
        self.after(way, UserEvent::StoreWrite { guard, read });
    }

    pub(crate) fn store_writes(&mut self, guard: usize, read: Versions) {
        let state = &self.guards[guard];
        let (client, hold, token) = (state.client, state.hold, state.cell.token());
        trace!(self, "{hold:?} of client {client} writes with {token:?} what follows from {read:?}");
        let key = state.name.to_key();
        self.registers.at_work.remove(&(client, hold));
        self.registers.writes += 1;
        let new = self.registers.writes;
        let admitted = read.fenced.is_some() && self.shown(guard, Some(new));
        let register = self.registers.by_lock.entry(key).or_default();
        self.stats.sections[1] += 1;
        if register.bare != read.bare {
            self.stats.reach(Coverage::UnfencedLost);
        }
        register.bare = new;
        let Some(token) = token else { return };
        self.stats.sections[0] += 1;
        if token >= register.writer {
            if register.at_writes != read.at_writes {
                self.stats.reach(Coverage::WriteFencedLost);
            }
            register.writer = token;
            register.at_writes = new;
        }
        if admitted {
            assert_eq!(Some(register.fenced), read.fenced, "an update was lost behind a fence");
            register.fenced = new;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fence_refuses_a_lower_token_and_an_equal_one_of_another() {
        let mut fence = Fence::default();
        let [one, other] = [Bytes::from_static(b"a"), Bytes::from_static(b"b")];
        assert_eq!(fence.admit(7, &one), Admission::Admitted);
        assert_eq!(fence.admit(7, &one), Admission::Admitted);
        assert_eq!(fence.admit(7, &other), Admission::Twice);
        assert_eq!(fence.admit(6, &one), Admission::Stale);
        assert_eq!(fence.admit(8, &other), Admission::Admitted);
        assert_eq!(fence.admit(7, &one), Admission::Stale);
    }
}

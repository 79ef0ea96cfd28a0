//! Critical sections: a holder reads a value of the store, works on it, and writes it back.
//!
//! The register that checks fencing tokens at reads and writes never loses an update, whatever goes wrong; of the others it is counted how
//! often they do.

use crate::terms::LockFamily;
use crate::workload::UserEvent;
use crate::world::stats::Coverage;
use crate::world::store::{Access, Admission, Version, Versions};
use crate::world::{World, ms, trace};
use std::time::Duration;

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

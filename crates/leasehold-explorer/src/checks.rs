//! The invariants of every state of a small world, and of its final states.

use super::client::{Belief, Seen, identity, lock};
use super::members::Local;
use super::script::{CAPACITY, Subject};
use super::state::State;
use super::world::World;
use leasehold_core::command::Kind;
use std::rc::Rc;
use std::time::Duration;

/// By this time, every lease and every record has expired.
const LATER: Duration = Duration::from_secs(3_600);

impl World {
    /// Checks the invariants of every state.
    ///
    /// # Errors
    ///
    /// The broken invariant.
    pub(crate) fn check(&mut self, state: &State) -> Result<(), String> {
        for (client, seen) in self.living(state) {
            if let Some(wrong) = &seen.wrong {
                return Err(format!("client {client}: {wrong}"));
            }
        }
        self.check_exclusion(state)?;
        self.check_counts(state)?;
        if self.options.subject == Subject::Permits {
            self.check_capacity(state)?;
        }
        Ok(())
    }

    /// Checks that two clients never believe in holds that exclude each other.
    fn check_exclusion<'a>(&'a self, state: &'a State) -> Result<(), String> {
        let believers = || {
            let beliefs =
                |(client, seen): (usize, &'a Rc<Seen>)| seen.beliefs.iter().map(move |belief| (client, belief));
            self.living(state).flat_map(beliefs).filter(|(_, belief)| belief.holds())
        };
        if self.options.subject == Subject::Permits {
            let held: u32 = believers().map(|(_, belief)| belief.permits).sum();
            return if held <= CAPACITY { Ok(()) } else { Err(format!("{held} of {CAPACITY} permits are held")) };
        }
        for (one, mine) in believers() {
            for (other, theirs) in believers() {
                let both_read = mine.kind == Kind::Read && theirs.kind == Kind::Read;
                let two_holds = one == other && mine.hold != theirs.hold && [mine.kind, theirs.kind] == [Kind::Lock; 2];
                if two_holds {
                    return Err(format!("client {one} believes that it holds twice: {mine:?}, {theirs:?}"));
                }
                if one < other && !both_read {
                    return Err(format!("clients {one} and {other} believe that they hold: {mine:?}, {theirs:?}"));
                }
            }
        }
        Ok(())
    }

    /// Checks that the server's holds match the guards, unless a pending message changes them. The server must have no
    /// ended hold.
    fn check_counts(&mut self, state: &State) -> Result<(), String> {
        if self.options.subject == Subject::Permits {
            return Ok(());
        }
        for client in 0..self.classes.len() {
            let known = (state.server, client as u8, state.members[client]);
            if !self.in_order.contains(&known) {
                self.check_counts_of(state, client)?;
                self.in_order.insert(known);
            }
        }
        Ok(())
    }

    fn check_counts_of(&self, state: &State, client: usize) -> Result<(), String> {
        let face = self.face(state, client);
        let Some(seen) = &face.seen else { return Ok(()) };
        let may_arrive = face.member.lanes.iter().any(|lane| !lane.old.is_empty());
        if !seen.is_idle || seen.has_clean_up || may_arrive {
            return Ok(());
        }
        let fields = self.server.data(state.server).fields();
        let mut wanted: Vec<(String, u32)> = Vec::new();
        for belief in &seen.beliefs {
            let field = self.server.names().text_of(&belief.field, client);
            match wanted.iter_mut().find(|(known, _)| *known == field) {
                Some((_, count)) => *count += 1,
                None => wanted.push((field, 1)),
            }
        }
        for (field, count) in &wanted {
            let is_it = |belief: &&Belief| self.server.names().text_of(&belief.field, client) == *field;
            let held = seen.beliefs.iter().filter(is_it).any(Belief::holds);
            let stored = fields.iter().find(|(known, _)| known == field).map(|(_, count)| *count);
            if held && stored != Some(*count) {
                return Err(format!("the server has {stored:?} of {field}, and client {client} {count}"));
            }
        }
        let own = identity(client).to_string();
        let stray = |field: &String| field.starts_with(&own) && wanted.iter().all(|(known, _)| known != field);
        if let Some((field, count)) = fields.iter().find(|(field, _)| stray(field)) {
            return Err(format!("the server has {count} of {field}, which client {client} has released"));
        }
        Ok(())
    }

    /// Checks that available and held permits add up to the capacity.
    fn check_capacity(&self, state: &State) -> Result<(), String> {
        let data = self.server.data(state.server);
        let counter = data.key(lock().key()).and_then(|key| key.parts.first().cloned()).unwrap_or_default();
        let available: u32 = std::str::from_utf8(&counter).ok().and_then(|text| text.parse().ok()).unwrap_or_default();
        let held = data.permits();
        if available as usize + held == CAPACITY as usize {
            return Ok(());
        }
        Err(format!("{available} permits are available, {held} are held, and there are {CAPACITY}"))
    }

    /// Checks the invariants of a final state.
    ///
    /// # Errors
    ///
    /// The broken invariant.
    pub(crate) fn check_end(&self, state: &State) -> Result<(), String> {
        if self.living(state).any(|(_, seen)| !seen.is_done) {
            return Err(format!("somebody waits for ever: {}", self.unfinished(state)));
        }
        for (client, seen) in self.living(state) {
            if let Some(census) = &seen.left {
                return Err(format!("something is left of client {client}: {census:?}"));
            }
            if self.face(state, client).member.is_subscribed {
                return Err(format!("client {client} is still subscribed"));
            }
        }
        let data = self.server.data(state.server);
        // The data of crashed clients expires. Live clients leave only short-lived records.
        let crashed = (0..self.classes.len()).any(|client| self.face(state, client).member.local == Local::Crashed);
        let later = if crashed { LATER } else { Duration::ZERO };
        for key in data.keys(later) {
            let counter = self.options.subject == Subject::Permits && key.name == *lock().key();
            let memory = key.name.starts_with(b"leasehold:") && key.end.is_some();
            if counter || memory {
                continue;
            }
            // The next client returns expired permits.
            let deadlines = self.options.subject == Subject::Permits && key.name == lock().suffixed("timeout");
            if deadlines && !data.has_permits(later) {
                continue;
            }
            return Err(format!("{key:?} is left on the server"));
        }
        Ok(())
    }

    /// Returns a client that has not completed its script.
    pub(crate) fn unfinished(&self, state: &State) -> String {
        let waits = self.living(state).filter(|(_, seen)| !seen.is_done);
        let shown = waits.map(|(client, seen)| format!("client {client} at operation {}", seen.next));
        shown.collect::<Vec<_>>().join(", ")
    }
}

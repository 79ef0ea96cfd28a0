//! What must hold in every state of a small world, and at its end.

use super::client::{Belief, identity, lock};
use super::script::{CAPACITY, Subject};
use super::state::{Local, State};
use super::world::World;
use leasehold_core::command::Kind;
use leasehold_core::time::Instant;
use std::time::Duration;

/// By then whatever ends by itself has ended.
const LATER: Duration = Duration::from_secs(3_600);

impl World {
    /// What must hold in every state.
    ///
    /// # Errors
    ///
    /// What does not.
    pub(super) fn check(&self, state: &State) -> Result<(), String> {
        for (client, seen) in self.living(state) {
            if let Some(wrong) = &seen.wrong {
                return Err(format!("client {client}: {wrong}"));
            }
        }
        self.check_exclusion(state)?;
        self.check_counts(state)?;
        if self.options.subject == Subject::Permits {
            self.check_capacity(state, state.now)?;
        }
        Ok(())
    }

    /// Wants nobody to believe that he holds what another believes to hold, so far as the kind excludes it.
    fn check_exclusion(&self, state: &State) -> Result<(), String> {
        let believers: Vec<(usize, &Belief)> = self
            .living(state)
            .flat_map(|(client, seen)| seen.beliefs.iter().map(move |belief| (client, belief)))
            .filter(|(_, belief)| belief.holds(state.now))
            .collect();
        if self.options.subject == Subject::Permits {
            let held: u32 = believers.iter().map(|(_, belief)| belief.permits).sum();
            return if held <= CAPACITY { Ok(()) } else { Err(format!("{held} of {CAPACITY} permits are held")) };
        }
        for (at, (one, mine)) in believers.iter().enumerate() {
            for (other, theirs) in &believers[at + 1..] {
                let both_read = mine.kind == Kind::Read && theirs.kind == Kind::Read;
                if one != other && !both_read {
                    return Err(format!("clients {one} and {other} believe that they hold: {mine:?}, {theirs:?}"));
                }
            }
        }
        Ok(())
    }

    /// Wants the server to have of every hold what its guards stand for, where nothing is about to change that; and nothing of those
    /// that are over.
    fn check_counts(&self, state: &State) -> Result<(), String> {
        if self.options.subject == Subject::Permits {
            return Ok(());
        }
        let data = self.server.data(state.server);
        let fields = data.fields(state.now);
        for (client, seen) in self.living(state) {
            let may_arrive = state.members[client].lanes.iter().any(|lane| !lane.old.is_empty());
            if !seen.is_idle || seen.has_clean_up || may_arrive {
                continue;
            }
            let mut wanted: Vec<(String, u32)> = Vec::new();
            for belief in &seen.beliefs {
                match wanted.iter_mut().find(|(field, _)| *field == belief.field) {
                    Some((_, count)) => *count += 1,
                    None => wanted.push((belief.field.clone(), 1)),
                }
            }
            for (field, count) in &wanted {
                let held = seen.beliefs.iter().any(|belief| belief.field == *field && belief.holds(state.now));
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
        }
        Ok(())
    }

    /// Wants the permits to add up.
    fn check_capacity(&self, state: &State, at: Instant) -> Result<(), String> {
        let data = self.server.data(state.server);
        let counter = data.key(at, lock().key()).and_then(|key| key.parts.first().cloned()).unwrap_or_default();
        let available: u32 = std::str::from_utf8(&counter).ok().and_then(|text| text.parse().ok()).unwrap_or_default();
        let held = data.deadlines(at, &lock().suffixed("timeout")).len();
        if available as usize + held == CAPACITY as usize {
            return Ok(());
        }
        Err(format!("{available} permits are available, {held} are held, and there are {CAPACITY}"))
    }

    /// What must hold at the end, when nothing can happen any more.
    ///
    /// # Errors
    ///
    /// What does not.
    pub(super) fn check_end(&self, state: &State) -> Result<(), String> {
        if self.living(state).any(|(_, seen)| !seen.is_done) {
            return Err(format!("somebody waits for ever: {}", self.unfinished(state)));
        }
        for (client, seen) in self.living(state) {
            if let Some(census) = &seen.left {
                return Err(format!("something is left of client {client}: {census:?}"));
            }
            if state.members[client].is_subscribed {
                return Err(format!("client {client} is still subscribed"));
            }
        }
        let data = self.server.data(state.server);
        // What those leave behind who crash goes by itself; others leave nothing but short memories of what was done.
        let crashed = state.members.iter().any(|member| member.local == Local::Crashed);
        let at = if crashed { state.now + LATER } else { state.now };
        for key in data.keys(at) {
            let counter = self.options.subject == Subject::Permits && key.name == *lock().key();
            let memory = key.name.starts_with(b"leasehold:") && key.end.is_some();
            if counter || memory {
                continue;
            }
            if self.options.subject == Subject::Permits && key.name == lock().suffixed("timeout") {
                let alive = data.deadlines(at, &key.name).into_iter().filter(|(_, end)| *end > at).count();
                // Those that have expired are taken back by whoever comes next.
                if alive == 0 {
                    continue;
                }
            }
            return Err(format!("{key:?} is left on the server"));
        }
        Ok(())
    }

    /// Who has not come to the end of its script.
    pub(super) fn unfinished(&self, state: &State) -> String {
        let waits = self.living(state).filter(|(_, seen)| !seen.is_done);
        let shown = waits.map(|(client, seen)| format!("client {client} at operation {}", seen.next));
        shown.collect::<Vec<_>>().join(", ")
    }
}

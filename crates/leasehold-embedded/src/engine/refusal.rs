//! Refusals of commands within a running script, whose earlier writes persist.

use leasehold_core::link::ServerError;

/// Which command of a script is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RefuseAt {
    /// Only the n-th command, counted from 1, as for a key of another type.
    Call(u32),
    /// Every use of the n-th distinct command name, counted from 1, as for a missing permission.
    Command(u32),
}

/// The outcome of a planned refusal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum RefusalEffect {
    /// The script did not reach the refusal.
    #[default]
    Nothing,
    /// The script reached the refusal before its first write.
    BeforeWriting,
    /// The script reached the refusal after its first write.
    AfterWriting,
}

/// Planned and past refusals.
#[derive(Debug, Default)]
pub(crate) struct Refusals {
    /// The refusal for the current script.
    now: Option<Planned>,
    /// Names of commands that are forbidden to all scripts.
    forbidden: Vec<&'static str>,
}

#[derive(Debug)]
struct Planned {
    inside: RefuseAt,
    error: ServerError,
    calls: u32,
    /// The command names that the script has used, in order.
    names: Vec<Vec<u8>>,
    met: RefusalEffect,
}

impl Refusals {
    /// Plans a refusal for the next script.
    pub(crate) fn plan(&mut self, inside: RefuseAt, error: ServerError) {
        self.now = Some(Planned { inside, error, calls: 0, names: Vec::new(), met: RefusalEffect::Nothing });
    }

    /// Ends the script's refusal.
    pub(crate) fn end(&mut self) -> RefusalEffect {
        self.now.take().map(|planned| planned.met).unwrap_or_default()
    }

    pub(crate) fn forbid(&mut self, commands: &[&'static str]) {
        self.forbidden = commands.to_vec();
    }

    /// Returns the planned error of a command, if any. `dirty` means that the script has written.
    pub(crate) fn of(&mut self, name: &[u8], dirty: bool) -> Option<ServerError> {
        if self.forbidden.iter().any(|forbidden| forbidden.as_bytes().eq_ignore_ascii_case(name)) {
            let name = String::from_utf8_lossy(name).to_lowercase();
            let why = format!("ERR ACL failure in script: User app has no permissions to run the '{name}' command");
            return Some(ServerError::new(why));
        }
        let planned = self.now.as_mut()?;
        planned.calls += 1;
        let known = planned.names.iter().position(|used| used.eq_ignore_ascii_case(name));
        let place = known.unwrap_or(planned.names.len());
        if known.is_none() {
            planned.names.push(name.to_vec());
        }
        let is_it = match planned.inside {
            RefuseAt::Call(at) => planned.calls == at,
            RefuseAt::Command(at) => u32::try_from(place + 1) == Ok(at),
        };
        if is_it && planned.met == RefusalEffect::Nothing {
            planned.met = if dirty { RefusalEffect::AfterWriting } else { RefusalEffect::BeforeWriting };
        }
        is_it.then(|| planned.error.clone())
    }
}

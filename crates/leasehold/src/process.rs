//! The process of a client. A forked child does not have its threads, and shares its connections.

use crate::error::InvalidInput;

/// A process, by its id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Process(u32);

impl Process {
    pub(crate) fn current() -> Self {
        Self(std::process::id())
    }

    pub(crate) fn is_current(self) -> bool {
        self == Self::current()
    }

    /// # Errors
    ///
    /// This process is a fork of that process.
    pub(crate) fn check(self) -> Result<(), InvalidInput> {
        if self.is_current() { Ok(()) } else { Err(InvalidInput::Forked { built_by: self.0 }) }
    }
}

//! The process of a client. A process that is forked from it has none of its threads, and shares its connections.

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
    /// This process was forked from it.
    pub(crate) fn check(self) -> Result<(), InvalidInput> {
        if self.is_current() { Ok(()) } else { Err(InvalidInput::Forked { built_by: self.0 }) }
    }
}

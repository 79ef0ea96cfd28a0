//! The process of a client. A forked child lacks its threads, and shares its connections.

use crate::error::InvalidInput;
use forkguard::atfork::Guard;

/// The process in which this value was created.
///
/// A `pthread_atfork` handler counts forks, so a check is a read of memory. It misses children of a raw `clone` system call.
#[derive(Clone, Debug)]
pub(crate) struct Process {
    id: u32,
    forks: Guard,
}

impl Process {
    pub(crate) fn current() -> Self {
        Self { id: std::process::id(), forks: Guard::default() }
    }

    pub(crate) fn is_current(&self) -> bool {
        // A guard reports a fork only once, so this checks a copy.
        !self.forks.clone().detected_fork()
    }

    /// # Errors
    ///
    /// Fails in a fork of that process.
    pub(crate) fn check(&self) -> Result<(), InvalidInput> {
        if self.is_current() { Ok(()) } else { Err(InvalidInput::Forked { built_by: self.id }) }
    }
}

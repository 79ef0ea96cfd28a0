//! Traps: what is to happen to one particular request or its reply.

use std::{
    fmt,
    sync::{Arc, Condvar, Mutex, PoisonError},
    time::Duration,
};

/// The fate of the connection when a reply has been swallowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    /// It stays open, and nothing more comes from the server: a link that went silent.
    Hang,
    /// It is closed.
    Close,
}

/// Tells whether a trap has worked. Dropping it leaves the trap set.
#[derive(Clone)]
pub struct Trap {
    what: Arc<str>,
    worked: Arc<(Mutex<bool>, Condvar)>,
}

impl Trap {
    /// Whether it has worked: the reply is swallowed, the request is held, the connection is cut.
    #[must_use]
    pub fn worked(&self) -> bool {
        *self.worked.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Blocks until it has worked.
    ///
    /// # Panics
    ///
    /// When it does not within 20 seconds.
    #[track_caller]
    pub fn wait(&self) {
        assert!(self.wait_for(Duration::from_secs(20)), "{self:?} did not work within 20 s");
    }

    /// Blocks until it has worked, or `patience` is over. Tells whether it has.
    #[must_use]
    pub fn wait_for(&self, patience: Duration) -> bool {
        let (worked, changed) = &*self.worked;
        let worked = worked.lock().unwrap_or_else(PoisonError::into_inner);
        let (worked, _) =
            changed.wait_timeout_while(worked, patience, |worked| !*worked).unwrap_or_else(PoisonError::into_inner);
        *worked
    }

    pub(super) fn new(kind: Kind, needle: &[u8]) -> Self {
        let what = format!("trap {kind:?} on {:?}", String::from_utf8_lossy(needle));
        Self { what: what.into(), worked: Arc::default() }
    }

    pub(super) fn has_worked(&self) {
        *self.worked.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.worked.1.notify_all();
    }
}

impl fmt::Debug for Trap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

/// The effect of a trap.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    Swallow(After),
    Hold,
    CutBefore,
}

/// A trap that waits for its request.
pub(super) struct Armed {
    pub(super) needle: Vec<u8>,
    pub(super) kind: Kind,
    pub(super) trap: Trap,
}

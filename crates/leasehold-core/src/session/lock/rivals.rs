//! Whether other clients want a lock.

use crate::session::lock::Lock;

/// The other clients that want a lock, as far as this one knows from its last release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::session) enum Rivals {
    /// There may be some.
    Possible,
    /// None listened. One that came since then waits for no longer than this client keeps a lock among its tasks.
    None,
}

impl Lock {
    /// Whether other clients want it, as far as is known.
    pub(in crate::session) const fn rivals(&self) -> Rivals {
        self.rivals
    }

    /// The last release told whether other clients want it.
    pub(in crate::session) const fn note_rivals(&mut self, rivals: Rivals) {
        self.rivals = rivals;
    }
}

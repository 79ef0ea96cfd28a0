//! Whether other clients want a lock.

use crate::session::lock::Lock;

/// After so many releases in a row for which no other client listens, others get a head start as if there were some: who polls does not listen.
const MOST_UNHEARD: u8 = 8;

/// The other clients that want a lock, as far as this one knows from its last releases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::session) enum Rivals {
    /// There may be some.
    Possible,
    /// None listened at the last releases, which were so many in a row. One that came since then waits for no longer than this client keeps a
    /// lock among its tasks.
    None { releases: u8 },
}

impl Rivals {
    /// None listens at one more release.
    const fn unheard(self) -> Self {
        match self {
            Self::None { releases } if releases <= MOST_UNHEARD => Self::None { releases: releases + 1 },
            Self::None { .. } | Self::Possible => Self::None { releases: 1 },
        }
    }

    /// Whether others get the time to ask behind a hold that was handed on.
    pub(in crate::session) const fn get_a_head_start(self) -> bool {
        match self {
            Self::Possible => true,
            Self::None { releases } => releases > MOST_UNHEARD,
        }
    }
}

impl Lock {
    /// Whether other clients want it, as far as is known.
    pub(in crate::session) const fn rivals(&self) -> Rivals {
        self.rivals
    }

    /// The last release told whether other clients listen.
    pub(in crate::session) const fn note_rivals(&mut self, others_listen: bool) {
        self.rivals = if others_listen { Rivals::Possible } else { self.rivals.unheard() };
    }
}

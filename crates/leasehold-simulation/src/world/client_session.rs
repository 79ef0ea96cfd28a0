//! A session, and when it next waits for time to pass: a world wants to know that of each of its clients before every step, and hardly any
//! step changes it.

use leasehold_core::session::Session;
use leasehold_core::time::Instant;
use std::cell::Cell;
use std::ops::{Deref, DerefMut};

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct ClientSession {
    session: Session,
    /// The last words of the session; nothing once it may have changed.
    timeout: Cell<Option<Option<Instant>>>,
}

impl ClientSession {
    pub(crate) const fn new(session: Session) -> Self {
        Self { session, timeout: Cell::new(None) }
    }

    /// As [`Session::poll_timeout`].
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        let timeout = self.timeout.get().unwrap_or_else(|| self.session.poll_timeout());
        self.timeout.set(Some(timeout));
        timeout
    }
}

impl Deref for ClientSession {
    type Target = Session;

    fn deref(&self) -> &Session {
        &self.session
    }
}

/// Every change of the session makes it be asked again.
impl DerefMut for ClientSession {
    fn deref_mut(&mut self) -> &mut Session {
        self.timeout.set(None);
        &mut self.session
    }
}

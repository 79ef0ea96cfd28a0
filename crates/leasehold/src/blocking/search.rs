//! The searches for locks and for clients, for threads.

use super::{mirrors, park_on};
use crate::error::Error;
use crate::inspect::{AnnouncedClient, LockState};

/// A [`Locks`](crate::inspect::Locks) for threads: an iterator, which is over after an error.
///
/// # Examples
///
/// ```
/// # let client = leasehold::blocking::Client::from(leasehold::Client::embedded());
/// let guard = client.lock("stock:1001").acquire()?;
/// for found in client.locks("stock:*") {
///     assert_eq!(found?.name, "stock:1001");
/// }
/// # guard.release()?;
/// # Ok::<(), leasehold::Error>(())
/// ```
#[derive(Debug)]
#[must_use = "a search does nothing until it is asked for the next lock"]
pub struct Locks(crate::inspect::Locks);

mirrors!(Locks = crate::inspect::Locks);

impl Locks {
    /// Also finds keys that are no locks. See [`Locks::with_foreign`](crate::inspect::Locks::with_foreign).
    pub fn with_foreign(self) -> Self {
        Self(self.0.with_foreign())
    }

    /// Looks only at names for which `wants` says yes. See [`Locks::only`](crate::inspect::Locks::only).
    pub fn only(self, wants: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        Self(self.0.only(wants))
    }
}

impl Iterator for Locks {
    type Item = Result<LockState, Error>;

    #[track_caller]
    fn next(&mut self) -> Option<Self::Item> {
        park_on(self.0.next())
    }
}

/// [`AnnouncedClients`](crate::inspect::AnnouncedClients) for threads: an iterator, which is over after an error.
///
/// # Examples
///
/// ```
/// # let client = leasehold::blocking::Client::from(leasehold::Client::embedded());
/// for found in client.announced_clients() {
///     println!("{}", found?.record.application);
/// }
/// # Ok::<(), leasehold::Error>(())
/// ```
#[derive(Debug)]
#[must_use = "a search does nothing until it is asked for the next client"]
pub struct AnnouncedClients(crate::inspect::AnnouncedClients);

mirrors!(AnnouncedClients = crate::inspect::AnnouncedClients);

impl Iterator for AnnouncedClients {
    type Item = Result<AnnouncedClient, Error>;

    #[track_caller]
    fn next(&mut self) -> Option<Self::Item> {
        park_on(self.0.next())
    }
}

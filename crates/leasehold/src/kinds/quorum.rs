//! The quorum lock.

use super::group::guard::GroupGuard;
use super::group::{Enough, GroupAcquire, GroupLock, Rule, most};
use crate::client::Client;
use crate::error::{Error, InvalidInput};
use crate::kind::{Any, Majority};
use crate::lock::guard::Guard;
use leasehold_core::backoff::Backoff;
use leasehold_core::session::Patience;
use leasehold_core::time::Instant;
use std::time::Duration;

/// A lock over several independent servers. It is held while a majority of the servers hold it.
///
/// **When to use it:** if a lock must survive the loss of a server or its data. It needs three or five servers without replication between them, each
/// with its own client. **When not:** if the store checks a fencing token, which is stronger and cheaper; or on the replicas of one primary, which
/// fail together. Quorum locks have no tokens and no fairness.
///
/// An acquire sends its command to all servers at once. It succeeds if a majority grants the lock before the shortest counted lease ends, minus the
/// margin of every lease (1 % and 2 ms). Otherwise it rolls back on every server, whatever the reply, and retries after a random pause. Each server's
/// client renews its lease; the guard is lost when fewer than a majority remain. This is Redlock (Sanfilippo, "Distributed Locks with Redis") with
/// renewal. It relies on the *rates* of the servers' clocks, not on their readings.
///
/// **A server that has lost its data** must stay down for one lease (the *delayed restart* of Redlock). Otherwise it may belong to a holder's bare
/// majority, and grant the lock to another client. With this delay, a minority of servers may lose all data at once.
///
/// Only grants of servers count; quorum locks ignore a client's [`fallback`](crate::ClientBuilder::fallback).
///
/// **Every process must use an identical set of servers**: a majority of three servers and a majority of five may be disjoint. A process therefore
/// passes a client for each server, even for an unreachable server; [`Client::connect_lazy`] creates such clients. [`QuorumLock::of`] sets the number of servers
/// for a process with fewer clients.
///
/// # Examples
///
/// ```
/// # use leasehold::{Client, QuorumLock};
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let servers = [Client::embedded(), Client::embedded(), Client::embedded()];
/// let lock = QuorumLock::new(servers, "leader");
/// let guard = lock.acquire().await?;
/// assert!(guard.servers() >= 2);
/// guard.release().await?;
/// # Ok::<(), leasehold::Error>(()) }).unwrap();
/// ```
pub type QuorumLock = GroupLock<Majority>;

/// A builder for an acquire of a [`QuorumLock`].
pub type QuorumAcquire = GroupAcquire<Majority>;

/// A guard of a [`QuorumLock`] on a majority of its servers. It is lost when fewer servers remain. The remaining servers stay locked until the
/// guard is dropped or released; another client may need them for its majority.
pub type QuorumGuard = GroupGuard<Majority>;

impl QuorumLock {
    /// Returns the lock of this name over the servers of `clients`, which must be all servers in every process that uses the lock. An acquire
    /// fails without clients, or with two clients of one server.
    pub fn new(clients: impl IntoIterator<Item = Client>, name: impl AsRef<str>) -> Self {
        let clients: Vec<Client> = clients.into_iter().collect();
        Self::of(clients.len(), clients, name)
    }

    /// Returns the lock of this name over `servers` servers. `clients` connect to some or all of them; a server without a client counts as
    /// refusing the lock. An acquire fails with fewer clients than a majority, with more clients than servers
    /// ([`InvalidInput::NoMajority`]), and with two clients of one server.
    ///
    /// # Examples
    ///
    /// ```
    /// # use leasehold::{Client, QuorumLock};
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let some_of_five = [Client::embedded(), Client::embedded(), Client::embedded()];
    /// let lock = QuorumLock::of(5, some_of_five, "leader");
    /// assert_eq!(lock.quorum(), 3);
    /// let guard = lock.acquire().await?; // all three servers have granted it
    /// guard.release().await?;
    /// # Ok::<(), leasehold::Error>(()) }).unwrap();
    /// ```
    pub fn of(servers: usize, clients: impl IntoIterator<Item = Client>, name: impl AsRef<str>) -> Self {
        let name = name.as_ref();
        Self::over(clients.into_iter().map(|client| client.lock(name).into()), name, servers)
    }

    /// Returns the number of servers that must grant the lock: more than half of all servers.
    pub const fn quorum(&self) -> usize {
        self.total / 2 + 1
    }
}

impl QuorumAcquire {
    /// Sets the pauses between attempts. Default: exponential with full jitter, from 10 ms to 500 ms.
    pub fn backoff(mut self, backoff: Backoff) -> Self {
        self.backoff = Some(backoff);
        self
    }
}

impl QuorumGuard {
    /// Returns the number of servers that currently hold the lock.
    pub fn servers(&self) -> usize {
        self.guards.iter().filter(|guard| guard.is_held()).count()
    }
}

impl Rule for Majority {
    const PAUSES: Backoff = Backoff::exponential(Duration::from_millis(10), Duration::from_millis(500));

    fn check(lock: &QuorumLock) -> Result<(), InvalidInput> {
        let name = lock.name().to_owned();
        let (members, servers, clients) = (&lock.members, lock.total, lock.members.len());
        if clients < lock.quorum() || clients > servers {
            return Err(InvalidInput::NoMajority { name, servers, clients });
        }
        let handles: Vec<_> = members.iter().map(|member| member.spec().handle()).collect();
        let is_repeated = |index: usize| handles[..index].iter().any(|other| other.is_of_server(handles[index]));
        if (0..clients).any(is_repeated) { Err(InvalidInput::SameServer { name }) } else { Ok(()) }
    }

    fn needed(lock: &QuorumLock) -> usize {
        lock.quorum()
    }

    fn is_transient(error: &Error) -> bool {
        matches!(error, Error::Unreachable { .. } | Error::OutcomeUnknown { .. })
    }

    /// Tries the lock on all servers at once.
    async fn attempt(
        acquire: &QuorumAcquire,
        _: Option<Instant>,
        _: &mut Option<usize>,
    ) -> Result<Option<Vec<Guard<Any>>>, Error> {
        let (members, handle, quorum) = (&acquire.lock.members, acquire.lock.handle(), acquire.lock.quorum());
        let asked = members.iter().map(|member| {
            let trying = acquire.member(member);
            Box::pin(async move { trying.run(Some(Patience::Try)).await })
        });
        // More servers than a bare majority make the hold more robust, but no caller waits long for a silent server.
        let enough = |answers: &[Result<Option<_>, Error>]| {
            let granted = answers.iter().filter(|answer| matches!(answer, Ok(Some(_)))).count();
            if members.len() - (answers.len() - granted) < quorum {
                Enough::Over
            } else if granted >= quorum {
                Enough::Yes
            } else {
                Enough::No
            }
        };
        let mut guards: Vec<Guard<Any>> = Vec::with_capacity(members.len());
        let (mut busy, mut failure) = (0, None);
        // Dropping the other futures rolls back their late grants.
        for outcome in most(handle, asked, enough).await {
            match outcome {
                Ok(Some(guard)) => guards.push(guard),
                Ok(None) => busy += 1,
                Err(error) => failure = Some(error),
            }
        }
        if guards.len() >= quorum {
            return Ok(Some(guards));
        }
        let could = guards.len() + busy;
        // Most grants are rolled back before the next attempt. The rollback at a silent server continues without its future.
        let half = guards.len().div_ceil(2);
        let back = |released: &[_]| if released.len() >= half { Enough::Yes } else { Enough::No };
        most(handle, guards.into_iter().map(Guard::release), back).await;
        match failure {
            Some(error) if could < quorum => Err(error),
            _ => Ok(None),
        }
    }
}

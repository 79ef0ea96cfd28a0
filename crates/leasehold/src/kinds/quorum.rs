//! The quorum lock.

use super::group::{Doing, Enough, GroupGuard, Reach, most, release};
use crate::client::Client;
use crate::client::inner::Handle;
use crate::error::{Error, InvalidInput, WithError};
use crate::kind::{Any, Majority};
use crate::lock::Lock;
use crate::lock::acquire::Acquire;
use crate::lock::acquire::wait::Wait;
use crate::lock::attempt;
use crate::lock::guard::Guard;
use leasehold_core::backoff::Backoff;
use leasehold_core::error::AcquireError;
use leasehold_core::session::Patience;
use std::fmt;
use std::future::IntoFuture;
use std::pin::Pin;
use std::sync::Arc;
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
/// majority and grant the lock to another client. With this delay, a minority of servers may lose all data at the same time.
///
/// Only grants of servers count; quorum locks ignore a client's [`fallback`](crate::ClientBuilder::fallback).
///
/// **Every process must use the same set of servers**: a majority of three servers and a majority of five may be disjoint. A process therefore
/// passes a client for each server, up or not; [`Client::connect_lazy`] creates such clients. [`QuorumLock::of`] sets the number of servers
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
#[derive(Clone)]
pub struct QuorumLock {
    clients: Arc<[Client]>,
    name: Arc<str>,
    class: Option<Arc<str>>,
    /// The number of servers, equal in all processes.
    servers: usize,
}

impl QuorumLock {
    /// Returns the lock of this name over the servers of `clients`, which must be all servers in every process that uses the lock. An acquire
    /// fails without clients, or with two clients of one server.
    pub fn new(clients: impl IntoIterator<Item = Client>, name: impl AsRef<str>) -> Self {
        let clients: Arc<[Client]> = clients.into_iter().collect();
        Self { servers: clients.len(), clients, name: name.as_ref().into(), class: None }
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
        Self { clients: clients.into_iter().collect(), name: name.as_ref().into(), class: None, servers }
    }

    /// Returns the name without prefixes.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Counts the metrics of the lock on every server under `class`. See [`Lock::class`].
    #[must_use]
    pub fn class(mut self, class: impl AsRef<str>) -> Self {
        self.class = Some(class.as_ref().into());
        self
    }

    /// Returns the lock on one server.
    fn on(&self, client: &Client) -> Lock {
        let lock = client.lock(&self.name);
        match &self.class {
            Some(class) => lock.class(class),
            None => lock,
        }
    }

    /// Returns the number of servers that must grant the lock: more than half of all servers.
    pub const fn quorum(&self) -> usize {
        self.servers / 2 + 1
    }

    /// Acquires the lock on a majority of the servers, and retries while other owners hold it.
    ///
    /// # Errors
    ///
    /// When awaited: [`Error::WaitElapsed`]; [`Error::Unreachable`] or [`Error::OutcomeUnknown`] if no majority of the servers is reachable and ready
    /// for `unreachable_after` of the first client; any other error of a server's [lock](crate::Lock::acquire) that prevents a majority;
    /// [`InvalidInput::NoMembers`], [`InvalidInput::NoMajority`] and [`InvalidInput::SameServer`]. Without its own wait the acquire counts the time
    /// from the start of a known outage. Nothing is held after an error: the background rolls back grants whose replies are missing.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future rolls back on every server, and leaves nothing behind.
    pub fn acquire(&self) -> QuorumAcquire {
        QuorumAcquire { lock: self.clone(), wait: None, lease: None, max_hold: None, backoff: None }
    }

    /// Acquires the lock if a majority of the servers grant it at once. Otherwise returns `None`.
    ///
    /// # Errors
    ///
    /// The errors of [`QuorumLock::acquire`], without retries.
    ///
    /// # Cancel safety
    ///
    /// See [`QuorumLock::acquire`].
    pub async fn try_acquire(&self) -> Result<Option<QuorumGuard>, Error> {
        let handle = self.check()?;
        match self.acquire().round(&handle).await {
            Round::Granted(guard) => Ok(Some(guard)),
            Round::Busy => Ok(None),
            Round::Failed(error) => Err(error),
        }
    }

    /// Acquires the lock, runs `work` under it, and releases it. Once the lock is lost, `work` is not polled again.
    ///
    /// # Errors
    ///
    /// The errors of [`Lock::with`](crate::Lock::with).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops `work` and releases the lock in the background.
    pub async fn with<T>(&self, work: impl AsyncFnOnce(&QuorumGuard) -> T) -> Result<T, WithError<T>> {
        self.acquire().with(work).await
    }

    fn check(&self) -> Result<Arc<Handle>, Error> {
        let Some(first) = self.clients.first() else { return Err(InvalidInput::NoMembers.into()) };
        let clients = self.clients.len();
        if clients < self.quorum() || clients > self.servers {
            let name = self.name.as_ref().to_owned();
            return Err(InvalidInput::NoMajority { name, servers: self.servers, clients }.into());
        }
        for (index, client) in self.clients.iter().enumerate() {
            if self.clients[..index].iter().any(|other| other.handle().is_of_server(client.handle())) {
                return Err(InvalidInput::SameServer { name: self.name.as_ref().to_owned() }.into());
            }
        }
        Ok(first.handle().clone())
    }
}

impl fmt::Debug for QuorumLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QuorumLock").field("name", &self.name).field("servers", &self.servers).finish_non_exhaustive()
    }
}

/// A builder for an acquire of a [`QuorumLock`]. Awaiting it acquires the lock.
///
/// # Cancel safety
///
/// See [`QuorumLock::acquire`].
#[derive(Clone, Debug)]
#[must_use = "an acquire does nothing until it is awaited"]
pub struct QuorumAcquire {
    lock: QuorumLock,
    wait: Option<Wait>,
    lease: Option<Duration>,
    max_hold: Option<Duration>,
    backoff: Option<Backoff>,
}

/// The result of one attempt on all servers.
enum Round {
    Granted(QuorumGuard),
    Busy,
    Failed(Error),
}

/// The result of one server.
type Answer = Result<Option<Guard<Any>>, Error>;

impl QuorumAcquire {
    /// Limits the wait while other owners hold the lock. Default: the default wait of the first client.
    pub const fn wait(mut self, wait: Duration) -> Self {
        self.wait = Some(Wait::For(wait));
        self
    }

    /// Limits the wait to the time before `deadline`, such as the deadline of the request that needs the lock. Otherwise like
    /// [`wait`](Self::wait): a deadline in the past makes one attempt. The deadline is an instant of tokio's clock; a
    /// [`std::time::Instant`] converts into it.
    pub fn wait_until(mut self, deadline: impl Into<tokio::time::Instant>) -> Self {
        self.wait = Some(Wait::Until(deadline.into()));
        self
    }

    /// Sets a fixed lease on every server, which is not renewed.
    pub const fn lease(mut self, lease: Duration) -> Self {
        self.lease = Some(lease);
        self
    }

    /// Limits how long the lock is held. After this time it is lost.
    pub const fn max_hold(mut self, most: Duration) -> Self {
        self.max_hold = Some(most);
        self
    }

    /// Sets the pauses between attempts. Default: exponential with full jitter, from 10 ms to 500 ms.
    pub fn backoff(mut self, backoff: Backoff) -> Self {
        self.backoff = Some(backoff);
        self
    }

    /// Acquires the lock, runs `work` under it, and releases it. Once the lock is lost, `work` is not polled again.
    ///
    /// # Errors
    ///
    /// The errors of [`Lock::with`](crate::Lock::with).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops `work` and releases the lock in the background.
    pub async fn with<T>(self, work: impl AsyncFnOnce(&QuorumGuard) -> T) -> Result<T, WithError<T>> {
        self.run().await.map_err(WithError::NotAcquired)?.with(work).await
    }

    /// Tries the lock on all servers at once.
    async fn round(&self, handle: &Arc<Handle>) -> Round {
        let quorum = self.lock.quorum();
        let asked = self.lock.clients.iter().map(|client| {
            // Only grants of servers count, regardless of the client's fallback.
            let lock = self.lock.on(client).as_member();
            let mut acquire = Acquire::new(lock.spec().clone());
            acquire.set_all(self.lease, self.max_hold, None);
            let trying: Doing<Answer> = Box::pin(async move { acquire.run(Some(Patience::Try)).await });
            trying
        });
        let clients = self.lock.clients.len();
        // More servers than a bare majority make the hold more robust, but no caller waits long for a silent server.
        let enough = |answers: &[Option<Answer>]| {
            let granted = answers.iter().filter(|answer| matches!(answer, Some(Ok(Some(_))))).count();
            let answered = answers.iter().filter(|answer| answer.is_some()).count();
            if clients - (answered - granted) < quorum {
                Enough::Over
            } else if granted >= quorum {
                Enough::Yes
            } else {
                Enough::No
            }
        };
        let answers = most(handle, asked, enough).await;
        let mut guards: Vec<Guard<Any>> = Vec::with_capacity(clients);
        let (mut busy, mut failure) = (0, None);
        for outcome in answers {
            match outcome {
                Some(Ok(Some(guard))) => guards.push(guard),
                Some(Ok(None)) => busy += 1,
                Some(Err(error)) => failure = Some(error),
                // Dropping the future rolls back a late grant.
                None => {}
            }
        }
        if guards.len() >= quorum {
            let guard = GroupGuard::new(self.lock.name.clone(), guards, quorum, handle.clone());
            if guard.is_held() {
                return Round::Granted(guard);
            }
            guard.release().await.ok();
            return Round::Busy;
        }
        let could = guards.len() + busy;
        // Most grants are rolled back before the next attempt. The rollback at a silent server continues without its future.
        let half = guards.len().div_ceil(2);
        let back =
            |released: &[Option<_>]| if released.iter().flatten().count() >= half { Enough::Yes } else { Enough::No };
        most(handle, guards.into_iter().map(release), back).await;
        match failure {
            Some(error) if could < quorum => Round::Failed(error),
            _ => Round::Busy,
        }
    }

    async fn run(self) -> Result<QuorumGuard, Error> {
        let handle = self.lock.check()?;
        let begun = handle.clock.now();
        let until = handle.end_of_wait(self.wait);
        let default = Backoff::exponential(Duration::from_millis(10), Duration::from_millis(500));
        let backoff = self.backoff.clone().unwrap_or(default);
        let mut failures = 0_u32;
        let mut reach = Reach::new(&handle, self.wait.is_some());
        let spare = self.lock.clients.len() - self.lock.quorum();
        loop {
            let now = handle.clock.now();
            let last = now >= until;
            let failed = match self.round(&handle).await {
                Round::Granted(guard) => return Ok(guard),
                Round::Busy => {
                    reach.note_answer();
                    None
                }
                Round::Failed(error @ (Error::Unreachable { .. } | Error::OutcomeUnknown { .. })) => {
                    let locks = self.lock.clients.iter().map(|client| self.lock.on(client).spec().clone());
                    if reach.gives_up(now, locks, spare) {
                        return Err(error);
                    }
                    Some(error)
                }
                Round::Failed(error) => return Err(error),
            };
            failures = failures.saturating_add(1);
            let random = handle.with(|session, _| session.random());
            let pause = if last { None } else { backoff.pause(failures, random) };
            let Some(pause) = pause else {
                let waited = handle.clock.now().since(begun);
                let elapsed = Error::from_acquire(&self.lock.name, waited, AcquireError::WaitElapsed);
                return Err(failed.unwrap_or(elapsed));
            };
            attempt::pause(&handle, pause.min(until.since(handle.clock.now()))).await;
        }
    }
}

impl IntoFuture for QuorumAcquire {
    type Output = Result<QuorumGuard, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}

/// A guard of a [`QuorumLock`] on a majority of its servers. It is lost when fewer servers remain. The remaining servers stay locked until the
/// guard is dropped or released, and another client may need them for its majority.
pub type QuorumGuard = GroupGuard<Majority>;

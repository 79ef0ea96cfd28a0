//! The quorum lock.

use super::group::{Doing, Enough, GroupGuard, Reach, most, release};
use crate::acquire::Acquire;
use crate::attempt;
use crate::client::Client;
use crate::client_inner::Handle;
use crate::error::{Error, InvalidInput, WithError};
use crate::guard::Guard;
use crate::kind::{Any, Majority};
use crate::lock::Lock;
use leasehold_core::backoff::Backoff;
use leasehold_core::error::AcquireError;
use leasehold_core::session::Patience;
use std::fmt;
use std::future::IntoFuture;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

/// A lock over several independent servers: it is held while a majority of them say so.
///
/// **When to use it:** where a lock must outlive the loss of a server, or of its data: three or five servers that do not replicate each
/// other, each with a client of its own. **When not:** where a fencing token is checked by the store, which is stronger and cheaper; or
/// on the replicas of one primary, which fail together. Tokens and fairness are not to be had over several servers.
///
/// An acquire asks all servers at once. It has the lock when a majority granted it and the shortest of the leases that count still runs,
/// less the allowance for clock rates that every lease carries (a hundredth of it, and 2 ms). Otherwise it gives everything back, on
/// every server, whatever each of them answered, and tries again after a random pause. Leases are renewed on each server
/// by its own client; the guard is lost when fewer than a majority are left. This is Redlock (Sanfilippo, "Distributed Locks with
/// Redis") with renewal. It relies on the *rates* of the servers' clocks, not on their readings.
///
/// **A server that has lost its data** must not answer for one lease (the *delayed restart* of Redlock). Otherwise it
/// may belong to a holder's bare majority and grant the lock to another client. With this delay, a minority of servers
/// may lose all data at a time.
///
/// Only grants of servers count; quorum locks ignore a client's [`fallback`](crate::ClientBuilder::fallback).
///
/// **Every process must use one set of servers**: a majority of three servers and a majority of five may be disjoint.
/// So a process passes a client for each server, up or not; [`Client::connect_lazy`] creates such clients.
/// [`QuorumLock::of`] sets the number of servers for a process with fewer clients.
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
    /// How many servers there are, which all who use the lock count alike.
    servers: usize,
}

impl QuorumLock {
    /// Returns the lock of that name over the servers of `clients`, which must be all servers in every process that
    /// uses the lock. An acquire fails without clients, or with two clients of one server.
    pub fn new(clients: impl IntoIterator<Item = Client>, name: impl AsRef<str>) -> Self {
        let clients: Arc<[Client]> = clients.into_iter().collect();
        Self { servers: clients.len(), clients, name: name.as_ref().into(), class: None }
    }

    /// Returns the lock of that name over this many servers. `clients` are the clients of some or all of them; a server
    /// without a client counts as refusing the lock. An acquire fails with fewer clients than a majority, or with more
    /// clients than servers ([`InvalidInput::NoMajority`]), and with two clients of one server.
    ///
    /// # Examples
    ///
    /// ```
    /// # use leasehold::{Client, QuorumLock};
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let some_of_five = [Client::embedded(), Client::embedded(), Client::embedded()];
    /// let lock = QuorumLock::of(5, some_of_five, "leader");
    /// assert_eq!(lock.quorum(), 3);
    /// let guard = lock.acquire().await?; // all three have granted it
    /// guard.release().await?;
    /// # Ok::<(), leasehold::Error>(()) }).unwrap();
    /// ```
    pub fn of(servers: usize, clients: impl IntoIterator<Item = Client>, name: impl AsRef<str>) -> Self {
        Self { clients: clients.into_iter().collect(), name: name.as_ref().into(), class: None, servers }
    }

    /// The name as the caller gave it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Counts the metrics of the lock on every server under `class`. See [`Lock::class`].
    #[must_use]
    pub fn class(mut self, class: impl AsRef<str>) -> Self {
        self.class = Some(class.as_ref().into());
        self
    }

    /// The lock on one server.
    fn on(&self, client: &Client) -> Lock {
        let lock = client.lock(&self.name);
        match &self.class {
            Some(class) => lock.class(class),
            None => lock,
        }
    }

    /// How many servers must grant the lock: more than half of them all.
    pub const fn quorum(&self) -> usize {
        self.servers / 2 + 1
    }

    /// Acquires the lock on a majority of the servers, trying again while others hold it.
    ///
    /// # Errors
    ///
    /// When awaited: [`Error::WaitElapsed`]; [`Error::Unreachable`] or [`Error::OutcomeUnknown`] if no majority of the
    /// servers is reachable and ready for `unreachable_after` of the first client, which starts with a known outage
    /// unless the acquire has its own wait; any other error of a server's [lock](crate::Lock::acquire) that prevents a
    /// majority; [`InvalidInput::NoMembers`], [`InvalidInput::NoMajority`] and [`InvalidInput::SameServer`]. Nothing is
    /// held after an error: the background rolls back grants whose replies are missing.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future gives back what it holds, on every server, and leaves nothing behind.
    pub fn acquire(&self) -> QuorumAcquire {
        QuorumAcquire { lock: self.clone(), wait: None, lease: None, max_hold: None, backoff: None }
    }

    /// Acquires the lock if a majority of the servers grant it at once; `None` where they do not.
    ///
    /// # Errors
    ///
    /// As [`QuorumLock::acquire`], but without any repetition.
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
    /// As [`Lock::with`](crate::Lock::with).
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

/// An acquire of a [`QuorumLock`] that is being described. Awaiting it acquires.
///
/// # Cancel safety
///
/// See [`QuorumLock::acquire`].
#[derive(Clone, Debug)]
#[must_use = "nothing is acquired until this is awaited"]
pub struct QuorumAcquire {
    lock: QuorumLock,
    wait: Option<Duration>,
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

/// The answer of a server.
type Answer = Result<Option<Guard<Any>>, Error>;

impl QuorumAcquire {
    /// Waits for at most this long while others hold the lock. Default: that of the first client.
    pub const fn wait(mut self, wait: Duration) -> Self {
        self.wait = Some(wait);
        self
    }

    /// Takes the lock for a fixed lease on every server, which is not renewed.
    pub const fn lease(mut self, lease: Duration) -> Self {
        self.lease = Some(lease);
        self
    }

    /// Loses the lock when it has been held for this long.
    pub const fn max_hold(mut self, most: Duration) -> Self {
        self.max_hold = Some(most);
        self
    }

    /// How long to pause between two attempts. Default: exponential with full jitter, from 10 ms to 500 ms.
    pub fn backoff(mut self, backoff: Backoff) -> Self {
        self.backoff = Some(backoff);
        self
    }

    /// Acquires the lock, runs `work` under it, and releases it. Once the lock is lost, `work` is not polled again.
    ///
    /// # Errors
    ///
    /// As [`Lock::with`](crate::Lock::with).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops `work` and releases the lock in the background.
    pub async fn with<T>(self, work: impl AsyncFnOnce(&QuorumGuard) -> T) -> Result<T, WithError<T>> {
        self.run().await.map_err(WithError::NotAcquired)?.with(work).await
    }

    /// Asks all servers at once.
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
        // A lock on every server survives the loss of more of them than one on a bare majority; but no caller waits long for a server that
        // does not answer.
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
                // Dropping its future takes back whatever it may still get.
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
        // Most of it is given back before the next attempt; what a server does not answer goes on without its future.
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

/// Holds a [`QuorumLock`] on a majority of its servers. The guard is lost when fewer servers remain. The remaining
/// servers stay locked until the guard is dropped or released, and another client may need them for its majority.
pub type QuorumGuard = GroupGuard<Majority>;

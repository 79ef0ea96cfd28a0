//! Locks over several members.

pub(crate) mod guard;

use crate::client::inner::Handle;
use crate::error::{Error, InvalidInput, WithError};
use crate::kind::{Any, GroupRule};
use crate::kinds::AnyLock;
use crate::lock::acquire::Acquire;
use crate::lock::acquire::Wait;
use crate::lock::attempt;
use crate::lock::guard::Guard;
use crate::lock::owner::Owner;
use crate::telemetry::event;
use futures_util::future::select;
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use guard::GroupGuard;
use leasehold_core::backoff::Backoff;
use leasehold_core::error::AcquireError;
use leasehold_core::time::Instant;
use std::fmt;
use std::future::IntoFuture;
use std::marker::PhantomData;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

/// A [`MultiLock`](crate::MultiLock) or a [`QuorumLock`](crate::QuorumLock): several locks that are acquired together, by a
/// [rule](GroupRule).
///
/// Only grants of servers count: the members have no fallback, and do not linger.
#[derive(Clone)]
pub struct GroupLock<R> {
    pub(super) members: Arc<[AnyLock]>,
    pub(super) name: Arc<str>,
    /// The number of members in all processes. This process may have fewer members of a quorum lock.
    pub(super) total: usize,
    rule: PhantomData<R>,
}

/// The private methods of a rule.
#[expect(unnameable_types, reason = "that is what keeps the trait from being implemented elsewhere")]
pub trait Rule: Sized {
    /// The default back-off between attempts.
    const PAUSES: Backoff;

    fn check(lock: &GroupLock<Self>) -> Result<(), InvalidInput>;

    /// The number of members that must be held.
    fn needed(lock: &GroupLock<Self>) -> usize;

    /// Returns whether another attempt may follow an error, within `unreachable_after`.
    fn is_transient(error: &Error) -> bool;

    /// Acquires enough members, or no member. `until: None` means a try. `busy` is the busy member of the last attempt.
    fn attempt(
        acquire: &GroupAcquire<Self>,
        until: Option<Instant>,
        busy: &mut Option<usize>,
    ) -> impl Future<Output = Result<Option<Vec<Guard<Any>>>, Error>> + Send;
}

impl<R: GroupRule> GroupLock<R> {
    pub(super) fn over(members: impl IntoIterator<Item = AnyLock>, name: &str, total: usize) -> Self {
        let members = members.into_iter().map(|member| member.as_member()).collect();
        Self { members, name: name.into(), total, rule: PhantomData }
    }

    /// Returns the name without prefixes. For a multi lock, these are the names of the members, joined by ` + `.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the members.
    pub fn members(&self) -> &[AnyLock] {
        &self.members
    }

    /// Counts the metrics of every member under `class`. See [`Lock::class`](crate::Lock::class).
    #[must_use]
    pub fn class(mut self, class: impl AsRef<str>) -> Self {
        self.members = self.members.iter().map(|member| member.clone().class(&class)).collect();
        self
    }

    /// Acquires enough members, and waits while other owners hold them.
    ///
    /// # Errors
    ///
    /// When awaited: [`Error::WaitElapsed`]; any other error of a member's [acquire](crate::Lock::acquire) that prevents the grant;
    /// [`InvalidInput::NoMembers`]; for a multi lock [`InvalidInput::SameMember`]; for a quorum lock [`InvalidInput::NoMajority`] and
    /// [`InvalidInput::SameServer`]. [`Error::Unreachable`], for a quorum lock also [`Error::OutcomeUnknown`], only after
    /// `unreachable_after` of the first member's client. Without its own wait the acquire counts this time from the start of a known
    /// outage. Nothing is held after an error: the background rolls back grants whose replies are missing.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future releases every acquired member, and leaves nothing behind.
    pub fn acquire(&self) -> GroupAcquire<R> {
        let Self { members, name, total, rule } = self;
        let lock = Self { members: members.clone(), name: name.clone(), total: *total, rule: *rule };
        GroupAcquire { lock, wait: None, lease: None, max_hold: None, owner: None, backoff: None }
    }

    /// Acquires enough members if they are free. Otherwise, and if a member is lost during the acquire, returns `None`.
    ///
    /// # Errors
    ///
    /// The errors of [`GroupLock::acquire`], without retries.
    ///
    /// # Cancel safety
    ///
    /// See [`GroupLock::acquire`].
    pub async fn try_acquire(&self) -> Result<Option<GroupGuard<R>>, Error> {
        self.check()?;
        self.acquire().attempt(None, &mut None).await
    }

    /// Acquires the lock, runs `work` under it, and releases it. Once the lock is lost, `work` is not polled again.
    ///
    /// # Errors
    ///
    /// The errors of [`Lock::with`](crate::Lock::with).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops `work` and releases all members in the background.
    ///
    /// # Examples
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// # let client = leasehold::Client::embedded();
    /// let transfer = client.multi_lock([client.lock("account:1"), client.lock("account:2")]);
    /// let moved = transfer.with(async |_held| 100).await?;
    /// assert_eq!(moved, 100);
    /// # Ok::<(), leasehold::Error>(()) }).unwrap();
    /// ```
    pub async fn with<T>(&self, work: impl AsyncFnOnce(&GroupGuard<R>) -> T) -> Result<T, WithError<T>> {
        self.acquire().with(work).await
    }

    fn check(&self) -> Result<(), InvalidInput> {
        if self.members.is_empty() { Err(InvalidInput::NoMembers) } else { R::check(self) }
    }

    /// Returns the client whose clock applies, after a check.
    pub(super) fn handle(&self) -> &Arc<Handle> {
        self.members[0].spec().handle()
    }

    /// Returns for how long unreachable servers have prevented a grant.
    fn out_of_reach_for(&self) -> Duration {
        let mut out: Vec<Duration> =
            self.members.iter().filter_map(|member| member.spec().out_of_reach_for()).collect();
        out.sort_unstable_by(|one, other| other.cmp(one));
        out.get(self.members.len() - R::needed(self)).copied().unwrap_or_default()
    }
}

impl<R> fmt::Debug for GroupLock<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GroupLock").field("name", &self.name).field("total", &self.total).finish_non_exhaustive()
    }
}

/// A builder for an acquire of a [`GroupLock`]. Awaiting it acquires the lock.
///
/// # Cancel safety
///
/// See [`GroupLock::acquire`].
#[derive(Clone, Debug)]
#[must_use = "an acquire does nothing until it is awaited"]
pub struct GroupAcquire<R> {
    pub(super) lock: GroupLock<R>,
    pub(super) wait: Option<Wait>,
    lease: Option<Duration>,
    max_hold: Option<Duration>,
    pub(super) owner: Option<Owner>,
    pub(super) backoff: Option<Backoff>,
}

impl<R: GroupRule> GroupAcquire<R> {
    /// Limits the wait while other owners hold members. Default: the default wait of the first member's client.
    pub const fn wait(mut self, wait: Duration) -> Self {
        self.wait = Some(Wait::For(wait));
        self
    }

    /// Limits the wait to the time before `deadline`, like [`Acquire::wait_until`](crate::Acquire::wait_until).
    pub fn wait_until(mut self, deadline: impl Into<tokio::time::Instant>) -> Self {
        self.wait = Some(Wait::Until(deadline.into()));
        self
    }

    /// Sets a fixed lease for every member, which the clients do not renew.
    pub const fn lease(mut self, lease: Duration) -> Self {
        self.lease = Some(lease);
        self
    }

    /// Limits how long each member is held. After this time the member is lost.
    pub const fn max_hold(mut self, most: Duration) -> Self {
        self.max_hold = Some(most);
        self
    }

    /// Acquires the lock, runs `work` under it, and releases it, like [`GroupLock::with`].
    ///
    /// # Errors
    ///
    /// The errors of [`Lock::with`](crate::Lock::with).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops `work` and releases all members in the background.
    pub async fn with<T>(self, work: impl AsyncFnOnce(&GroupGuard<R>) -> T) -> Result<T, WithError<T>> {
        self.run().await.map_err(WithError::NotAcquired)?.with(work).await
    }

    /// Returns the acquire of a member.
    pub(super) fn member(&self, member: &AnyLock) -> Acquire<Any> {
        let mut acquire = member.acquire();
        (acquire.lease, acquire.max_hold) = (self.lease, self.max_hold);
        acquire.owner.clone_from(&self.owner);
        acquire
    }

    async fn attempt(&self, until: Option<Instant>, busy: &mut Option<usize>) -> Result<Option<GroupGuard<R>>, Error> {
        let Some(guards) = R::attempt(self, until, busy).await? else { return Ok(None) };
        let guard = GroupGuard::new(self.lock.name.clone(), guards, R::needed(&self.lock), self.lock.handle().clone());
        // The first members may have expired before the last was acquired.
        let Some(reason) = guard.ended() else { return Ok(Some(guard)) };
        guard.release().await.ok();
        event!(debug, ?reason, "a group lost members before all were acquired");
        Ok(None)
    }

    async fn run(self) -> Result<GroupGuard<R>, Error> {
        self.lock.check()?;
        let handle = self.lock.handle();
        let begun = handle.clock.now();
        let until = handle.end_of_wait(self.wait);
        let backoff = self.backoff.clone().unwrap_or(R::PAUSES);
        let (mut attempts, mut busy) = (0_u32, None);
        // The start of the current series of failed attempts.
        let mut failing_since = None;
        loop {
            let started = handle.clock.now();
            let failed = match self.attempt(Some(until), &mut busy).await {
                Ok(Some(guard)) => return Ok(guard),
                Ok(None) => {
                    failing_since = None;
                    None
                }
                Err(error) if R::is_transient(&error) => {
                    let failed_for = handle.clock.now().since(*failing_since.get_or_insert(started));
                    let out_for = if self.wait.is_none() { self.lock.out_of_reach_for() } else { Duration::ZERO };
                    if failed_for.max(out_for) >= handle.settings.session.unreachable_after {
                        return Err(error);
                    }
                    Some(error)
                }
                Err(error) => return Err(error),
            };
            attempts = attempts.saturating_add(1);
            let now = handle.clock.now();
            let random = handle.with(|session, _| session.random());
            match backoff.pause(attempts, random).filter(|_| now < until) {
                // A random pause separates callers that compete for the members.
                Some(pause) => attempt::pause(handle, pause.min(until.since(now))).await,
                None => {
                    let (name, waited, elapsed) = (&self.lock.name, now.since(begun), AcquireError::WaitElapsed);
                    return Err(failed.unwrap_or_else(|| Error::from_acquire(name, "lock", waited, elapsed)));
                }
            }
        }
    }
}

impl<R: GroupRule> IntoFuture for GroupAcquire<R> {
    type Output = Result<GroupGuard<R>, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}

/// Awaits all futures concurrently. Once the results are [`Enough`], it waits as long again for the other futures, at least 10 ms, and then drops
/// them.
pub(super) async fn most<F: Future>(
    handle: &Arc<Handle>,
    futures: impl Iterator<Item = F>,
    enough: impl Fn(&[F::Output]) -> Enough,
) -> Vec<F::Output> {
    let begun = handle.clock.now();
    let mut pending: FuturesUnordered<F> = futures.collect();
    let mut done = Vec::with_capacity(pending.len());
    loop {
        match enough(&done) {
            Enough::Over => return done,
            Enough::Yes => break,
            Enough::No => match pending.next().await {
                Some(value) => done.push(value),
                None => return done,
            },
        }
    }
    let grace = attempt::pause(handle, handle.clock.now().since(begun).max(GRACE));
    let rest = pending.for_each(|value| {
        done.push(value);
        std::future::ready(())
    });
    select(rest, pin!(grace)).await;
    done
}

/// The results of [`most`].
pub(super) enum Enough {
    No,
    Yes,
    /// No missing result can change the outcome.
    Over,
}

/// The minimum time for slower futures.
const GRACE: Duration = Duration::from_millis(10);

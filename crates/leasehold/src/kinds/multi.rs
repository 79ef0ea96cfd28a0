//! The multi lock.

use super::any::AnyLock;
use super::group::{GroupGuard, Reach, all, release};
use crate::client::inner::Handle;
use crate::error::{Error, InvalidInput, WithError};
use crate::kind::{AllMembers, Any, Fair, Fenced, FencedFair, Read, Reentrant, Write};
use crate::lock::Lock;
use crate::lock::acquire::Acquire;
use crate::lock::acquire::wait::Wait;
use crate::lock::attempt;
use crate::lock::guard::Guard;
use crate::lock::owner::Owner;
use crate::lock::spec::LockSpec;
use crate::telemetry::event;
use leasehold_core::error::AcquireError;
use leasehold_core::session::Patience;
use std::fmt;
use std::future::IntoFuture;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

/// Several locks that are acquired together: all of them, or none.
///
/// **When to use it:** if one step changes several resources with separate locks, such as both accounts of a transfer. The order of the
/// members does not matter: no two callers block each other for long. **When not:** to survive the loss of a server: use the
/// [`QuorumLock`](crate::QuorumLock). For many small resources, use the [`StripedLock`](crate::StripedLock).
///
/// Members are [`Lock`], [`FairLock`](crate::FairLock), [`FencedLock`](crate::FencedLock), [`ReadLock`](crate::ReadLock) and
/// [`WriteLock`](crate::WriteLock), also of several clients and servers. All callers acquire them in the order of their names, so multi locks do not
/// deadlock. A caller waits for a busy member for up to 100 ms while it holds the members before it. Then it releases them, and waits for the busy
/// member without holding a member. A deadlock with code that acquires a single member therefore ends after 100 ms.
///
/// A caller keeps its place in the queue of a fair member only while it holds no other member. After the 100 ms it rejoins the queue at its
/// tail. The queue is therefore fair to groups only while the other members are free.
///
/// The guard lasts until the earliest deadline of its members, and is lost with any member. Members do not fall back: while the server of a member is
/// unreachable, an acquire fails regardless of [`Lock::fallback`].
///
/// # Examples
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// # let client = leasehold::Client::embedded();
/// let transfer = client.multi_lock([client.lock("account:1"), client.lock("account:2")]);
/// let guard = transfer.acquire().await?;
/// guard.run(async { /* move money */ }).await?;
/// guard.release().await?;
/// # Ok::<(), leasehold::Error>(()) }).unwrap();
/// ```
#[derive(Clone)]
pub struct MultiLock {
    members: Arc<[Member]>,
    name: Arc<str>,
}

/// A member of a [`MultiLock`]. Locks of suitable kinds convert into it.
#[derive(Clone, Debug)]
pub struct Member(AnyLock);

macro_rules! members {
    ($($kind:ident),*) => {$(
        impl From<Lock<$kind>> for Member {
            /// Creates a member, which neither lingers nor falls back: a group only holds grants of its servers.
            fn from(lock: Lock<$kind>) -> Self {
                Self(lock.as_member().erase())
            }
        }
    )*};
}

members!(Reentrant, Fair, FencedFair, Fenced, Read, Write);

impl Member {
    /// Returns the name without the prefix of its client.
    pub fn name(&self) -> &str {
        self.0.name()
    }

    fn spec(&self) -> &LockSpec {
        self.0.spec()
    }
}

impl MultiLock {
    /// Creates a lock over `members`, which may belong to several clients. An acquire fails without members, or with a repeated member.
    pub fn new<M: Into<Member>>(members: impl IntoIterator<Item = M>) -> Self {
        Self::of(members.into_iter().map(Into::into).collect())
    }

    fn of(members: Arc<[Member]>) -> Self {
        let names: Vec<&str> = members.iter().map(Member::name).collect();
        let name = names.join(" + ").into();
        Self { members, name }
    }

    /// Counts the metrics of every member under `class`. See [`Lock::class`].
    #[must_use]
    pub fn class(self, class: impl AsRef<str>) -> Self {
        let class = class.as_ref();
        Self::of(self.members.iter().map(|member| Member(member.0.clone().class(class))).collect())
    }

    /// Returns the names of the members, joined by ` + `, as in errors.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the members.
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// Acquires all members, in the order of their names.
    ///
    /// # Errors
    ///
    /// When awaited: the errors of [`Lock::acquire`] of a member; [`InvalidInput::NoMembers`] and [`InvalidInput::SameMember`]. Nothing is
    /// held after an error.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future releases every acquired member, and leaves nothing behind.
    pub fn acquire(&self) -> MultiAcquire {
        MultiAcquire { multi: self.clone(), wait: None, lease: None, max_hold: None, owner: None }
    }

    /// Acquires all members if they are free. Returns `None` if a member is busy, or was lost before all were acquired.
    ///
    /// # Errors
    ///
    /// The errors of [`MultiLock::acquire`].
    ///
    /// # Cancel safety
    ///
    /// See [`MultiLock::acquire`].
    pub async fn try_acquire(&self) -> Result<Option<MultiGuard>, Error> {
        let how = self.acquire();
        let handle = self.check()?;
        let Ok(guards) = how.round(&self.order(), |_| Patience::Try).await? else { return Ok(None) };
        Ok(self.held(self.guard(&handle, guards)).await)
    }

    /// Acquires all members, runs `work` under them, and releases them. Once the lock is lost, `work` is not polled again.
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
    pub async fn with<T>(&self, work: impl AsyncFnOnce(&MultiGuard) -> T) -> Result<T, WithError<T>> {
        self.acquire().with(work).await
    }

    /// Returns the guard, unless its first members expired before the last member was acquired. Then all are released.
    async fn held(&self, guard: MultiGuard) -> Option<MultiGuard> {
        let Some(reason) = guard.ended() else { return Some(guard) };
        guard.release().await.ok();
        event!(debug, ?reason, "a multi lock lost members before all were acquired");
        None
    }

    /// Validates the members, and returns the client whose clock applies.
    fn check(&self) -> Result<Arc<Handle>, Error> {
        let Some(first) = self.members.first() else { return Err(InvalidInput::NoMembers.into()) };
        for (index, member) in self.members.iter().enumerate() {
            let spec = member.spec();
            let key = spec.checked_name()?.key();
            // Two clients of one server would block each other on behalf of one caller.
            let same = |other: &Member| {
                other.spec().checked_name().is_ok_and(|name| name.key() == key)
                    && other.spec().handle().is_of_server(spec.handle())
            };
            if self.members[..index].iter().any(same) {
                return Err(InvalidInput::SameMember { name: spec.name().to_owned() }.into());
            }
        }
        Ok(first.spec().handle().clone())
    }

    /// Sorts the members by name, an order that all callers share.
    fn order(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.members.len()).collect();
        order.sort_by(|one, other| self.members[*one].spec().name().cmp(self.members[*other].spec().name()));
        order
    }

    fn guard(&self, handle: &Arc<Handle>, guards: Vec<Guard<Any>>) -> MultiGuard {
        let needed = guards.len();
        GroupGuard::new(self.name.clone(), guards, needed, handle.clone())
    }
}

impl fmt::Debug for MultiLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MultiLock").field("name", &self.name).finish_non_exhaustive()
    }
}

/// A builder for an acquire of a [`MultiLock`]. Awaiting it acquires the lock.
///
/// # Cancel safety
///
/// See [`MultiLock::acquire`].
#[derive(Clone, Debug)]
#[must_use = "an acquire does nothing until it is awaited"]
pub struct MultiAcquire {
    multi: MultiLock,
    wait: Option<Wait>,
    lease: Option<Duration>,
    max_hold: Option<Duration>,
    owner: Option<Owner>,
}

impl MultiAcquire {
    /// Limits the wait for busy members. Default: the default wait of the first member's client.
    pub const fn wait(mut self, wait: Duration) -> Self {
        self.wait = Some(Wait::For(wait));
        self
    }

    /// Limits the wait to the time before `deadline`, such as the deadline of the request that needs the locks. Otherwise like
    /// [`wait`](Self::wait): a deadline in the past makes one attempt. The deadline is an instant of tokio's clock; a
    /// [`std::time::Instant`] converts into it.
    pub fn wait_until(mut self, deadline: impl Into<tokio::time::Instant>) -> Self {
        self.wait = Some(Wait::Until(deadline.into()));
        self
    }

    /// Sets a fixed lease for every member, which is not renewed.
    pub const fn lease(mut self, lease: Duration) -> Self {
        self.lease = Some(lease);
        self
    }

    /// Limits how long the members are held. All members are lost once a member has been held for this time.
    pub const fn max_hold(mut self, most: Duration) -> Self {
        self.max_hold = Some(most);
        self
    }

    /// Acquires the members as `owner`, whose client must own all members.
    pub fn owner(mut self, owner: &Owner) -> Self {
        self.owner = Some(owner.clone());
        self
    }

    /// Acquires all members, runs `work` under them, and releases them. Once the lock is lost, `work` is not polled again.
    ///
    /// # Errors
    ///
    /// The errors of [`Lock::with`](crate::Lock::with).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops `work` and releases all members in the background.
    pub async fn with<T>(self, work: impl AsyncFnOnce(&MultiGuard) -> T) -> Result<T, WithError<T>> {
        self.run().await.map_err(WithError::NotAcquired)?.with(work).await
    }

    async fn take(&self, member: &Member, patience: Patience) -> Result<Option<Guard<Any>>, Error> {
        let mut acquire = Acquire::new(member.spec().clone());
        acquire.set_all(self.lease, self.max_hold, self.owner.as_ref());
        acquire.waits_as(self.wait);
        acquire.run(Some(patience)).await
    }

    /// Acquires all members in this order, each with the patience for its place. `Err` is the place of a busy member; then nothing is held.
    async fn round(
        &self,
        order: &[usize],
        patience: impl Fn(usize) -> Patience,
    ) -> Result<Result<Vec<Guard<Any>>, usize>, Error> {
        let mut guards = Vec::with_capacity(order.len());
        for (place, index) in order.iter().enumerate() {
            let patience = patience(place);
            // The wait behind the first member is short and may end before the server's reply.
            let is_short = place > 0 && patience != Patience::Try;
            match self.take(&self.multi.members[*index], patience).await {
                Ok(Some(guard)) => guards.push(guard),
                Err(error) if !matches!(error, Error::WaitElapsed { .. } | Error::OutcomeUnknown { .. }) => {
                    return Err(error);
                }
                Err(error @ Error::OutcomeUnknown { .. }) if !is_short => return Err(error),
                Ok(None) | Err(_) => {
                    all(guards.into_iter().map(release)).await;
                    return Ok(Err(place));
                }
            }
        }
        Ok(Ok(guards))
    }

    async fn run(self) -> Result<MultiGuard, Error> {
        let handle = self.multi.check()?;
        let begun = handle.clock.now();
        let until = handle.end_of_wait(self.wait);
        let waited = || handle.clock.now().since(begun);
        let elapsed = || Error::from_acquire(&self.multi.name, waited(), AcquireError::WaitElapsed);
        let by_name = self.multi.order();
        let mut order = by_name.clone();
        // Members up to this place may be out of order: waiting for them while holding others could deadlock.
        let mut out_of_order = 0;
        let mut rounds = 0_u32;
        let mut reach = Reach::new(&handle, self.wait.is_some());
        loop {
            let now = handle.clock.now();
            let patience = |place: usize| {
                let left = until.since(handle.clock.now());
                let left = match place {
                    0 => left,
                    // Its holder may wait for a member that this caller holds.
                    _ if place <= out_of_order => return Patience::Try,
                    _ => left.min(HOLDING),
                };
                // The clocks of different clients have different zeros.
                let clock = &self.multi.members[order[place]].spec().handle().clock;
                Patience::Until(clock.now() + left)
            };
            match self.round(&order, patience).await {
                Err(error @ Error::Unreachable { .. }) => {
                    let members = self.multi.members.iter().map(|member| member.spec().clone());
                    if until <= handle.clock.now() || reach.gives_up(now, members, 0) {
                        return Err(error);
                    }
                }
                Ok(Ok(guards)) => {
                    if let Some(guard) = self.multi.held(self.multi.guard(&handle, guards)).await {
                        return Ok(guard);
                    }
                }
                Ok(Err(place)) => {
                    reach.note_answer();
                    // The busy member comes first, so that nothing is held during the wait for it.
                    let busy = order[place];
                    order =
                        std::iter::once(busy).chain(by_name.iter().copied().filter(|index| *index != busy)).collect();
                    out_of_order = by_name.iter().position(|index| *index == busy).unwrap_or_default();
                }
                Err(error) => return Err(error),
            }
            if until <= handle.clock.now() {
                return Err(elapsed());
            }
            // A random pause separates two callers that want the same members in another order.
            rounds = rounds.saturating_add(1);
            let most = Duration::from_millis(1 << rounds.min(6)).min(until.since(handle.clock.now()));
            let random = handle.with(|session, _| session.random());
            attempt::pause(&handle, most.mul_f64(random)).await;
        }
    }
}

impl IntoFuture for MultiAcquire {
    type Output = Result<MultiGuard, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}

/// The longest wait for a member while holding other members. It bounds a deadlock with code that ignores the order.
const HOLDING: Duration = Duration::from_millis(100);

/// A guard of all members of a [`MultiLock`]. The loss of one member is the loss of the guard. The other members stay busy until the guard is
/// dropped or released.
pub type MultiGuard = GroupGuard<AllMembers>;

//! The multi lock.

use super::any::AnyLock;
use super::group::guard::GroupGuard;
use super::group::{GroupAcquire, GroupLock, Rule};
use crate::error::{Error, InvalidInput};
use crate::kind::{AllMembers, Any};
use crate::lock::guard::Guard;
use crate::lock::owner::Owner;
use futures_util::future::join_all;
use leasehold_core::backoff::Backoff;
use leasehold_core::session::Patience;
use leasehold_core::time::Instant;
use std::time::Duration;

/// Several locks that a caller acquires together: all locks or no lock.
///
/// **When to use it:** if one step changes several resources with separate locks, such as both accounts of a transfer. The order of the
/// members does not matter: no two callers block each other for long. **When not:** to survive the loss of a server: use the
/// [`QuorumLock`](crate::QuorumLock). For many small resources, use the [`StripedLock`](crate::StripedLock).
///
/// Members are locks of any kind with an owner ([`AnyLock`]), even of several clients and servers. All callers acquire them in the order of their
/// names, so multi locks do not deadlock. A caller waits for a busy member for up to 100 ms while it holds the members before it. Then it releases
/// them, and waits for the busy member without holding a member. A deadlock with code that acquires a single member therefore ends after 100 ms.
///
/// A caller keeps its place in the queue of a fair member only while it holds no other member. After the 100 ms it rejoins the queue at its
/// tail. The queue is therefore fair to groups only while the other members are free.
///
/// The guard lasts until the earliest deadline of its members, and is lost with the first lost member. Members have no fallback: while the server of a member is
/// unreachable, an acquire fails regardless of [`Lock::fallback`](crate::Lock::fallback).
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
pub type MultiLock = GroupLock<AllMembers>;

/// A builder for an acquire of a [`MultiLock`].
pub type MultiAcquire = GroupAcquire<AllMembers>;

/// A guard of all members of a [`MultiLock`]. The guard is lost with the first lost member. The other members stay busy until the guard is
/// dropped or released.
pub type MultiGuard = GroupGuard<AllMembers>;

impl MultiLock {
    /// Creates a lock over `members`, which may belong to several clients. An acquire fails without members, or with a repeated member.
    pub fn new<M: Into<AnyLock>>(members: impl IntoIterator<Item = M>) -> Self {
        let members: Vec<AnyLock> = members.into_iter().map(Into::into).collect();
        let names: Vec<&str> = members.iter().map(AnyLock::name).collect();
        let (name, total) = (names.join(" + "), members.len());
        Self::over(members, &name, total)
    }
}

impl MultiAcquire {
    /// Acquires the members as `owner`, whose client must own all members.
    pub fn owner(mut self, owner: &Owner) -> Self {
        self.owner = Some(owner.clone());
        self
    }
}

/// The longest wait for a member while holding other members. It bounds a deadlock with code that ignores the order.
const HOLDING: Duration = Duration::from_millis(100);

impl Rule for AllMembers {
    const PAUSES: Backoff = Backoff::exponential(Duration::from_millis(2), Duration::from_millis(64));

    fn check(lock: &MultiLock) -> Result<(), InvalidInput> {
        for (index, member) in lock.members.iter().enumerate() {
            let spec = member.spec();
            let key = spec.checked_name()?.key();
            // Two clients of one server would block each other within one acquire.
            let same = |other: &AnyLock| {
                other.spec().checked_name().is_ok_and(|name| name.key() == key)
                    && other.spec().handle().is_of_server(spec.handle())
            };
            if lock.members[..index].iter().any(same) {
                return Err(InvalidInput::SameMember { name: spec.name().to_owned() });
            }
        }
        Ok(())
    }

    fn needed(lock: &MultiLock) -> usize {
        lock.members.len()
    }

    fn is_transient(error: &Error) -> bool {
        matches!(error, Error::Unreachable { .. })
    }

    /// Acquires the members by name, an order that all callers share. The busy member of the last attempt comes first: the caller waits for it
    /// without holding another member.
    async fn attempt(
        acquire: &MultiAcquire,
        until: Option<Instant>,
        busy: &mut Option<usize>,
    ) -> Result<Option<Vec<Guard<Any>>>, Error> {
        let (members, clock) = (&acquire.lock.members, &acquire.lock.handle().clock);
        let mut order: Vec<usize> = (0..members.len()).collect();
        order.sort_by(|one, other| members[*one].name().cmp(members[*other].name()));
        // Members up to this index may be out of order: waiting for them while holding a member could deadlock.
        let out_of_order = order.iter().position(|index| Some(*index) == *busy).unwrap_or_default();
        order[..=out_of_order].rotate_right(1);
        let mut guards = Vec::with_capacity(order.len());
        for (place, index) in order.into_iter().enumerate() {
            let member = &members[index];
            let patience = match until {
                Some(until) if place == 0 || place > out_of_order => {
                    let left = until.since(clock.now());
                    let left = if place == 0 { left } else { left.min(HOLDING) };
                    // The clocks of different clients have different origins.
                    Patience::Until(member.spec().handle().clock.now() + left)
                }
                _ => Patience::Try,
            };
            // The wait behind the first member is short and may end before the server's reply.
            let is_short = place > 0 && patience != Patience::Try;
            let mut taking = acquire.member(member);
            taking.wait = acquire.wait;
            let taken = match taking.run(Some(patience)).await {
                Err(Error::WaitElapsed { .. }) => None,
                Err(Error::OutcomeUnknown { .. }) if is_short => None,
                taken => taken?,
            };
            let Some(guard) = taken else {
                *busy = Some(index);
                join_all(guards.into_iter().map(Guard::release)).await;
                return Ok(None);
            };
            guards.push(guard);
        }
        Ok(Some(guards))
    }
}

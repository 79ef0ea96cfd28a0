//! The fair lock.

use crate::kind::{Fair, FencedFair};
use crate::lock::Lock;
use leasehold_core::command::Kind;

/// A lock that the server grants in the order of the requests, across all processes.
///
/// **When to use it:** if order matters: buyers of a limited stock, jobs for a scarce machine. Every waiting task has its own place in a
/// queue on the server. A dead process loses all its places within the [liveness timeout](crate::FairSettings::liveness_timeout) of two
/// seconds. **When not:** if only exclusion matters. Each waiting task costs a command, and a waiting process sends a heartbeat every half
/// second.
///
/// A waiter that is silent for longer than this timeout loses its place and rejoins at the tail (`leasehold_queue_positions_lost_total`). Causes are
/// a suspended machine and an unreachable server. A waiter whose future is not polled at its turn also loses its place
/// (`leasehold_unpolled_turns_total`). Such a waiter delays all other waiters for half an [offer timeout](crate::FairSettings::offer_timeout), one second by
/// default. On the server the lock is Redisson's `RFairLock`.
///
/// # Examples
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// # let client = leasehold::Client::embedded();
/// let till = client.fair_lock("till:3");
/// let guard = till.acquire().await?;
/// guard.release().await?;
/// # Ok::<(), leasehold::Error>(()) }).unwrap();
/// ```
pub type FairLock = Lock<Fair>;

/// A [`FairLock`] whose grants include fencing tokens: see [`FencedLock`](crate::FencedLock) for their purpose.
///
/// # Examples
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// # let client = leasehold::Client::embedded();
/// let till = client.fair_lock("till:3").fenced();
/// let guard = till.acquire().await?;
/// assert!(guard.fencing_token().as_u64() > 0);
/// # guard.release().await?;
/// # Ok::<(), leasehold::Error>(()) }).unwrap();
/// ```
pub type FencedFairLock = Lock<FencedFair>;

impl FairLock {
    /// Returns this lock with fencing tokens. All users of the name should request tokens: a grant without a token leaves the previous
    /// token in force.
    #[must_use]
    pub fn fenced(&self) -> FencedFairLock {
        Lock::of(self.spec().with(|spec| spec.kind = Kind::FencedFair))
    }
}

//! The fair lock.

use crate::kind::{Fair, FencedFair};
use crate::lock::Lock;
use leasehold_core::command::Kind;

/// A lock that is granted in the order of the requests, across all processes that use its server.
///
/// **When to use it:** for an order that must be kept: buyers in front of an inventory, jobs in front of a scarce machine. Every waiting
/// task has its own place in a queue on the server; a process that dies loses its places within the [liveness
/// timeout](crate::FairSettings::liveness_timeout) of two seconds, however many they are. **When not:** where only exclusion matters. Each
/// waiting task costs a command of its own, and a process that waits says every half second that it lives.
///
/// A waiter that was silent for longer than the window, because its machine was suspended or its server out of reach, has lost its
/// place and goes on at the tail; `leasehold_queue_positions_lost_total` counts it. So does one whose future is not polled when its turn has
/// come, which `leasehold_unpolled_turns_total` counts: it keeps all others waiting for half a
/// [offer timeout](crate::FairSettings::offer_timeout), which is a second, and no longer. On the server the lock is Redisson's `RFairLock`.
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

/// A [`FairLock`] whose grants carry fencing tokens: see [`FencedLock`](crate::FencedLock) for what these are for.
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
    /// The same lock, whose grants carry fencing tokens. All who use the name should ask for them: a grant without one leaves the token of
    /// the grant before in force.
    #[must_use]
    pub fn fenced(&self) -> FencedFairLock {
        Lock::of(self.spec().with_kind(Kind::FencedFair))
    }
}

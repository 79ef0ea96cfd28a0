//! Owners, which can re-enter their locks.

use crate::client::inner::Handle;
use leasehold_core::owner::OwnerId;
use std::fmt;
use std::sync::Arc;

tokio::task_local! {
    static CURRENT: Scope;
}

/// An identity that can re-enter the locks it holds.
///
/// [`Client::new_owner`](crate::Client::new_owner) creates an owner. An owner is neither a thread nor a task: tasks move between threads,
/// and the branches of a `join!` share one task. All acquires by an owner share one hold, which excludes all other owners. Calls inside
/// [`Owner::scope`] inherit the owner; [`Acquire::owner`](crate::Acquire::owner) sets it explicitly.
///
/// An owner cannot be serialized, and is valid only in its client. The server stores the number of a hold, which is never reused.
///
/// # Examples
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// # let client = leasehold::Client::embedded();
/// let lock = client.lock("stock:1001");
/// let owner = client.new_owner();
/// owner
///     .scope(async {
///         let outer = lock.acquire().await?;
///         let inner = lock.acquire().await?;
///         assert_eq!(inner.hold_count(), 2);
///         inner.release().await?;
///         outer.release().await
///     })
///     .await?;
/// # Ok::<(), leasehold::Error>(()) }).unwrap();
/// ```
#[derive(Clone)]
pub struct Owner {
    handle: Arc<Handle>,
    id: OwnerId,
}

impl Owner {
    pub(crate) fn new(handle: Arc<Handle>) -> Self {
        let id = handle.with(|session, _| session.new_owner());
        Self { handle, id }
    }

    /// Runs `work` as this owner: every acquire of a lock of this client re-enters the owner's hold.
    ///
    /// A scope does not extend to spawned tasks. Concurrent branches inside one scope, as in `join!`, share the owner and the critical
    /// section. Use a separate scope for each branch that must exclude the other branches. Of nested scopes, the innermost applies, separately for each
    /// client.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops `work`.
    pub async fn scope<T>(&self, work: impl Future<Output = T>) -> T {
        CURRENT.scope(Scope::inside(self), work).await
    }

    /// Runs `work` as this owner, like [`Owner::scope`], on a thread without a runtime: see [`blocking`](crate::blocking). The scope does not
    /// extend to other threads.
    pub fn scope_blocking<T>(&self, work: impl FnOnce() -> T) -> T {
        CURRENT.sync_scope(Scope::inside(self), work)
    }

    /// Returns the owner of the innermost enclosing scope, if it belongs to the client of `handle`.
    pub(crate) fn current(handle: &Arc<Handle>) -> Option<OwnerId> {
        Self::scopes(handle).first().copied()
    }

    /// Returns the owners of the enclosing scopes that belong to the client of `handle`, innermost first.
    pub(crate) fn scopes(handle: &Arc<Handle>) -> Vec<OwnerId> {
        let of = |scope: &Scope| scope.outward().filter_map(|scope| scope.owner.id_for(handle)).collect::<Vec<_>>();
        CURRENT.try_with(of).unwrap_or_default()
    }

    /// Returns the owner's number, if the owner belongs to the client of `handle`.
    pub(crate) fn id_for(&self, handle: &Arc<Handle>) -> Option<OwnerId> {
        Arc::ptr_eq(self.handle.shared(), handle.shared()).then_some(self.id)
    }
}

/// A scope and its enclosing scopes. Owners of different clients do not hide each other.
#[derive(Clone)]
struct Scope {
    owner: Owner,
    outer: Option<Arc<Self>>,
}

impl Scope {
    /// Creates a scope of `owner` inside the current scope.
    fn inside(owner: &Owner) -> Self {
        let outer = CURRENT.try_with(|outer| Arc::new(outer.clone())).ok();
        Self { owner: owner.clone(), outer }
    }

    /// Iterates over the scope and its enclosing scopes, innermost first.
    fn outward(&self) -> impl Iterator<Item = &Self> {
        std::iter::successors(Some(self), |scope| scope.outer.as_deref())
    }
}

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Owner").finish_non_exhaustive()
    }
}

//! Owners: who may re-enter.

use crate::client_inner::Handle;
use leasehold_core::owner::OwnerId;
use std::fmt;
use std::sync::Arc;

tokio::task_local! {
    static CURRENT: Scope;
}

/// The identity by which a lock can be taken again that is held already.
///
/// An owner is made by [`Client::new_owner`](crate::Client::new_owner). It is neither a thread nor a task: tasks move between threads, and
/// the branches of a `join!` share one task. All acquires by one owner share the hold; all others are excluded. It is inherited by
/// everything that is called inside [`Owner::scope`], or named by [`Acquire::owner`](crate::Acquire::owner).
///
/// It has no text form and cannot leave its client: what Redis sees is the number of a hold, never used twice.
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

    /// Runs `work` as this owner: every acquire inside it, of locks of this client, re-enters what the owner holds.
    ///
    /// A scope does not cross `spawn`: a task that is started inside it is not in it. Branches that run at once inside one scope, as in
    /// `join!`, are the same owner and share the critical section; give each a scope of its own where they shall exclude each other. The
    /// innermost of nested scopes counts, for each client that of its own owners.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops `work`, and nothing else.
    pub async fn scope<T>(&self, work: impl Future<Output = T>) -> T {
        CURRENT.scope(Scope::inside(self), work).await
    }

    /// As [`Owner::scope`], for work of a thread without a runtime: see [`blocking`](crate::blocking). The scope does not cross to other
    /// threads.
    pub fn scope_blocking<T>(&self, work: impl FnOnce() -> T) -> T {
        CURRENT.sync_scope(Scope::inside(self), work)
    }

    /// The owner in whose scope this is called, where it belongs to the client of `handle`.
    pub(crate) fn current(handle: &Arc<Handle>) -> Option<OwnerId> {
        CURRENT.try_with(|scope| scope.innermost_of(handle)).ok().flatten()
    }

    /// The owners in whose scopes this is called, the innermost first, as far as they belong to the client of `handle`.
    pub(crate) fn scopes(handle: &Arc<Handle>) -> Vec<OwnerId> {
        let of = |scope: &Scope| scope.outward().filter_map(|scope| scope.owner.id_for(handle)).collect::<Vec<_>>();
        CURRENT.try_with(of).unwrap_or_default()
    }

    /// The owner's number, where it belongs to the client of `handle`.
    pub(crate) fn id_for(&self, handle: &Arc<Handle>) -> Option<OwnerId> {
        Arc::ptr_eq(self.handle.shared(), handle.shared()).then_some(self.id)
    }
}

/// A scope, and those around it: an owner of one client does not hide that of another.
#[derive(Clone)]
struct Scope {
    owner: Owner,
    outer: Option<Arc<Self>>,
}

impl Scope {
    /// A scope of `owner` inside the present one.
    fn inside(owner: &Owner) -> Self {
        let outer = CURRENT.try_with(|outer| Arc::new(outer.clone())).ok();
        Self { owner: owner.clone(), outer }
    }

    fn innermost_of(&self, handle: &Arc<Handle>) -> Option<OwnerId> {
        self.outward().find_map(|scope| scope.owner.id_for(handle))
    }

    /// The scope, and those around it.
    fn outward(&self) -> impl Iterator<Item = &Self> {
        std::iter::successors(Some(self), |scope| scope.outer.as_deref())
    }
}

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Owner").finish_non_exhaustive()
    }
}

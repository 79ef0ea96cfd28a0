//! All pools of a link, for tasks that concern every connection.

use super::pool::Pool;
use super::shared::{LinkShared, Role};
use parking_lot::Mutex;
use std::fmt;
use std::sync::{Arc, Weak};

/// All pools of a link. Dropped pools leave the list.
pub(super) struct Pools {
    pub(super) shared: Arc<LinkShared>,
    all: Mutex<Vec<Weak<Pool>>>,
}

impl Pools {
    pub(super) fn new(shared: Arc<LinkShared>) -> Arc<Self> {
        Arc::new(Self { shared, all: Mutex::default() })
    }

    /// Adds a pool for a purpose, without connections. They will run on the current runtime.
    pub(super) fn add(&self, role: Role) -> Arc<Pool> {
        let pool = Pool::new(&self.shared, role);
        self.all.lock().push(Arc::downgrade(&pool));
        pool
    }

    /// The existing pools.
    pub(super) fn all(&self) -> Vec<Arc<Pool>> {
        self.all.lock().iter().filter_map(Weak::upgrade).collect()
    }
}

impl fmt::Debug for Pools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pools").field("shared", &self.shared).finish_non_exhaustive()
    }
}

//! All connections of a link, in one list: for duties that concern each of them, whatever they are for.

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

    /// Adds connections for one purpose. None is made yet; they will live on the runtime in whose context this is called.
    pub(super) fn add(&self, role: Role) -> Arc<Pool> {
        let pool = Pool::new(&self.shared, role);
        self.all.lock().push(Arc::downgrade(&pool));
        pool
    }

    /// Those that there are.
    pub(super) fn all(&self) -> Vec<Arc<Pool>> {
        self.all.lock().iter().filter_map(Weak::upgrade).collect()
    }
}

impl fmt::Debug for Pools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pools").field("shared", &self.shared).finish_non_exhaustive()
    }
}

//! What must hold in every world, a file for each rule.

pub(crate) mod fair_order;
pub(crate) mod grants;
pub(crate) mod latches;
pub(crate) mod leaks;
pub(crate) mod nothing_acquired;

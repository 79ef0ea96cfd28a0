//! The cases: one file for each thing that both sides must agree on, each written for every kind of lock to which it applies.

mod counts;
mod death;
mod exclusion;
mod facts;
mod force;
mod leases;
mod names;
mod renewal;
mod wake_up;

use crate::suite::Cases;

/// Every case, at every place where it runs.
pub(crate) fn all() -> Cases {
    let mut cases = Cases::default();
    for add in [
        wake_up::add,
        exclusion::add,
        counts::add,
        leases::add,
        renewal::add,
        death::add,
        force::add,
        names::add,
        facts::add,
    ] {
        add(&mut cases);
    }
    cases
}

//! The cases: one file for each thing that both sides must agree on, each written for every kind of lock to which it applies.

mod command;
mod command_looks;
mod counts;
mod death;
mod exclusion;
mod facts;
mod fair;
mod fenced;
mod force;
mod latch;
mod leases;
mod multi;
mod names;
mod permits;
mod read_write;
mod renewal;
mod semaphore;
mod wake_up;

use crate::suite::Cases;

/// Every case, at every place where it runs. The long ones come first.
pub(crate) fn all() -> Cases {
    let mut cases = Cases::default();
    for add in [
        wake_up::add,
        renewal::add,
        permits::add,
        command::add,
        fair::add,
        death::add,
        read_write::add,
        exclusion::add,
        counts::add,
        leases::add,
        force::add,
        fenced::add,
        multi::add,
        semaphore::add,
        latch::add,
        names::add,
        facts::add,
        command_looks::add,
    ] {
        add(&mut cases);
    }
    cases
}

//! The scripts of each kind of lock, by the calls that `leasehold-core` makes of them: on the embedded engine with a clock that is
//! moved by hand, and on every server program of this machine where time does not matter.

#[path = "scripts/fenced.rs"]
mod fenced;
#[path = "scripts/read_write.rs"]
mod read_write;
#[path = "scripts/simple.rs"]
mod simple;
#[path = "scripts/spin.rs"]
mod spin;
#[path = "scripts/support_rw.rs"]
mod support_rw;

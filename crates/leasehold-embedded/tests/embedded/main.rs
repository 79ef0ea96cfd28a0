//! The embedded engine, seen from outside.

mod auto_traits;
mod commands;
mod expiry;
mod faults;
mod in_place;
mod notices;
mod refusals;
mod scripting;
mod slow;
mod support;

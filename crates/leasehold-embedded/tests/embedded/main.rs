//! The embedded engine, seen from outside.

mod auto_traits;
mod commands;
mod expiry;
mod faults;
mod lock_scripts;
mod notices;
mod scripting;
mod support;

//! The fair lock. Tests run on the embedded engine, whose time is moved by hand; those that need no time run on real servers
//! too.

mod costs;
mod fair_queue;
mod fair_queue_damage;
mod fair_queue_jvms;
mod fair_queue_short_way;
mod fenced;
mod field_bugs;
mod jvm;
mod random;
mod reentry;
mod servers;
mod world;

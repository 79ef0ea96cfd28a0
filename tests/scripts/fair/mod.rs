//! The fair lock. Tests run on the embedded engine, whose time is moved by hand; those that need no time run on real servers
//! too.

mod costs;
mod counts;
mod damage;
mod fenced;
mod field_bugs;
mod jvm;
mod mixed;
mod places;
mod random;
mod servers;
mod world;

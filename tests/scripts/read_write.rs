//! The read-write lock: both halves, beside JVMs.

#[path = "read_write/directed.rs"]
mod directed;
#[path = "read_write/field_bugs.rs"]
mod field_bugs;
#[path = "read_write/jvm.rs"]
mod jvm;
#[path = "read_write/random.rs"]
mod random;

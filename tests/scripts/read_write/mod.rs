//! The read-write lock: both halves, beside JVMs.

mod directed;
mod field_bugs;
mod jvm;
mod random;

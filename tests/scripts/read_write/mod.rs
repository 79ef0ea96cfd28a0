//! The read-write lock: both halves, beside JVMs.

mod field_bugs;
mod jvm;
mod random;
mod replies;

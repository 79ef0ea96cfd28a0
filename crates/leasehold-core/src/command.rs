//! What is said to a server about each kind of lock, and what its replies mean.

pub mod lock;

//! The users of a random world: what they lock, what they do with it, and what they plan.

pub(crate) mod event;
pub(crate) mod family;
mod latches;
pub(crate) mod plan;
pub(crate) mod reference_store;
pub(crate) mod registers;
pub(crate) mod run;
mod users;

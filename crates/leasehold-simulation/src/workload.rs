//! The locks of a random world and their users, who ask, hold, work on a store, and give back.

pub(crate) mod event;
pub(crate) mod fallbacks;
pub(crate) mod family;
mod hand_overs;
mod latches;
pub(crate) mod leases;
pub(crate) mod least_times;
pub(crate) mod lingering;
mod mixture;
pub(crate) mod plan;
pub(crate) mod reference_store;
pub(crate) mod registers;
pub(crate) mod replicas;
pub(crate) mod run;
mod users;

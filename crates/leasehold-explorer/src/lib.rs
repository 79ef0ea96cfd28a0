//! Explores small worlds exhaustively: every order of messages, every crash, every end of a lease.
//!
//! A small world has up to three clients and the real server scripts on the embedded engine. Each client is a real
//! session with a short script of operations on one lock. The next event is a `Choice`: a request reaches the server, a
//! reply or a notice reaches its client, a client begins its next operation, or a client's timers run. Within the
//! world's fault budgets, a client crashes, a client is held up while a lease ends, or a connection is lost with its
//! messages. [`explore`] follows every choice from every state, breadth first, so it reports a shortest path to a
//! fault.
//!
//! # Time
//!
//! Time only passes while every client with a possible event is **held up**. A held-up client models a paused process
//! or a slow connection: its messages wait while time passes to the end of one or more leases. Each held-up client and
//! each crash is a disturbance. The timers of a held-up client may run on time or late. Without a possible event, time
//! moves to the next timer of any client.
//!
//! # Why the search ends
//!
//! Scripts are short, faults have budgets, and a client is held up only until leases end. A state without events and
//! timers is final. If time passes very often without progress, a client waits forever, which is a fault.
//!
//! # Why the search is fast
//!
//! Clients and server interact only by messages, and each is deterministic. A session depends on its state, the current
//! instant and its input; the server depends on its data, the time and the call. So the search executes each step of
//! each part once, on the real code, and caches it (`clients`, `members`, `server`). A state of the world is a tuple of
//! state numbers of its parts. The search stores a hash of each state.
//!
//! # Which states are equal
//!
//! - **A client's state** contains everything that influences its further steps; `sketch` defines it. Every step
//!   restarts the random numbers, so they are not part of the state.
//! - **The server's state** contains every key with its value and its expiry. Times in expiries and values are relative
//!   to the current instant.
//! - **Notices** to a client without further acquires are dropped. The search verifies in every such state that the
//!   client ignores notices.
//! - **Time** is only the fraction of the current millisecond, because scripts and sessions depend on no other origin.
//! - **Clients with equal scripts** differ only in their names. All sessions use one neutral name, which messages to
//!   and from the server translate (`names`). One representative stands for all states that differ only by a
//!   permutation of such clients (`symmetry`). Equal calls with permuted names produce the server's permuted state.
//!
//! The search makes no other abstraction.
//!
//! # What the search omits, and why
//!
//! - Without other events, all timers of one instant run in one step. No message is in transit, and a timer affects
//!   only its own client, so the order is irrelevant.
//! - Timers without an externally visible effect also run in one step.
//! - A client replaces a lost connection at once.
//! - A reply and the poll of its future are one step, because the session cannot distinguish a late poll from a late
//!   reply. With [`Options::late_polls`], polls of futures that the session wakes are separate choices.
//! - Worlds with three clients have no renewals, few heartbeats and shorter scripts. Worlds with fewer clients renew
//!   leases.
//! - The rules of `search` omit redundant paths. Tests compare the search with and without these rules
//!   ([`Options::reduced`]): both find equal outcomes, and both find broken scripts.

mod checks;
mod choice;
mod choices;
mod client;
mod clients;
mod known;
mod members;
mod names;
mod passing;
mod pool;
mod script;
mod search;
mod server;
mod sketch;
mod state;
mod steps;
mod symmetry;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod view;
mod world;

pub use script::Subject;
pub use search::{Fault, Figures, explore};
pub use world::Options;

//! Small worlds in which everything that can happen does: every order of every message, every crash, every end of a lease.
//!
//! A small world has up to three clients, each a real session with a short script of operations on one lock, and the real scripts of the
//! server on the embedded engine. The next event is a `Choice`: a request reaches the server, a reply or a notice reaches its client, a
//! client begins its next operation, a client's timers run; and, as often as the world's budgets allow, a client crashes, a client is held
//! up while a lease ends, or a connection is lost with what is on it. [`explore`] follows every choice from every state, breadth first, so
//! that what it finds is a shortest way to it.
//!
//! # Time
//!
//! Time does not pass while a client that is not **held up** has something to do. A client that is held up stands for a process that stops,
//! and for a connection that does not get on: messages to it and from it wait while time passes to the end of a lease, its own or another,
//! and on to the next, until a message of its own gets on at last. Each who is held up is a disturbance, as is each who crashes. His timers
//! may run on time meanwhile, or late. If no client has anything to do, time moves to the next timer of any.
//!
//! # Why it ends
//!
//! Scripts are short, faults have budgets, and who is held up is so until leases have ended. A world in which nothing can happen and no
//! client waits for time to pass is at its end. If time has passed very often and no client has got on, one waits for ever.
//!
//! # Why it is quick
//!
//! Clients and server only meet in messages, and each is deterministic: what a session does follows from its state, the present instant and
//! what it is told, and what the server does from its data, the time and the call. So each step of each part is carried out once, on the
//! real thing, and remembered (`clients`, `members`, `server`); a state of the world is a handful of numbers of states of its parts. A
//! state is remembered by a hash.
//!
//! # What counts as the same
//!
//! - **Of a client**, everything that has a bearing on what it does from here on; `sketch` says what that is, and why the rest has none.
//!   Random numbers begin anew with every step, so that they are a matter of the rest.
//! - **Of the server**, every key with its value and its end. Times are told from the present, in ends and within values.
//! - **Of notices**, nothing where a client acquires nothing any more: that they are nothing to it is tried out in every such state.
//! - **Of time**, nothing but the place of the present in its millisecond: neither scripts nor sessions know any other origin.
//! - **Clients with one script** do the same but for their names. Each is the same session with a name of no client's, which is replaced on
//!   the way to the server and back (`names`); and among states that are each other's but for an exchange of such clients, one stands for
//!   all (`symmetry`). The server's state for another order of the clients is brought about by the same calls in the other names.
//!
//! Nothing else is abstracted from.
//!
//! # What is left out, and why that is sound
//!
//! - If nothing else can happen, the timers that are due at one instant all run in one step: no message is on the way, and a timer touches
//!   its own client only, so that every order of them comes to the same.
//! - Timers after which nothing has changed that another could see are passed in one step, too, for the same reason.
//! - A client whose connection is lost has the next one at once.
//! - A reply and the poll of the future that waits for it are one step: a late poll looks to the session as a late reply does.
//!   Polls of futures that the session wakes are choices of their own where [`Options::late_polls`] says so.
//! - Three clients do not renew their leases, which end before a renewal is due unless something has gone wrong; fewer do. Nor do they
//!   say often that they live, in a queue; and their scripts are shorter.
//! - The rules of `search`. Without them ([`Options::reduced`]) small worlds come to the same outcomes, and broken scripts are found as
//!   well; tests compare both.

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

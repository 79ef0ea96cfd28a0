//! A model of the protocol, apart from the code that carries it out, and a checker that visits every state of it.
//!
//! `docs/model.md` says what the model says and leaves out, and names for each action the functions of the code that carry it out.

#![expect(clippy::exhaustive_enums, clippy::exhaustive_structs, reason = "the crate is not published")]

pub mod checker;
pub mod fault;
pub mod model;
pub mod properties;
mod replies;
mod server;
#[cfg(test)]
mod tests;
mod time;
pub mod world;

//! The scripts, run one by one: what each answers, and what it leaves on the server.

#[path = "scripts/fair/mod.rs"]
mod fair;

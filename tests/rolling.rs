//! A fleet that is upgraded while it runs: clients of the first scripts of the reentrant lock, kept as they were, and clients of
//! today's contend for the same names, on the embedded engine and on every server. And a guard: what each kind writes is written
//! down, with the number of the layout, so that no script changes it unnoticed.

#[path = "rolling/clients.rs"]
mod clients;
#[path = "rolling/contention.rs"]
mod contention;
#[path = "support/eval.rs"]
mod eval;
#[path = "rolling/layout.rs"]
mod layout;
#[path = "rolling/mixed.rs"]
mod mixed;
#[path = "rolling/place.rs"]
mod place;

//! What goes wrong in a world: with single calls by chance, with connections, with processes, and with the server.

pub(crate) mod connections;
pub(crate) mod last_faults;
pub(crate) mod processes;
pub(crate) mod rates;
pub(crate) mod server;

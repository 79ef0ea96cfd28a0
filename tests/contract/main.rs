//! The parts of the workspace say the truth of each other: scripts and their headers, decoders, manifests, public types, documents.

mod api;
mod architecture;
mod auto_traits;
mod documents;
mod files;
mod header;
mod lua;
mod lua_code;
mod model;
mod mutants;
mod observability;
mod pages;
mod prose;
mod replies;
mod session;

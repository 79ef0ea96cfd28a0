//! Checks that parts of the workspace agree: scripts with their headers and decoders, manifests with the architecture, documents with the code.

mod architecture;
mod auto_traits;
mod documents;
mod files;
mod header;
mod lua;
mod lua_code;
mod mutants;
mod observability;
mod replies;

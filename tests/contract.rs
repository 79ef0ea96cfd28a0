//! The parts of the workspace say the truth of each other: scripts and their headers, decoders, manifests, public types, documents.

#[path = "contract/architecture.rs"]
mod architecture;
#[path = "contract/auto_traits.rs"]
mod auto_traits;
#[path = "contract/documents.rs"]
mod documents;
#[path = "contract/files.rs"]
mod files;
#[path = "contract/header.rs"]
mod header;
#[path = "contract/lua.rs"]
mod lua;
#[path = "contract/lua_code.rs"]
mod lua_code;
#[path = "contract/mutants.rs"]
mod mutants;
#[path = "contract/pages.rs"]
mod pages;
#[path = "contract/prose.rs"]
mod prose;
#[path = "contract/replies.rs"]
mod replies;
#[path = "contract/session.rs"]
mod session;

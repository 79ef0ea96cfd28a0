//! Names of clients on the way to the server and back: every client calls itself by the same name, and the server knows each by its own.

use super::client::{ANYBODY, identity};
use bytes::Bytes;
use leasehold_core::call::Call;
use leasehold_core::command::permits::PermitId;
use leasehold_core::owner::HoldNumber;
use leasehold_core::reply::Reply;
use leasehold_core::wire::Words;

/// The most clients that there can be.
pub(crate) const CLIENTS: usize = 4;

/// The highest number of a hold that a client of a small world comes to, with the permits of one hold.
pub(crate) const HOLDS: usize = 12;
const PERMITS: u32 = 2;

/// Everything by which the server knows a client, in the same order for each, and for the nameless one.
#[derive(Debug)]
pub(crate) struct Names {
    anybody: Vec<Vec<u8>>,
    clients: Vec<Vec<Vec<u8>>>,
}

impl Names {
    pub(crate) fn new() -> Self {
        Self { anybody: names_of(ANYBODY), clients: (0..CLIENTS).map(names_of).collect() }
    }

    /// A call as the server gets it from a client.
    pub(crate) fn of_client(&self, call: &Call, client: usize) -> Call {
        let renamed = |texts: Words<'_>| {
            texts.to_vec().into_iter().map(|text| renamed(&text, &self.anybody, &self.clients[client]))
        };
        Call::new(call.script(), renamed(call.keys()), renamed(call.args()))
    }

    /// A text about the nameless client as one about a client.
    pub(crate) fn text_of(&self, text: &str, client: usize) -> String {
        String::from_utf8_lossy(&renamed(text.as_bytes(), &self.anybody, &self.clients[client])).into_owned()
    }

    /// A reply to a client, as one to the nameless one. It names no other.
    pub(crate) fn for_anybody(&self, reply: Reply, client: usize) -> Reply {
        match reply {
            Reply::Bulk(text) => {
                let bare = renamed(&text, &self.clients[client], &self.anybody);
                for name in self.clients.iter().map(|names| &names[0]) {
                    assert!(!bare.windows(name.len()).any(|part| part == &name[..]), "a reply names another client");
                }
                Reply::Bulk(bare)
            }
            Reply::Array(parts) => Reply::Array(parts.into_iter().map(|part| self.for_anybody(part, client)).collect()),
            other => other,
        }
    }
}

fn names_of(client: usize) -> Vec<Vec<u8>> {
    let client = identity(client);
    let mut names = vec![client.to_string().into_bytes()];
    let holds = std::iter::successors(Some(HoldNumber::FIRST), |number| Some(number.next())).take(HOLDS);
    for hold in holds {
        names.extend(PermitId::of_hold(client.field(hold), PERMITS).map(|id| id.as_bytes().to_vec()));
    }
    names
}

/// The text with each of some names in the place of another, which is as long.
fn renamed(text: &[u8], from: &[Vec<u8>], to: &[Vec<u8>]) -> Bytes {
    let mut text = text.to_vec();
    let mut at = 0;
    while at < text.len() {
        let found = from.iter().position(|name| text[at..].starts_with(name));
        match found {
            Some(index) => {
                text[at..at + from[index].len()].copy_from_slice(&to[index]);
                at += from[index].len();
            }
            None => at += 1,
        }
    }
    Bytes::from(text)
}

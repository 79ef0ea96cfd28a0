//! Messages on channels. A link only learns the channel of a message.

use super::Arity::{AtLeast, Exactly};
use super::Effect::Reads;
use super::{Command, entry};
use crate::engine::answer::{Answer, Outcome};
use crate::engine::channels::PubSubMode;
use crate::engine::keyspace::Keyspace;
use bytes::Bytes;
use leasehold_core::link::ServerError;

pub(super) const COMMANDS: &[Command] = &[
    entry("PUBLISH", Exactly(2), Reads, |keyspace, args| {
        Ok(Answer::count(keyspace.channels.publish(PubSubMode::Plain, args[0], args[1])))
    }),
    entry("SPUBLISH", Exactly(2), Reads, |keyspace, args| {
        Ok(Answer::count(keyspace.channels.publish(PubSubMode::Sharded, args[0], args[1])))
    }),
    entry("PUBSUB", AtLeast(1), Reads, pubsub),
];

/// `PUBSUB NUMSUB channel …`, or `SHARDNUMSUB`.
fn pubsub(keyspace: &mut Keyspace, args: &[&[u8]]) -> Outcome {
    let mode = match args[0].to_ascii_uppercase().as_slice() {
        b"NUMSUB" => PubSubMode::Plain,
        b"SHARDNUMSUB" => PubSubMode::Sharded,
        _ => return Err(ServerError::new("ERR the embedded engine has no other question about channels")),
    };
    let told = args[1..].iter().flat_map(|channel| {
        let channel = Bytes::copy_from_slice(channel);
        let count = Answer::count(keyspace.channels.listeners(mode, &channel));
        [Answer::Bulk(channel), count]
    });
    Ok(Answer::Array(told.collect()))
}

//! Messages on channels. A link that listens learns where a message came, not what it said.

use super::Arity::Exactly;
use super::Effect::Reads;
use super::{Command, entry};
use crate::engine::answer::Answer;
use crate::engine::channels::PubSubMode;

pub(super) const COMMANDS: &[Command] = &[
    entry("PUBLISH", Exactly(2), Reads, |keyspace, args| {
        Ok(Answer::count(keyspace.channels.publish(PubSubMode::Plain, args[0], args[1])))
    }),
    entry("SPUBLISH", Exactly(2), Reads, |keyspace, args| {
        Ok(Answer::count(keyspace.channels.publish(PubSubMode::Sharded, args[0], args[1])))
    }),
];

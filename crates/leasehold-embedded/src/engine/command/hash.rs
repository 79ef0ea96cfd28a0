//! Commands on hashes.

use super::Arity::{AtLeast, Exactly};
use super::Effect::{Grows, Reads, Writes};
use super::{Command, entry, overflow};
use crate::engine::answer::{Answer, Outcome};
use crate::engine::keyspace::Keyspace;
use crate::engine::number::{int_arg, parse_int};
use crate::engine::value::Hash;
use bytes::Bytes;
use leasehold_core::link::ServerError;

pub(super) const COMMANDS: &[Command] = &[
    entry("HGET", Exactly(2), Reads, hget),
    entry("HMGET", AtLeast(2), Reads, hmget),
    entry("HGETALL", Exactly(1), Reads, hgetall),
    entry("HKEYS", Exactly(1), Reads, hkeys),
    entry("HVALS", Exactly(1), Reads, hvals),
    entry("HLEN", Exactly(1), Reads, hlen),
    entry("HEXISTS", Exactly(2), Reads, hexists),
    entry("HSTRLEN", Exactly(2), Reads, hstrlen),
    entry("HSET", AtLeast(3), Grows, hset),
    entry("HSETNX", Exactly(3), Grows, hsetnx),
    entry("HINCRBY", Exactly(3), Grows, hincrby),
    entry("HDEL", AtLeast(2), Writes, hdel),
];

fn hget(keyspace: &mut Keyspace, args: &[&[u8]]) -> Outcome {
    Ok(Answer::maybe(keyspace.read::<Hash>(args[0])?.and_then(|hash| hash.get(args[1]).cloned())))
}

fn hmget(keyspace: &mut Keyspace, args: &[&[u8]]) -> Outcome {
    let hash = keyspace.read::<Hash>(args[0])?;
    let value = |field: &&[u8]| Answer::maybe(hash.and_then(|hash| hash.get(field).cloned()));
    Ok(Answer::Array(args[1..].iter().map(value).collect()))
}

fn hgetall(keyspace: &mut Keyspace, args: &[&[u8]]) -> Outcome {
    list(keyspace, args[0], |field, value| vec![field, value])
}

fn hkeys(keyspace: &mut Keyspace, args: &[&[u8]]) -> Outcome {
    list(keyspace, args[0], |field, _| vec![field])
}

fn hvals(keyspace: &mut Keyspace, args: &[&[u8]]) -> Outcome {
    list(keyspace, args[0], |_, value| vec![value])
}

fn list(keyspace: &mut Keyspace, key: &[u8], part: fn(Bytes, Bytes) -> Vec<Bytes>) -> Outcome {
    let Some(hash) = keyspace.read::<Hash>(key)? else { return Ok(Answer::Array(Vec::new())) };
    let parts = hash.iter().flat_map(|(field, value)| part(field.clone(), value.clone()));
    Ok(Answer::Array(parts.map(Answer::Bulk).collect()))
}

fn hlen(keyspace: &mut Keyspace, args: &[&[u8]]) -> Outcome {
    Ok(Answer::count(keyspace.read::<Hash>(args[0])?.map_or(0, Hash::len)))
}

fn hexists(keyspace: &mut Keyspace, args: &[&[u8]]) -> Outcome {
    Ok(Answer::flag(keyspace.read::<Hash>(args[0])?.is_some_and(|hash| hash.get(args[1]).is_some())))
}

fn hstrlen(keyspace: &mut Keyspace, args: &[&[u8]]) -> Outcome {
    let value = keyspace.read::<Hash>(args[0])?.and_then(|hash| hash.get(args[1]));
    Ok(Answer::count(value.map_or(0, Bytes::len)))
}

fn hset(keyspace: &mut Keyspace, args: &[&[u8]]) -> Outcome {
    let (pairs, odd) = args[1..].as_chunks::<2>();
    if !odd.is_empty() {
        return Err(ServerError::new("ERR wrong number of arguments for 'hset' command"));
    }
    let added = keyspace.create_or_change(args[0], |hash: &mut Hash| {
        pairs.iter().filter(|[field, value]| hash.set(field, Bytes::copy_from_slice(value))).count()
    })?;
    Ok(Answer::count(added))
}

fn hsetnx(keyspace: &mut Keyspace, args: &[&[u8]]) -> Outcome {
    let added = keyspace.create_or_change(args[0], |hash: &mut Hash| {
        hash.get(args[1]).is_none() && hash.set(args[1], Bytes::copy_from_slice(args[2]))
    })?;
    Ok(Answer::flag(added))
}

fn hincrby(keyspace: &mut Keyspace, args: &[&[u8]]) -> Outcome {
    let amount = int_arg(args[2])?;
    keyspace.create_or_change(args[0], |hash: &mut Hash| {
        let stored = match hash.get(args[1]) {
            Some(text) => parse_int(text).ok_or_else(|| ServerError::new("ERR hash value is not an integer"))?,
            None => 0,
        };
        let sum = stored.checked_add(amount).ok_or_else(overflow)?;
        hash.set(args[1], Bytes::from(sum.to_string()));
        Ok(Answer::Int(sum))
    })?
}

fn hdel(keyspace: &mut Keyspace, args: &[&[u8]]) -> Outcome {
    let removed =
        keyspace.change(args[0], |hash: &mut Hash| args[1..].iter().filter(|field| hash.remove(field)).count())?;
    Ok(Answer::count(removed.unwrap_or_default()))
}

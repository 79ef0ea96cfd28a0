//! Commands on keys of any type, and the clock.

use super::Arity::{AtLeast, Exactly};
use super::Effect::{Reads, Writes};
use super::{Command, entry};
use crate::engine::answer::{Answer, Outcome};
use crate::engine::keyspace::Keyspace;
use crate::engine::number::int_arg;
use bytes::Bytes;
use leasehold_core::link::ServerError;

pub(super) const COMMANDS: &[Command] = &[
    entry("DEL", AtLeast(1), Writes, del),
    entry("UNLINK", AtLeast(1), Writes, del),
    entry("EXISTS", AtLeast(1), Reads, exists),
    entry("TYPE", Exactly(1), Reads, type_of),
    entry("KEYS", Exactly(1), Reads, keys),
    entry("PTTL", Exactly(1), Reads, pttl),
    entry("PEXPIRE", AtLeast(2), Writes, pexpire),
    entry("PEXPIREAT", Exactly(2), Writes, pexpireat),
    entry("PERSIST", Exactly(1), Writes, persist),
    entry("TIME", Exactly(0), Reads, time),
];

fn del(keyspace: &mut Keyspace, args: &[&[u8]]) -> Outcome {
    Ok(Answer::count(args.iter().filter(|key| keyspace.remove(key)).count()))
}

/// A duplicate key counts twice.
fn exists(keyspace: &mut Keyspace, args: &[&[u8]]) -> Outcome {
    Ok(Answer::count(args.iter().filter(|key| keyspace.value(key).is_some()).count()))
}

fn type_of(keyspace: &mut Keyspace, args: &[&[u8]]) -> Outcome {
    Ok(Answer::Status(keyspace.value(args[0]).map_or("none", |value| value.type_name())))
}

/// Supports only the pattern `*`: all keys, in order.
fn keys(keyspace: &mut Keyspace, args: &[&[u8]]) -> Outcome {
    if args[0] != b"*" {
        return Err(ServerError::new("ERR the embedded engine lists keys by the pattern '*' only"));
    }
    Ok(Answer::Array(keyspace.keys().into_iter().map(Answer::Bulk).collect()))
}

fn pttl(keyspace: &mut Keyspace, args: &[&[u8]]) -> Outcome {
    let now = keyspace.now();
    Ok(Answer::Int(match keyspace.expires_at(args[0]) {
        None => -2,
        Some(None) => -1,
        Some(Some(end)) => (end - now).max(0),
    }))
}

fn pexpire(keyspace: &mut Keyspace, args: &[&[u8]]) -> Outcome {
    let lease = int_arg(args[1])?;
    let end = keyspace.now().checked_add(lease).ok_or_else(|| invalid_expire("pexpire"))?;
    match &args[2..] {
        [] => {}
        [option] if option.eq_ignore_ascii_case(b"GT") => {
            // A missing time to live counts as the longest.
            if !matches!(keyspace.expires_at(args[0]), Some(Some(present)) if present < end) {
                return Ok(Answer::flag(false));
            }
        }
        _ => return Err(ServerError::new("ERR the embedded engine knows the option GT of PEXPIRE only")),
    }
    Ok(expire_at(keyspace, args[0], end))
}

fn pexpireat(keyspace: &mut Keyspace, args: &[&[u8]]) -> Outcome {
    let end = int_arg(args[1])?;
    Ok(expire_at(keyspace, args[0], end))
}

/// A past expiry deletes the key, and the command succeeds.
fn expire_at(keyspace: &mut Keyspace, key: &[u8], end: i64) -> Answer {
    if end <= keyspace.now() {
        Answer::flag(keyspace.remove(key))
    } else {
        Answer::flag(keyspace.set_expiry(key, Some(end)))
    }
}

fn persist(keyspace: &mut Keyspace, args: &[&[u8]]) -> Outcome {
    let ends = matches!(keyspace.expires_at(args[0]), Some(Some(_)));
    Ok(Answer::flag(ends && keyspace.set_expiry(args[0], None)))
}

fn time(keyspace: &mut Keyspace, _: &[&[u8]]) -> Outcome {
    let now = keyspace.now_micros();
    let part = |number: i64| Answer::Bulk(Bytes::from(number.to_string()));
    Ok(Answer::Array(vec![part(now.div_euclid(1_000_000)), part(now.rem_euclid(1_000_000))]))
}

/// The error for an invalid time to live.
pub(super) fn invalid_expire(command: &str) -> ServerError {
    ServerError::new(format!("ERR invalid expire time in '{command}' command"))
}

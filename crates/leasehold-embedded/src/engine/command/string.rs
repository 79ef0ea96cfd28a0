//! Commands on strings.

use super::Arity::{AtLeast, Exactly};
use super::Effect::{Grows, Reads};
use super::key::invalid_expire;
use super::{Command, entry, not_an_integer, overflow, syntax_error};
use crate::engine::answer::{Answer, Outcome};
use crate::engine::keyspace::Keyspace;
use crate::engine::number::{int_arg, parse_int};
use crate::engine::value::Value;
use bytes::Bytes;

pub(super) const COMMANDS: &[Command] = &[
    entry("GET", Exactly(1), Reads, get),
    entry("GETRANGE", Exactly(3), Reads, getrange),
    entry("STRLEN", Exactly(1), Reads, strlen),
    entry("SET", AtLeast(2), Grows, set),
    entry("INCR", Exactly(1), Grows, |keyspace, args| add(keyspace, args[0], 1)),
    entry("DECR", Exactly(1), Grows, |keyspace, args| add(keyspace, args[0], -1)),
    entry("INCRBY", Exactly(2), Grows, |keyspace, args| add(keyspace, args[0], int_arg(args[1])?)),
    entry("DECRBY", Exactly(2), Grows, decrby),
];

fn get(keyspace: &mut Keyspace, args: &[&[u8]]) -> Outcome {
    Ok(Answer::maybe(keyspace.read::<Bytes>(args[0])?.cloned()))
}

/// The bytes from `start` to `end` inclusive. A negative index counts from the end, and is clamped to the first byte.
fn getrange(keyspace: &mut Keyspace, args: &[&[u8]]) -> Outcome {
    let (start, end) = (int_arg(args[1])?, int_arg(args[2])?);
    let text = keyspace.read::<Bytes>(args[0])?.cloned().unwrap_or_default();
    let place = |at: i64| {
        let before_end = usize::try_from(at.unsigned_abs()).unwrap_or(usize::MAX);
        if at < 0 { text.len().saturating_sub(before_end) } else { before_end }
    };
    let crossed = start < 0 && end < 0 && start > end;
    let (first, behind) = (place(start), place(end).saturating_add(1).min(text.len()));
    let part = if crossed || first >= behind { Bytes::new() } else { text.slice(first..behind) };
    Ok(Answer::Bulk(part))
}

fn strlen(keyspace: &mut Keyspace, args: &[&[u8]]) -> Outcome {
    Ok(Answer::count(keyspace.read::<Bytes>(args[0])?.map_or(0, Bytes::len)))
}

/// `SET key value [NX | XX] [PX milliseconds | EX seconds | PXAT time | KEEPTTL]`
fn set(keyspace: &mut Keyspace, args: &[&[u8]]) -> Outcome {
    let (key, value) = (args[0], args[1]);
    let (mut only_if_present, mut expiry) = (None, None);
    let mut options = args[2..].iter();
    while let Some(option) = options.next() {
        match option.to_ascii_uppercase().as_slice() {
            b"NX" if only_if_present != Some(true) => only_if_present = Some(false),
            b"XX" if only_if_present != Some(false) => only_if_present = Some(true),
            b"KEEPTTL" if expiry.is_none() => expiry = Some(Expiry::Kept),
            unit @ (b"PX" | b"EX" | b"PXAT") if expiry.is_none() => {
                let number = options.next().ok_or_else(syntax_error)?;
                expiry = Some(Expiry::At(end(keyspace, unit, int_arg(number)?).ok_or_else(|| invalid_expire("set"))?));
            }
            _ => return Err(syntax_error()),
        }
    }
    let present = keyspace.expires_at(key);
    if only_if_present.is_some_and(|wanted| wanted != present.is_some()) {
        return Ok(Answer::Nil);
    }
    let expires_at = match expiry {
        None => None,
        Some(Expiry::Kept) => present.flatten(),
        Some(Expiry::At(end)) => Some(end),
    };
    keyspace.replace(key, Value::Text(Bytes::copy_from_slice(value)), expires_at);
    Ok(Answer::OK)
}

enum Expiry {
    Kept,
    At(i64),
}

fn end(keyspace: &Keyspace, unit: &[u8], number: i64) -> Option<i64> {
    if number <= 0 {
        return None;
    }
    match unit {
        b"PX" => keyspace.now().checked_add(number),
        b"EX" => keyspace.now().checked_add(number.checked_mul(1_000)?),
        _ => Some(number),
    }
}

fn decrby(keyspace: &mut Keyspace, args: &[&[u8]]) -> Outcome {
    let amount = int_arg(args[1])?
        .checked_neg()
        .ok_or_else(|| leasehold_core::link::ServerError::new("ERR decrement would overflow"))?;
    add(keyspace, args[0], amount)
}

/// Keeps the time to live.
fn add(keyspace: &mut Keyspace, key: &[u8], amount: i64) -> Outcome {
    let stored = match keyspace.read::<Bytes>(key)? {
        Some(text) => parse_int(text).ok_or_else(not_an_integer)?,
        None => 0,
    };
    let sum = stored.checked_add(amount).ok_or_else(overflow)?;
    let expires_at = keyspace.expires_at(key).flatten();
    keyspace.replace(key, Value::Text(Bytes::from(sum.to_string())), expires_at);
    Ok(Answer::Int(sum))
}

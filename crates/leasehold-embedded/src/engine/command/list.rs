//! Commands on lists.

use super::Arity::{AtLeast, Exactly};
use super::Effect::{Grows, Reads, Writes};
use super::{Command, entry, range};
use crate::engine::answer::{Answer, Outcome};
use crate::engine::keyspace::Keyspace;
use crate::engine::number::int_arg;
use bytes::Bytes;
use std::collections::VecDeque;

type List = VecDeque<Bytes>;

pub(super) const COMMANDS: &[Command] = &[
    entry("LPUSH", AtLeast(2), Grows, |keyspace, args| push(keyspace, args, List::push_front)),
    entry("RPUSH", AtLeast(2), Grows, |keyspace, args| push(keyspace, args, List::push_back)),
    entry("LPOP", Exactly(1), Writes, |keyspace, args| pop(keyspace, args[0], List::pop_front)),
    entry("RPOP", Exactly(1), Writes, |keyspace, args| pop(keyspace, args[0], List::pop_back)),
    entry("LLEN", Exactly(1), Reads, llen),
    entry("LINDEX", Exactly(2), Reads, lindex),
    entry("LRANGE", Exactly(3), Reads, lrange),
    entry("LREM", Exactly(3), Writes, lrem),
];

fn push(keyspace: &mut Keyspace, args: &[&[u8]], push: fn(&mut List, Bytes)) -> Outcome {
    let len = keyspace.create_or_change(args[0], |list: &mut List| {
        args[1..].iter().for_each(|element| push(list, Bytes::copy_from_slice(element)));
        list.len()
    })?;
    Ok(Answer::count(len))
}

fn pop(keyspace: &mut Keyspace, key: &[u8], pop: fn(&mut List) -> Option<Bytes>) -> Outcome {
    Ok(Answer::maybe(keyspace.change(key, pop)?.flatten()))
}

fn llen(keyspace: &mut Keyspace, args: &[&[u8]]) -> Outcome {
    Ok(Answer::count(keyspace.read::<List>(args[0])?.map_or(0, List::len)))
}

fn lindex(keyspace: &mut Keyspace, args: &[&[u8]]) -> Outcome {
    let Some(list) = keyspace.read::<List>(args[0])? else { return Ok(Answer::Nil) };
    let index = int_arg(args[1])?;
    let len = i64::try_from(list.len()).unwrap_or(i64::MAX);
    let index = if index < 0 { index.saturating_add(len) } else { index };
    Ok(Answer::maybe(usize::try_from(index).ok().and_then(|index| list.get(index).cloned())))
}

fn lrange(keyspace: &mut Keyspace, args: &[&[u8]]) -> Outcome {
    let (start, stop) = (int_arg(args[1])?, int_arg(args[2])?);
    let Some(list) = keyspace.read::<List>(args[0])? else { return Ok(Answer::Array(Vec::new())) };
    let range = range::by_index(start, stop, list.len());
    Ok(Answer::Array(list.range(range).cloned().map(Answer::Bulk).collect()))
}

/// A positive count removes from the head, a negative one from the tail, and zero removes all.
fn lrem(keyspace: &mut Keyspace, args: &[&[u8]]) -> Outcome {
    let count = int_arg(args[1])?;
    let most = if count == 0 { usize::MAX } else { usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX) };
    let removed = keyspace.change(args[0], |list: &mut List| {
        let matches = |at: &usize| list[*at] == args[2];
        let mut places: Vec<usize> = if count < 0 {
            (0..list.len()).rev().filter(matches).take(most).collect()
        } else {
            (0..list.len()).filter(matches).take(most).collect()
        };
        // Remove from the tail, so the remaining indices stay valid.
        places.sort_unstable_by(|a, b| b.cmp(a));
        places.iter().for_each(|at| drop(list.remove(*at)));
        places.len()
    })?;
    Ok(Answer::count(removed.unwrap_or_default()))
}

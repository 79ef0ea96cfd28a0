//! Commands on sorted sets.

use super::Arity::{AtLeast, Exactly};
use super::Effect::{Grows, Reads, Writes};
use super::range::{self, Bound};
use super::{Command, entry, syntax_error};
use crate::engine::answer::{Answer, Outcome};
use crate::engine::keyspace::Keyspace;
use crate::engine::number::{format_float, int_arg, parse_float};
use crate::engine::value::SortedSet;
use bytes::Bytes;
use leasehold_core::link::ServerError;

pub(super) const COMMANDS: &[Command] = &[
    entry("ZADD", AtLeast(3), Grows, zadd),
    entry("ZINCRBY", Exactly(3), Grows, zincrby),
    entry("ZREM", AtLeast(2), Writes, zrem),
    entry("ZREMRANGEBYSCORE", Exactly(3), Writes, zremrangebyscore),
    entry("ZSCORE", Exactly(2), Reads, zscore),
    entry("ZRANK", Exactly(2), Reads, zrank),
    entry("ZCARD", Exactly(1), Reads, zcard),
    entry("ZCOUNT", Exactly(3), Reads, zcount),
    entry("ZRANGE", AtLeast(3), Reads, zrange),
    entry("ZRANGEBYSCORE", AtLeast(3), Reads, zrangebyscore),
];

/// `ZADD key [NX | XX] [CH] score member [score member ...]`
fn zadd(keyspace: &mut Keyspace, args: &[&[u8]]) -> Outcome {
    let (mut only_if_present, mut count_changes, mut rest) = (None, false, &args[1..]);
    while let Some((option, after)) = rest.split_first() {
        match option.to_ascii_uppercase().as_slice() {
            b"NX" if only_if_present.is_none() => only_if_present = Some(false),
            b"XX" if only_if_present.is_none() => only_if_present = Some(true),
            b"CH" => count_changes = true,
            _ => break,
        }
        rest = after;
    }
    let (pairs, odd) = rest.as_chunks::<2>();
    if pairs.is_empty() || !odd.is_empty() {
        return Err(syntax_error());
    }
    let pairs: Vec<_> =
        pairs.iter().map(|[score, member]| Ok((float_arg(score)?, *member))).collect::<Result<_, ServerError>>()?;
    let counted = keyspace.create_or_change(args[0], |set: &mut SortedSet| {
        let admitted =
            |set: &SortedSet, member: &[u8]| only_if_present.is_none_or(|wanted| wanted == set.score(member).is_some());
        let mut counted = 0;
        for (score, member) in pairs {
            if admitted(set, member) {
                let old = set.set(member, score);
                counted += usize::from(old.is_none_or(|old| count_changes && old != score));
            }
        }
        counted
    })?;
    Ok(Answer::count(counted))
}

fn zincrby(keyspace: &mut Keyspace, args: &[&[u8]]) -> Outcome {
    let amount = float_arg(args[1])?;
    keyspace.create_or_change(args[0], |set: &mut SortedSet| {
        let sum = set.score(args[2]).map_or(amount, |stored| stored + amount);
        if sum.is_nan() {
            return Err(ServerError::new("ERR resulting score is not a number (NaN)"));
        }
        set.set(args[2], sum);
        Ok(score(sum))
    })?
}

fn zrem(keyspace: &mut Keyspace, args: &[&[u8]]) -> Outcome {
    let removed =
        keyspace.change(args[0], |set: &mut SortedSet| args[1..].iter().filter(|member| set.remove(member)).count())?;
    Ok(Answer::count(removed.unwrap_or_default()))
}

fn zremrangebyscore(keyspace: &mut Keyspace, args: &[&[u8]]) -> Outcome {
    let scores = Scores::parse(args[1], args[2])?;
    let removed = keyspace.change(args[0], |set: &mut SortedSet| {
        let members: Vec<Bytes> = scores.of(set).map(|(member, _)| member.clone()).collect();
        members.iter().filter(|member| set.remove(member)).count()
    })?;
    Ok(Answer::count(removed.unwrap_or_default()))
}

fn zscore(keyspace: &mut Keyspace, args: &[&[u8]]) -> Outcome {
    Ok(keyspace.read::<SortedSet>(args[0])?.and_then(|set| set.score(args[1])).map_or(Answer::Nil, score))
}

fn zrank(keyspace: &mut Keyspace, args: &[&[u8]]) -> Outcome {
    let rank =
        keyspace.read::<SortedSet>(args[0])?.and_then(|set| set.iter().position(|(member, _)| member == args[1]));
    Ok(rank.map_or(Answer::Nil, Answer::count))
}

fn zcard(keyspace: &mut Keyspace, args: &[&[u8]]) -> Outcome {
    Ok(Answer::count(keyspace.read::<SortedSet>(args[0])?.map_or(0, SortedSet::len)))
}

fn zcount(keyspace: &mut Keyspace, args: &[&[u8]]) -> Outcome {
    let scores = Scores::parse(args[1], args[2])?;
    Ok(Answer::count(keyspace.read::<SortedSet>(args[0])?.map_or(0, |set| scores.of(set).count())))
}

/// `ZRANGE key start stop [BYSCORE] [REV] [LIMIT offset count] [WITHSCORES]`
fn zrange(keyspace: &mut Keyspace, args: &[&[u8]]) -> Outcome {
    let options = Options::parse(&args[3..], true)?;
    if options.by_score {
        return list_by_score(keyspace, args, &options);
    }
    if options.limit.is_some() {
        return Err(ServerError::new(
            "ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX",
        ));
    }
    let (start, stop) = (int_arg(args[1])?, int_arg(args[2])?);
    let Some(set) = keyspace.read::<SortedSet>(args[0])? else { return Ok(Answer::Array(Vec::new())) };
    let range = range::by_index(start, stop, set.len());
    let (skipped, taken) = (range.start, range.len());
    Ok(if options.reversed {
        listed(set.iter().rev().skip(skipped).take(taken), options.with_scores)
    } else {
        listed(set.iter().skip(skipped).take(taken), options.with_scores)
    })
}

/// `ZRANGEBYSCORE key min max [WITHSCORES] [LIMIT offset count]`
fn zrangebyscore(keyspace: &mut Keyspace, args: &[&[u8]]) -> Outcome {
    let options = Options::parse(&args[3..], false)?;
    list_by_score(keyspace, args, &options)
}

fn list_by_score(keyspace: &mut Keyspace, args: &[&[u8]], options: &Options) -> Outcome {
    // A reversed range starts at the greater bound.
    let scores = if options.reversed { Scores::parse(args[2], args[1])? } else { Scores::parse(args[1], args[2])? };
    let Some(set) = keyspace.read::<SortedSet>(args[0])? else { return Ok(Answer::Array(Vec::new())) };
    let (skipped, taken) = options.window();
    Ok(if options.reversed {
        listed(scores.of(set).rev().skip(skipped).take(taken), options.with_scores)
    } else {
        listed(scores.of(set).skip(skipped).take(taken), options.with_scores)
    })
}

#[derive(Default)]
struct Options {
    by_score: bool,
    reversed: bool,
    with_scores: bool,
    limit: Option<(i64, i64)>,
}

impl Options {
    fn parse(words: &[&[u8]], of_zrange: bool) -> Result<Self, ServerError> {
        let mut options = Self::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            match word.to_ascii_uppercase().as_slice() {
                b"WITHSCORES" => options.with_scores = true,
                b"BYSCORE" if of_zrange => options.by_score = true,
                b"REV" if of_zrange => options.reversed = true,
                b"LIMIT" => {
                    let mut number = || int_arg(words.next().ok_or_else(syntax_error)?);
                    options.limit = Some((number()?, number()?));
                }
                _ => return Err(syntax_error()),
            }
        }
        Ok(options)
    }

    /// Numbers of elements to skip and to return. A negative offset returns nothing, a negative count everything.
    fn window(&self) -> (usize, usize) {
        let (offset, count) = self.limit.unwrap_or((0, -1));
        usize::try_from(offset).map_or((0, 0), |offset| (offset, usize::try_from(count).unwrap_or(usize::MAX)))
    }
}

struct Scores {
    least: Bound,
    greatest: Bound,
}

impl Scores {
    fn parse(least: &[u8], greatest: &[u8]) -> Result<Self, ServerError> {
        Ok(Self { least: Bound::parse(least)?, greatest: Bound::parse(greatest)? })
    }

    fn of<'a>(&'a self, set: &'a SortedSet) -> impl DoubleEndedIterator<Item = (&'a Bytes, f64)> {
        set.iter().filter(|(_, score)| self.least.admits_from_below(*score) && self.greatest.admits_from_above(*score))
    }
}

fn listed<'a>(members: impl Iterator<Item = (&'a Bytes, f64)>, with_scores: bool) -> Answer {
    let mut parts = Vec::new();
    for (member, of) in members {
        parts.push(Answer::Bulk(member.clone()));
        if with_scores {
            parts.push(score(of));
        }
    }
    Answer::Array(parts)
}

fn score(value: f64) -> Answer {
    Answer::Bulk(Bytes::from(format_float(value)))
}

fn float_arg(text: &[u8]) -> Result<f64, ServerError> {
    parse_float(text).ok_or_else(|| ServerError::new("ERR value is not a valid float"))
}

//! The answers of a hostile server to the calls of a session, and the most that a session may make of them.

use crate::source::Source;
use leasehold_core::call::Call;
use leasehold_core::command::{Acquired, Kind, Renewed};
use leasehold_core::link::{LinkError, ServerError};
use leasehold_core::reply::Reply;
use leasehold_core::settings::Settings;
use leasehold_core::time::Instant;
use std::time::Duration;

/// The fate of anything that is not a call.
pub(crate) fn outcome(source: &mut Source<'_>) -> Result<(), LinkError> {
    match source.below(16) {
        0 => Err(LinkError::NotSent("it is down".into())),
        1 => Err(LinkError::Unknown("it is gone".into())),
        2 => Err(LinkError::Refused(ServerError::new(source.one_of(&["WRONGTYPE x", "LOADING x", "OOM x", ""])))),
        _ => Ok(()),
    }
}

/// The answer to a call: mostly one of the form that its script has.
pub(crate) fn answer(source: &mut Source<'_>, call: &Call) -> Result<Reply, LinkError> {
    outcome(source)?;
    let script = match (verb(call), source.below(8)) {
        (_, 7) => source.reply(),
        ("acquire", _) => {
            let (code, left) = (source.one_of(&[1, 1, 1, 1, 2, 3, 0, 4, 1, 1, -1, -2, -3]), left(source));
            let parts = [code, left, source.number(), 1, 1, 0];
            let shown = if code == 4 { 6 } else { 3 + source.below(2) };
            Reply::Array(parts[..shown].iter().copied().map(Reply::Int).collect())
        }
        ("renew", _) => {
            let holds = 1 + source.below(3) / 2;
            let parts = (0..holds).flat_map(|_| [source.one_of(&[1, 1, 2, 0, 3, -5]), left(source)]);
            Reply::Array(parts.map(Reply::Int).collect())
        }
        _ => Reply::Int(source.one_of(&[1, 2, 0, 3, -1])),
    };
    if call.replicas().is_none() || source.below(8) == 7 {
        return Ok(script);
    }
    Ok(Reply::Array(vec![script, Reply::Int(source.one_of(&[1, 2, 1, 0, -1]))]))
}

/// The rest of a lease, mostly enough for a guard.
fn left(source: &mut Source<'_>) -> i64 {
    match source.below(8) {
        0 | 1 => source.number(),
        choice => [3_000, 2_990, 500, 40, 3_000, 10_000][choice - 2],
    }
}

/// Folder and verb make the name of a script.
fn verb(call: &Call) -> &'static str {
    call.script().name().rsplit('/').next().unwrap_or_default()
}

/// Until when a holder may believe at the most, by what was said to a call that was sent then: the margin is taken off, and nothing counts
/// that too few replicas acknowledged. `None` where nothing was promised to any of these kinds.
pub(crate) fn promised(call: &Call, sent: Instant, kinds: &[Kind], reply: &Reply) -> Option<Instant> {
    let script = match (call.replicas(), reply) {
        (None, script) => script,
        (Some(replicas), Reply::Array(parts)) => match &parts[..] {
            [script, Reply::Int(count)] if *count >= i64::from(replicas.at_least) => script,
            _ => return None,
        },
        (Some(_), _) => return None,
    };
    let lefts: Vec<Duration> = match (verb(call), script) {
        ("acquire", script) => kinds.iter().filter_map(|kind| granted(*kind, script)).collect(),
        ("renew", Reply::Array(parts)) => {
            let outcomes = Renewed::decode(script, parts.len() / 2).unwrap_or_default();
            let left = |outcome| if let Renewed::Held { left, .. } = outcome { Some(left) } else { None };
            outcomes.into_iter().filter_map(left).collect()
        }
        _ => Vec::new(),
    };
    // If the margin of a lease is longer than time itself, nothing of it is left: the longest lease need not promise the most.
    let until = lefts.into_iter().map(|left| sent + left - Settings::margin(left)).max()?;
    // A cell takes what lies 292 years ahead for what lasts for ever.
    Some(if until.as_nanos() < u64::MAX / 2 { until } else { Instant::FAR_FUTURE })
}

fn granted(kind: Kind, script: &Reply) -> Option<Duration> {
    match kind.protocol().acquired(script) {
        Ok(Acquired::Held { left, .. }) => Some(left),
        _ => None,
    }
}

//! The rules for calls in a trace: their ends, their order, and that settled calls stay settled.

use super::driver::{SLACK, TIMEOUT};
use super::trace::{End, Event, Line, Number};
use leasehold_core::link::{LinkError, Settled};
use leasehold_core::reply::Reply;
use std::collections::BTreeMap;
use tokio::time::Instant;

/// The trace lines of a call.
#[derive(Default)]
struct Story {
    durable: bool,
    slot: u16,
    begun: usize,
    began: Option<Instant>,
    queued: Option<usize>,
    end: Option<(usize, Instant, End)>,
    /// The lines at which the call reached a server, and its connection.
    arrived: Vec<(usize, i64)>,
    executed: Vec<usize>,
    refused: Vec<String>,
    /// The mark after the call was refused.
    unmarked: bool,
}

fn stories(lines: &[Line]) -> BTreeMap<Number, Story> {
    let mut all: BTreeMap<Number, Story> = BTreeMap::new();
    for (place, line) in lines.iter().enumerate() {
        match &line.event {
            Event::Begun { call, durable, slot } => {
                let story = all.entry(*call).or_default();
                (story.durable, story.slot) = (*durable, *slot);
                (story.begun, story.began) = (place, Some(line.at));
            }
            Event::Queued { call } => all.entry(*call).or_default().queued = Some(place),
            Event::Ended { call, end } => {
                all.entry(*call).or_default().end = Some((place, line.at, end.clone()));
            }
            Event::Arrived { call, connection, .. } => {
                let story = all.entry(*call).or_default();
                story.arrived.push((place, *connection));
                story.unmarked = false;
            }
            Event::Executed { call, .. } => all.entry(*call).or_default().executed.push(place),
            Event::MarkRefused { connection } => {
                // The mark of the connection's last call.
                let by =
                    |story: &Story| story.arrived.last().filter(|(_, by)| by == connection).map(|(place, _)| *place);
                if let Some(story) = all.values_mut().max_by_key(|story| by(story)) {
                    story.unmarked = true;
                }
            }
            Event::Refused { call, code } => all.entry(*call).or_default().refused.push(code.clone()),
            _ => {}
        }
    }
    all
}

/// The violations of the rules in the trace.
pub(super) fn violations(lines: &[Line]) -> Vec<String> {
    let stories = stories(lines);
    let mut found: Vec<String> = stories
        .iter()
        .filter_map(|(call, story)| fate(*call, story).map(|text| format!("call {call}: {text}")))
        .collect();
    found.extend(settled(lines, &stories));
    found.extend(order(&stories));
    found
}

/// The end of each call matches the servers' actions.
fn fate(call: Number, story: &Story) -> Option<String> {
    let (times, arrivals) = (story.executed.len(), story.arrived.len());
    if times > 1 {
        return Some(format!("it was executed {times} times"));
    }
    // A redirection, a request for the source, or a refused batch allows one more copy. Nothing else does.
    let is_detour =
        |code: &&String| code.ends_with(" of the batch") || ["NOSCRIPT", "MOVED", "ASK"].contains(&&***code);
    let detours = story.refused.iter().filter(is_detour).count();
    if arrivals > detours + 1 {
        return Some(format!("it was sent {arrivals} times after {detours} detours"));
    }
    let (place, at, end) = story.end.as_ref()?;
    let own = Reply::Int(i64::try_from(call).unwrap_or_default());
    // The fake server returns the number of the connection's last call as its number of replicas. This shows whose
    // `WAIT` was answered.
    let counted = if story.unmarked { Reply::Int(0) } else { own.clone() };
    let wanted = if story.durable { Reply::Array(vec![own, counted]) } else { own };
    let wrong = match end {
        End::Answered(Ok(reply)) if *reply != wanted => Some(format!("it has the reply {reply:?} of another")),
        End::Answered(Ok(_)) if times != 1 => Some("it has a reply, and was never executed".to_owned()),
        End::Answered(Err(LinkError::NotSent(why))) if arrivals > 0 => {
            Some(format!("it was sent, and was told not to be: {why}"))
        }
        End::Answered(Err(LinkError::Refused(error))) => {
            let in_its_middle = error.code() == "ERR";
            if in_its_middle && !error.text().contains(&format!("call {call} ")) {
                Some(format!("it has the error of another: {error}"))
            } else if times != usize::from(in_its_middle) {
                Some(format!("it was executed {times} times, and refused with {error}"))
            } else {
                story
                    .arrived
                    .last()
                    .filter(|(arrived, _)| arrived > place)
                    .map(|_| "a copy came after the refusal".to_owned())
            }
        }
        _ => None,
    };
    let bound = TIMEOUT * u32::try_from(2 + arrivals).unwrap_or(u32::MAX) + SLACK;
    let took = at.saturating_duration_since(story.began?);
    wrong.or_else(|| (took > bound).then(|| format!("it took {took:?}")))
}

/// No call from before a settling is executed after its proof.
fn settled(lines: &[Line], stories: &BTreeMap<Number, Story>) -> Vec<String> {
    let mut begun = BTreeMap::new();
    let mut found = Vec::new();
    for (place, line) in lines.iter().enumerate() {
        match &line.event {
            Event::Settling { number, durable, slot } => _ = begun.insert(*number, (place, line.at, (*durable, *slot))),
            Event::Settled { number, result } => {
                let Some((from, at, of)) = begun.remove(number) else { continue };
                let took = line.at.saturating_duration_since(at);
                if took > TIMEOUT * 3 + SLACK {
                    found.push(format!("settling {number} took {took:?}"));
                }
                if *result != Ok(Settled::Proven) {
                    continue;
                }
                let concerned = stories.iter().filter(|(_, story)| {
                    (story.durable, story.slot) == of && story.queued.is_some_and(|queued| queued < from)
                });
                for (call, story) in concerned {
                    if let Some(executed) = story.executed.iter().find(|executed| **executed > place) {
                        found.push(format!(
                            "call {call}, begun at {}, was executed at {executed}, after settling {number} was proven at {place}",
                            story.begun
                        ));
                    }
                }
            }
            _ => {}
        }
    }
    found
}

/// The first copies of calls use a connection in the order of the calls. Resent copies arrive later, and durable calls
/// queue for several connections. For these no order is promised.
fn order(stories: &BTreeMap<Number, Story>) -> Vec<String> {
    let mut by_connection: BTreeMap<i64, Vec<(usize, Number)>> = BTreeMap::new();
    for (call, story) in stories.iter().filter(|(_, story)| !story.durable) {
        if let Some((place, connection)) = story.arrived.first() {
            by_connection.entry(*connection).or_default().push((*place, *call));
        }
    }
    let mut found = Vec::new();
    for (connection, mut all) in by_connection {
        all.sort_unstable();
        for (at, (_, earlier)) in all.iter().enumerate() {
            for (_, later) in &all[at + 1..] {
                let (earlier_story, later_story) = (&stories[earlier], &stories[later]);
                if later_story.queued.is_some_and(|queued| queued < earlier_story.begun) {
                    found.push(format!("call {earlier} came before call {later} by connection {connection}"));
                }
            }
        }
    }
    found
}

//! The rules for subscriptions in a trace.

use super::driver::{SLACK, TIMEOUT};
use super::trace::{Event, Line};
use bytes::Bytes;
use leasehold_core::link::LinkEvent;
use std::collections::{BTreeMap, BTreeSet};

/// The violations of the rules in the trace. Some only mean that an event is not reported yet.
pub(super) fn violations(lines: &[Line]) -> Vec<String> {
    let mut found = confirmed(lines);
    found.extend(delivered(lines));
    found.extend(late(lines));
    found
}

/// Subscribing and unsubscribing end in time, even with a silent server. The limit allows for redirections and a busy
/// connection.
fn late(lines: &[Line]) -> Vec<String> {
    let mut channels = BTreeMap::new();
    let mut found = Vec::new();
    for (place, line) in lines.iter().enumerate() {
        let began = match &line.event {
            Event::Subscribing { channel } | Event::Unsubscribing { channel } => {
                channels.insert(channel, line.at);
                None
            }
            Event::Subscribed { channel, .. } | Event::Unsubscribed { channel, .. } => channels.remove(channel),
            _ => None,
        };
        let took = began.map(|began| line.at.saturating_duration_since(began));
        if let Some(took) = took.filter(|took| *took > TIMEOUT * 8 + SLACK) {
            found.push(format!("what ended at {place} took {took:?}"));
        }
    }
    found
}

/// A confirmed subscription has reached a server since its request.
fn confirmed(lines: &[Line]) -> Vec<String> {
    let mut asked: BTreeMap<&Bytes, usize> = BTreeMap::new();
    let mut listens: BTreeMap<&Bytes, usize> = BTreeMap::new();
    let mut found = Vec::new();
    for (place, line) in lines.iter().enumerate() {
        match &line.event {
            Event::Subscribing { channel } => drop(asked.insert(channel, place)),
            Event::Listens { channel, .. } => drop(listens.insert(channel, place)),
            Event::Subscribed { channel, result: Ok(()) } if listens.get(channel) < asked.get(channel) => {
                found.push(format!("the subscription to {channel:?} was confirmed at {place}, and no server has it"));
            }
            _ => {}
        }
    }
    found
}

/// While a subscription is confirmed, the link reports each published message, or a loss of messages.
fn delivered(lines: &[Line]) -> Vec<String> {
    let mut confirmed: BTreeSet<&Bytes> = BTreeSet::new();
    // Pending subscriptions: a reset makes their reply stale, as for a session.
    let mut asked: BTreeSet<&Bytes> = BTreeSet::new();
    let mut awaited: Vec<(usize, &Bytes)> = Vec::new();
    for (place, line) in lines.iter().enumerate() {
        match &line.event {
            Event::Subscribing { channel } => _ = asked.insert(channel),
            Event::Subscribed { channel, result } => {
                let is_of_now = asked.remove(channel);
                if is_of_now && result.is_ok() {
                    confirmed.insert(channel);
                }
            }
            Event::Unsubscribing { channel } => {
                confirmed.remove(channel);
                // The caller no longer listens. A slot move is reported to other listeners.
                awaited.retain(|(_, other)| *other != channel);
            }
            Event::Published { channel, .. } if confirmed.contains(channel) => awaited.push((place, channel)),
            Event::Told(LinkEvent::NoticesReset) => {
                confirmed.clear();
                asked.clear();
                awaited.clear();
            }
            Event::Told(LinkEvent::Notice { channel }) => {
                if let Some(at) = awaited.iter().position(|(_, other)| *other == channel) {
                    awaited.remove(at);
                }
            }
            _ => {}
        }
    }
    awaited
        .into_iter()
        .map(|(place, channel)| {
            format!("the message of {place} on {channel:?} was neither delivered nor told to be missed")
        })
        .collect()
}

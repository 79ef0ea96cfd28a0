//! The state of a lock with its processes, as text and as JSON.

use crate::duration::show;
use crate::look::is_of_a_client;
use crate::moment;
use crate::people::{People, Person};
use crate::shown::shown;
use leasehold::HolderId;
use leasehold::inspect::{ClientRecord, FoundKind, HeldPermit, Holder, LockState, Waiter};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// A hold with its process.
#[derive(Clone, Debug)]
pub(crate) struct Hold {
    pub(crate) holder: Holder,
    /// The half of a read-write lock.
    pub(crate) half: Option<&'static str>,
    pub(crate) who: Option<Arc<Person>>,
}

impl Hold {
    /// Returns the published age of the hold. For a silent holder, the age at its last record.
    pub(crate) fn age(&self) -> Option<Duration> {
        let age = self.who.as_ref()?.held(self.holder.id.as_str())?;
        Some(age.saturating_sub(self.unrenewed().unwrap_or_default()))
    }

    /// Returns the time since the last renewal, if a live holder would have renewed the lease.
    pub(crate) fn unrenewed(&self) -> Option<Duration> {
        unrenewed(self.holder.id.as_str(), self.holder.remaining, self.who.as_deref())
    }

    /// Formats a line with id, age, lease and process.
    pub(crate) fn as_text(&self) -> String {
        let mut text = shown(self.holder.id.as_str());
        let mut add = |part: String| {
            // Writing to a string cannot fail.
            let _ = write!(text, ", {part}");
        };
        if let Some(half) = self.half {
            add(format!("{half} half"));
        }
        if let Some(age) = self.age() {
            add(format!("held for {}", show(age)));
        }
        let unrenewed = self.unrenewed();
        if let Some(left) = self.holder.remaining {
            add(lease_as_text(left, unrenewed));
        }
        if self.holder.hold_count > 1 {
            add(format!("held {} times", self.holder.hold_count));
        }
        if self.holder.is_kept() {
            add("released, but busy because of --at-least or --once".to_owned());
        }
        if self.who.is_none() && is_of_a_client(self.holder.id.as_str()) {
            add("process unknown: a JVM, or a program without a record".to_owned());
        }
        // The process of a kept lock has ended, or does other work.
        let gone = self.who.as_ref().filter(|_| self.holder.is_kept()).map(|who| who.seen_ago());
        with_process(&text, self.who.as_deref(), unrenewed.or(gone))
    }

    /// Returns the process of the hold, or its id.
    fn process_as_text(&self) -> String {
        let half = self.half.map(|half| format!("{half}: ")).unwrap_or_default();
        let who = self.who.as_ref().map(|who| process_as_text(&who.record));
        let note = self.who.as_ref().map(|who| note(&who.record)).unwrap_or_default();
        format!("{half}{}{note}", who.unwrap_or_else(|| shown(self.holder.id.as_str())))
    }

    pub(crate) fn as_json(&self) -> Value {
        json!({
            "id": self.holder.id.as_str(),
            "half": self.half,
            "hold_count": self.holder.hold_count,
            "lease_left_ms": self.holder.remaining.map(millis),
            "held_ms": self.age().map(millis),
            "unrenewed_ms": self.unrenewed().map(millis),
            "process": self.who.as_ref().map(|who| process_as_json(&who.record)),
        })
    }
}

/// Returns the time since the last renewal, if a live holder would have renewed the lease. Holders renew after a third
/// of the lease; a busy machine gets some slack.
pub(crate) fn unrenewed(id: &str, left: Option<Duration>, who: Option<&Person>) -> Option<Duration> {
    let lease = who?.lease(id)?;
    let since = lease.saturating_sub(left?);
    (since > lease / 3 + (lease / 10).max(Duration::from_millis(500))).then_some(since)
}

fn lease_as_text(left: Duration, unrenewed: Option<Duration>) -> String {
    match unrenewed {
        Some(since) => {
            let (since, left, at) = (show(since), show(left), moment::after(left));
            format!("no renewal for {since}: probably dead, free in {left} at {at}")
        }
        None => format!("lease left {}", show(left)),
    }
}

/// Formats a line with the id, age, lease and process of a permit.
pub(crate) fn permit_as_text(permit: &HeldPermit, who: Option<&Person>) -> String {
    let id = permit.id.to_string();
    let unrenewed = unrenewed(&id, permit.remaining, who);
    let age = who.and_then(|who| who.held(&id)).map(|age| age.saturating_sub(unrenewed.unwrap_or_default()));
    let age = age.map(|age| format!(", held for {}", show(age))).unwrap_or_default();
    let left = permit.remaining.map(|left| format!(", {}", lease_as_text(left, unrenewed))).unwrap_or_default();
    with_process(&format!("permit {id}{age}{left}"), who, unrenewed)
}

pub(crate) fn permit_as_json(permit: &HeldPermit, who: Option<&Person>) -> Value {
    let id = permit.id.to_string();
    json!({
        "id": id,
        "lease_left_ms": permit.remaining.map(millis),
        "held_ms": who.and_then(|who| who.held(&id)).map(millis),
        "unrenewed_ms": unrenewed(&id, permit.remaining, who).map(millis),
        "process": who.map(|who| process_as_json(&who.record)),
    })
}

/// A hold that appears only in the record of its process.
#[derive(Clone, Debug)]
pub(crate) struct Said {
    pub(crate) id: HolderId,
    pub(crate) lasted: Duration,
    pub(crate) who: Arc<Person>,
}

impl Said {
    /// Formats a line with id, age and process.
    pub(crate) fn as_text(&self) -> String {
        let text = format!("{}, held for {} according to its process", shown(self.id.as_str()), show(self.lasted));
        with_process(&text, Some(&self.who), None)
    }

    fn as_json(&self) -> Value {
        json!({
            "id": self.id.as_str(),
            "held_ms": millis(self.lasted),
            "process": process_as_json(&self.who.record),
        })
    }
}

/// The state of a name.
pub(crate) struct Seen {
    pub(crate) state: LockState,
    pub(crate) holds: Vec<Hold>,
    /// The holds of a bare semaphore.
    pub(crate) said: Vec<Said>,
    pub(crate) queue: Vec<(Waiter, Option<Arc<Person>>)>,
}

impl Seen {
    /// Adds the processes. Permit ids do not contain a client.
    pub(crate) async fn new(mut state: LockState, people: &mut People<'_>) -> Self {
        let has_halves = state.kind == FoundKind::ReadWriteLock;
        let names_clients = state.kind != FoundKind::Semaphore;
        let writers = std::mem::take(&mut state.holders).into_iter().map(|one| (has_halves.then_some("write"), one));
        let readers = std::mem::take(&mut state.readers).into_iter().map(|one| (Some("read"), one));
        let mut holds = Vec::new();
        for (half, holder) in writers.chain(readers) {
            let who = if names_clients { people.of(holder.id.as_str()).await } else { None };
            holds.push(Hold { holder, half, who });
        }
        let mut queue = Vec::new();
        for waiter in std::mem::take(&mut state.queue) {
            let who = people.of(waiter.id.as_str()).await;
            queue.push((waiter, who));
        }
        Self { state, holds, said: Vec::new(), queue }
    }

    /// Returns the state in one or two words.
    pub(crate) fn word(&self) -> &'static str {
        match self.state.kind {
            FoundKind::Foreign => "foreign",
            FoundKind::Counter => "counted",
            _ if self.state.held > 0 => "held",
            _ if !self.queue.is_empty() || self.state.waiters.is_some_and(|waiters| waiters > 0) => "waited for",
            _ => "free",
        }
    }

    /// Returns whether an acquire would wait.
    pub(crate) fn is_held(&self) -> bool {
        match self.state.available {
            Some(available) => available <= 0,
            None => self.state.held > 0 || self.word() == "waited for",
        }
    }

    /// Returns the greatest published age of a hold.
    pub(crate) fn age(&self) -> Option<Duration> {
        self.holds.iter().filter_map(Hold::age).max()
    }

    /// Returns the first holder, or the number of available permits.
    pub(crate) fn holder_as_text(&self) -> String {
        let state = &self.state;
        let available = || state.available.map_or_else(|| "-".to_owned(), |available| format!("{available} available"));
        let Some(first) = self.holds.first() else { return available() };
        let more = state.held.saturating_sub(1);
        let text = first.process_as_text();
        match (state.kind, more) {
            (FoundKind::Semaphore, _) => format!("{} held, {}", state.held, available()),
            (_, 0) => text,
            _ => format!("{text} and {more} more"),
        }
    }

    pub(crate) fn problems(&self) -> Vec<String> {
        let silent = self.holds.iter().filter_map(|hold| Some((hold, hold.unrenewed()?)));
        let silent = silent.map(|(Hold { holder, .. }, since)| {
            format!("the holder {} is probably dead: no renewal for {}", holder.id, show(since))
        });
        self.state.problems.iter().map(ToString::to_string).chain(silent).collect()
    }

    pub(crate) fn as_json(&self) -> Value {
        let state = &self.state;
        let mut object = json!({
            "name": state.name,
            "state": self.word(),
            "kind": state.kind.word(),
            "held": state.held,
            "holders": self.holds.iter().map(Hold::as_json).collect::<Vec<_>>(),
            "held_ms": self.age().map(millis),
            "lease_left_ms": state.remaining.map(millis),
            "waiting": state.waiters,
            "waiters": self.queue.iter().map(|(waiter, who)| json!({
                "id": waiter.id.as_str(),
                "waited_ms": waiter.waited.map(millis),
                "alive": waiter.is_alive,
                "process": who.as_ref().map(|who| process_as_json(&who.record)),
            })).collect::<Vec<_>>(),
            "fencing_token": state.fencing_token,
            "permits": state.available.map(|available| json!({ "available": available, "held": state.held })),
            "warnings": self.problems(),
        });
        if !self.said.is_empty() {
            object["announced_holders"] = self.said.iter().map(Said::as_json).collect();
        }
        object
    }
}

pub(crate) fn process_as_json(who: &ClientRecord) -> Value {
    let since = who.since.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    json!({
        "application": who.application,
        "host": who.host,
        "pid": who.pid,
        "note": Some(&who.note).filter(|note| !note.is_empty()),
        "since_unix_ms": millis(since),
        "up_ms": millis(who.up),
        "seen_ms_ago": millis(who.written_ago),
    })
}

/// Formats the process, as announced.
pub(crate) fn process_as_text(who: &ClientRecord) -> String {
    shown(&format!("{}, process {} on {}", who.application, who.pid, who.host))
}

/// Formats the reason for the locks, after a colon.
fn note(who: &ClientRecord) -> String {
    if who.note.is_empty() { String::new() } else { shown(&format!(": {}", who.note)) }
}

/// Appends the process to a text, with its uptime, or the age of its last record.
pub(crate) fn with_process(text: &str, who: Option<&Person>, unrenewed: Option<Duration>) -> String {
    let Some(who) = who else { return text.to_owned() };
    let lives = match unrenewed.or_else(|| who.silent()) {
        Some(ago) => format!("last seen {} ago", show(ago)),
        None => format!("up for {}", show(who.up())),
    };
    format!("{text}; {}, {lives}{}", process_as_text(&who.record), note(&who.record))
}

pub(crate) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

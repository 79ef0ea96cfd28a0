//! The trace of a world: the link's reports to its caller and the servers' actions, in one order.

use bytes::Bytes;
use leasehold_core::link::{LinkError, LinkEvent, Settled};
use leasehold_core::reply::Reply;
use parking_lot::Mutex;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// The number of a call, or of a settling.
pub(super) type Number = usize;

/// The end of a call, as its caller sees it.
#[derive(Clone, Debug)]
pub(super) enum End {
    Answered(Result<Reply, LinkError>),
    Dropped,
}

/// A line of the trace. The link's caller writes the first half of the variants, the servers write the second.
#[derive(Clone, Debug)]
#[expect(dead_code, reason = "some fields are there to be read by a person")]
pub(super) enum Event {
    Begun {
        call: Number,
        durable: bool,
        slot: u16,
    },
    /// The first poll has returned: the call is sent as far as possible.
    Queued {
        call: Number,
    },
    Ended {
        call: Number,
        end: End,
    },
    Settling {
        number: Number,
        durable: bool,
        slot: u16,
    },
    Settled {
        number: Number,
        result: Result<Settled, LinkError>,
    },
    Subscribing {
        channel: Bytes,
    },
    Subscribed {
        channel: Bytes,
        result: Result<(), LinkError>,
    },
    Unsubscribing {
        channel: Bytes,
    },
    Unsubscribed {
        channel: Bytes,
        result: Result<(), LinkError>,
    },
    Told(LinkEvent),
    /// A server starts the first copy of a call, or a later one.
    Arrived {
        call: Number,
        node: usize,
        connection: i64,
        command: String,
    },
    /// The server has executed the script.
    Executed {
        call: Number,
        node: usize,
    },
    /// The server refused the call with this code.
    Refused {
        call: Number,
        code: String,
    },
    /// The mark between a call and its `WAIT` was refused, so the number of replicas does not count.
    MarkRefused {
        connection: i64,
    },
    /// The server accepted the subscription.
    Listens {
        node: usize,
        connection: i64,
        channel: Bytes,
    },
    Published {
        channel: Bytes,
        receivers: usize,
    },
    /// The connection executes nothing more.
    Killed {
        node: usize,
        connection: i64,
    },
    Disturbed(String),
}

/// An event and its time.
#[derive(Clone, Debug)]
pub(super) struct Line {
    pub(super) at: Instant,
    pub(super) event: Event,
}

/// A trace that the caller and the servers write. The order of lines is the order of events.
#[derive(Clone)]
pub(super) struct Trace {
    began: Instant,
    lines: Arc<Mutex<Vec<Line>>>,
}

impl Trace {
    pub(super) fn new() -> Self {
        Self { began: Instant::now(), lines: Arc::default() }
    }

    pub(super) fn say(&self, event: Event) {
        let mut lines = self.lines.lock();
        lines.push(Line { at: Instant::now(), event });
    }

    pub(super) fn lines(&self) -> Vec<Line> {
        self.lines.lock().clone()
    }

    /// Formats the trace, one event per line.
    pub(super) fn told(&self) -> String {
        let mut text = String::new();
        for (place, line) in self.lines().iter().enumerate() {
            let since = line.at.saturating_duration_since(self.began);
            writeln!(text, "{place:5} {:9.3} ms  {:?}", millis(since), line.event).expect("a string takes it");
        }
        text
    }
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

//! Events for the driver, on their way from the connections.

use super::connection::Connection;
use crate::telemetry::event;
use bytes::Bytes;
use leasehold_core::link::LinkEvent;
use parking_lot::Mutex;
use std::collections::VecDeque;
use tokio::sync::Notify;
use tokio::sync::broadcast::error::RecvError;

/// Notices that wait at most; more than this many is a lag.
const CAPACITY: usize = 16_384;

/// Events on their way to the driver. Resets are never lost, and fold into one while the driver does not take them, as do events about a
/// server; notices beyond the capacity turn into [`LinkEvent::NoticesLagged`]. So memory is bounded, and a producer never waits.
#[derive(Debug, Default)]
pub(super) struct Events {
    waiting: Mutex<Waiting>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct Waiting {
    calls_reset: bool,
    notices_reset: bool,
    lagged: bool,
    /// The last word on each server that there is one on.
    servers: VecDeque<LinkEvent>,
    /// Messages, as events.
    notices: VecDeque<LinkEvent>,
    closed: bool,
}

impl Events {
    /// A message came.
    pub(super) fn notice(&self, channel: Bytes, text: &[u8]) {
        self.message(LinkEvent::of_message(channel, text));
    }

    fn message(&self, event: LinkEvent) {
        let mut waiting = self.waiting.lock();
        if waiting.notices.len() < CAPACITY {
            waiting.notices.push_back(event);
        } else {
            waiting.lagged = true;
        }
        drop(waiting);
        self.changed.notify_one();
    }

    /// Anything that is not a message happened.
    pub(super) fn event(&self, event: LinkEvent) {
        let mut waiting = self.waiting.lock();
        match event {
            LinkEvent::Notice { .. } | LinkEvent::Offered { .. } | LinkEvent::Wanted { .. } => {
                drop(waiting);
                return self.message(event);
            }
            LinkEvent::NoticesReset => waiting.notices_reset = true,
            LinkEvent::NoticesLagged => waiting.lagged = true,
            LinkEvent::CallsReset => waiting.calls_reset = true,
            LinkEvent::Connected { .. } | LinkEvent::OutOfReach { .. } | LinkEvent::Retired { .. } => {
                waiting.servers.retain(|earlier| server_of(earlier) != server_of(&event));
                waiting.servers.push_back(event);
            }
        }
        drop(waiting);
        self.changed.notify_one();
    }

    /// Takes the messages of a connection, and returns when no more can come.
    pub(super) async fn take_from(&self, connection: &Connection) {
        let Some(mut messages) = connection.take_messages() else { return std::future::pending().await };
        loop {
            match messages.recv().await {
                Ok(message) => self.notice(message.channel, &message.payload),
                Err(RecvError::Lagged(missed)) => {
                    event!(debug, missed, "notices came faster than they were taken");
                    self.event(LinkEvent::NoticesLagged);
                }
                Err(RecvError::Closed) => return,
            }
        }
    }

    /// No more events will come.
    pub(super) fn close(&self) {
        self.waiting.lock().closed = true;
        self.changed.notify_one();
    }

    /// The next event, or `None` once closed.
    ///
    /// # Cancel safety
    ///
    /// An event is taken in the same poll that returns it, so none is lost. One task may wait at a time.
    pub(super) async fn next(&self) -> Option<LinkEvent> {
        loop {
            let changed = self.changed.notified();
            if let Some(answer) = self.take() {
                return answer;
            }
            changed.await;
        }
    }

    fn take(&self) -> Option<Option<LinkEvent>> {
        let mut waiting = self.waiting.lock();
        if waiting.closed {
            // Another waiter, if there is one, must learn it too.
            self.changed.notify_one();
            return Some(None);
        }
        let event = if let Some(event) = waiting.servers.pop_front() {
            event
        } else if std::mem::take(&mut waiting.notices_reset) {
            LinkEvent::NoticesReset
        } else if std::mem::take(&mut waiting.calls_reset) {
            LinkEvent::CallsReset
        } else if std::mem::take(&mut waiting.lagged) {
            LinkEvent::NoticesLagged
        } else {
            waiting.notices.pop_front()?
        };
        Some(Some(event))
    }
}

/// Which server an event is about.
fn server_of(event: &LinkEvent) -> Option<&str> {
    match event {
        LinkEvent::Connected { server, .. } | LinkEvent::OutOfReach { server, .. } | LinkEvent::Retired { server } => {
            Some(server)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_last_word_on_each_server_counts() {
        let events = Events::default();
        let connected = |server: &str| LinkEvent::Connected { server: server.to_owned(), again: true };
        events.event(LinkEvent::Retired { server: "a".to_owned() });
        events.event(connected("b"));
        events.event(connected("a"));
        assert_eq!(events.next().await, Some(connected("b")));
        assert_eq!(events.next().await, Some(connected("a")));
        events.close();
        assert_eq!(events.next().await, None);
    }

    #[tokio::test]
    async fn resets_fold_and_notices_beyond_the_capacity_are_a_lag() {
        let events = Events::default();
        events.event(LinkEvent::NoticesReset);
        events.event(LinkEvent::NoticesReset);
        for _ in 0..=CAPACITY {
            events.notice(Bytes::from_static(b"c"), b"0");
        }
        assert_eq!(events.next().await, Some(LinkEvent::NoticesReset));
        assert_eq!(events.next().await, Some(LinkEvent::NoticesLagged));
        for _ in 0..CAPACITY {
            assert_eq!(events.next().await, Some(LinkEvent::Notice { channel: Bytes::from_static(b"c") }));
        }
        events.close();
        assert_eq!(events.next().await, None);
        assert_eq!(events.next().await, None);
    }
}

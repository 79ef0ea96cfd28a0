//! Events of the connections, for the driver.

use leasehold_core::link::LinkEvent;
use parking_lot::Mutex;
use std::collections::VecDeque;
use tokio::sync::Notify;

/// A queue of events for the driver. It merges repeated resets, and keeps only the last event of each server. So its
/// memory is bounded, and producers never wait.
#[derive(Debug, Default)]
pub(super) struct Events {
    waiting: Mutex<Waiting>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct Waiting {
    calls_reset: bool,
    notices_reset: bool,
    /// The last event of each server.
    servers: VecDeque<LinkEvent>,
    closed: bool,
}

impl Events {
    /// Queues an event. Messages go directly to the session.
    pub(super) fn event(&self, event: LinkEvent) {
        let mut waiting = self.waiting.lock();
        match event {
            LinkEvent::NoticesReset => waiting.notices_reset = true,
            LinkEvent::Notice { .. } | LinkEvent::Offered { .. } | LinkEvent::Wanted { .. } => {}
            LinkEvent::CallsReset => waiting.calls_reset = true,
            LinkEvent::Connected { .. } | LinkEvent::OutOfReach { .. } | LinkEvent::Retired { .. } => {
                waiting.servers.retain(|earlier| server_of(earlier) != server_of(&event));
                waiting.servers.push_back(event);
            }
        }
        drop(waiting);
        self.changed.notify_one();
    }

    /// Closes the queue.
    pub(super) fn close(&self) {
        self.waiting.lock().closed = true;
        self.changed.notify_one();
    }

    /// The next event, or `None` once closed.
    ///
    /// # Cancel safety
    ///
    /// No event is lost: the poll that removes an event returns it. One task may wait at a time.
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
            // Another waiter must also see the end.
            self.changed.notify_one();
            return Some(None);
        }
        let event = if let Some(event) = waiting.servers.pop_front() {
            event
        } else if std::mem::take(&mut waiting.notices_reset) {
            LinkEvent::NoticesReset
        } else if std::mem::take(&mut waiting.calls_reset) {
            LinkEvent::CallsReset
        } else {
            return None;
        };
        Some(Some(event))
    }
}

/// The server of an event.
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
    async fn resets_fold() {
        let events = Events::default();
        events.event(LinkEvent::NoticesReset);
        events.event(LinkEvent::CallsReset);
        events.event(LinkEvent::NoticesReset);
        assert_eq!(events.next().await, Some(LinkEvent::NoticesReset));
        assert_eq!(events.next().await, Some(LinkEvent::CallsReset));
        events.close();
        assert_eq!(events.next().await, None);
        assert_eq!(events.next().await, None);
    }
}

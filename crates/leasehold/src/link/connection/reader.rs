//! The two readers of a connection: home and the stand-in.

use super::{Answer, SHARE, STALL, Shared, Writer, lost};
use crate::link::network::Watched;
use leasehold_core::wire::Event;
use std::future::poll_fn;
use std::io::{self, ErrorKind};
use std::sync::{Arc, Weak};
use std::task::Poll;
use tokio::io::Interest;

/// Reads per poll of the reader before it yields to other tasks.
const READS: usize = 4;

pub(super) async fn read_at_home(shared: Weak<Shared>) {
    // A runtime may start this task long after the connection ended, or never.
    let Some(shared) = shared.upgrade() else { return };
    let shared = &LeaveOnDrop(shared).0;
    // The runtime is shutting down.
    let Ok(watched) = shared.stream.socket.watch() else { return };
    let count = |home: &mut Option<u64>| {
        *home = Some(home.map_or(0, |turns| turns + 1));
        true
    };
    if let Some(why) = serve(shared, &watched, count).await {
        shared.end(&why);
    }
}

/// Reads while home does not, until the connection ends.
pub(super) async fn stand_in(shared: EndOnDrop, watched: Watched) {
    let shared = &shared.0;
    let mut watched = Some(watched);
    let why = loop {
        let before = shared.state.lock().home;
        let goes_on = |home: &mut Option<u64>| *home == before;
        let end = match &watched {
            Some(watched) => serve(shared, watched, goes_on).await,
            // The process has no file descriptor left: poll.
            None => {
                tokio::time::sleep(STALL).await;
                None
            }
        };
        if let Some(why) = end {
            break why;
        }
        // A watched socket would wake this thread for each reply.
        drop(watched);
        let stalled = tokio::select! {
            biased;
            () = shared.ended.cancelled() => return,
            stalled = shared.stalls() => stalled,
        };
        if let Err(why) = stalled {
            break why;
        }
        watched = shared.stream.socket.watch().ok();
        if watched.is_none() {
            shared.uncork();
            let socket = &shared.stream.socket;
            if let Err(why) = shared.read(|buffer| socket.read(buffer)) {
                break why;
            }
            shared.write_as_reader(|bytes| socket.write(bytes));
        }
    };
    shared.end(&why);
}

/// Reads and writes while `goes_on` returns true. Returns the reason if the connection must end. All state is in the
/// connection, so a runtime may drop this future without a loss.
async fn serve(shared: &Shared, watched: &Watched, goes_on: impl Fn(&mut Option<u64>) -> bool) -> Option<String> {
    let mut ended = std::pin::pin!(shared.ended.cancelled());
    let mut handed = std::pin::pin!(shared.handed.notified());
    // The other reader may have left the connection corked.
    shared.uncork();
    loop {
        let (goes_on, writes, broken) = {
            let mut state = shared.state.lock();
            (goes_on(&mut state.home), state.writer == Writer::Reader, state.broken.clone())
        };
        if let Some(why) = broken {
            // The write failed before tokio could report what the server had sent.
            return Some(shared.read(|buffer| shared.stream.socket.read(buffer)).err().unwrap_or(why));
        }
        if !goes_on {
            return None;
        }
        let interest = if writes { Interest::READABLE | Interest::WRITABLE } else { Interest::READABLE };
        let ready = tokio::select! {
            biased;
            () = &mut ended => return None,
            ready = watched.ready(interest) => ready,
            () = &mut handed => {
                handed.set(shared.handed.notified());
                shared.uncork_later().await;
                shared.write_as_reader(|bytes| watched.try_write(bytes));
                continue;
            }
        };
        match ready {
            Ok(ready) if ready.is_readable() || ready.is_read_closed() => {
                if let Err(why) = shared.read(|buffer| watched.try_read(buffer)) {
                    return Some(why);
                }
                shared.uncork_later().await;
            }
            Ok(_) => {}
            Err(error) => return Some(lost(&error)),
        }
        shared.write_as_reader(|bytes| watched.try_write(bytes));
    }
}

/// Ends the connection when the stand-in is dropped: the background is gone.
pub(super) struct EndOnDrop(pub(super) Arc<Shared>);

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        self.0.end("its runtime is gone");
    }
}

/// Notifies the stand-in when home's runtime drops its task.
struct LeaveOnDrop(Arc<Shared>);

impl Drop for LeaveOnDrop {
    fn drop(&mut self) {
        self.0.state.lock().home = None;
        self.0.used.notify_waiters();
    }
}

impl Shared {
    /// If the connection is corked, yields to the ready tasks and ends the cork. Tokio's `yield_now` would also wait until
    /// the runtime polls for I/O.
    async fn uncork_later(&self) {
        if !self.state.lock().corked {
            return;
        }
        let mut woken = false;
        poll_fn(|cx| {
            if std::mem::replace(&mut woken, true) {
                return Poll::Ready(());
            }
            cx.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
        self.uncork();
    }

    /// Reads the available bytes with `read`, and delivers replies and messages. Fails with the reason if the connection must end.
    fn read(&self, read: impl Fn(&mut [u8]) -> io::Result<usize>) -> Result<(), String> {
        let mut arrivals = std::mem::take(&mut *self.spare.lock());
        let read = self.read_into(read, &mut arrivals.events);
        arrivals.deliver(&self.inbox);
        *self.spare.lock() = arrivals;
        read
    }

    fn read_into(
        &self,
        read: impl Fn(&mut [u8]) -> io::Result<usize>,
        events: &mut Vec<Event<Answer>>,
    ) -> Result<(), String> {
        if self.is_forked() {
            return Ok(());
        }
        let mut bytes = self.reading.lock();
        for _ in 0..READS {
            match read(&mut bytes) {
                Ok(0) => return Err("the server closed the connection".to_owned()),
                Ok(read) => self.received(&bytes[..read], events)?,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(lost(&error)),
            }
        }
        Ok(())
    }

    fn received(&self, bytes: &[u8], events: &mut Vec<Event<Answer>>) -> Result<(), String> {
        let mut plain = Vec::new();
        let mut tls_waits = false;
        if let Some(tls) = &self.stream.tls {
            tls_waits = tls.decrypt(bytes, &mut plain).map_err(|error| lost(&error))?;
        }
        let mut answered = 0;
        let mut state = self.state.lock();
        if state.end.is_some() {
            // The wire is closed, and would treat these bytes as unsolicited.
            return Ok(());
        }
        state.reads += 1;
        state.wire.feed(if self.stream.tls.is_some() { &plain } else { bytes });
        let malformed = loop {
            match state.wire.poll() {
                Ok(Some(event)) => {
                    answered += 1;
                    if let Event::Answered(Answer::Batch(_, calls), _) = &event {
                        answered += calls.len() - 1;
                        state.batched -= calls.len() - 1;
                    }
                    events.push(event);
                }
                Ok(None) => break None,
                Err(malformed) => break Some(malformed),
            }
        };
        state.tls_waits |= tls_waits;
        if state.tls_waits && state.writer == Writer::Nobody {
            state.writer = Writer::Reader;
        }
        // Only `uncork` ends a cork: the session may queue calls during this read, and the next read may be small.
        state.corked |= answered > 1 && state.in_flight() + answered > SHARE;
        drop(state);
        match malformed {
            Some(malformed) => Err(self.malformed.get_or_init(|| malformed).to_string()),
            None => Ok(()),
        }
    }

    /// Waits until home is gone, or has left bytes for [`STALL`]. Reads and writes these bytes.
    async fn stalls(&self) -> Result<(), String> {
        let socket = &self.stream.socket;
        loop {
            self.busy().await;
            // Created before the check, to catch every end of home.
            let used = self.used.notified();
            let reads = {
                let state = self.state.lock();
                if state.home.is_none() || state.broken.is_some() {
                    return Ok(());
                }
                state.reads
            };
            tokio::select! {
                biased;
                () = used => continue,
                () = tokio::time::sleep(STALL) => {}
            }
            if self.state.lock().reads == reads {
                self.read(|buffer| socket.read(buffer))?;
                self.uncork();
                self.write_as_reader(|bytes| socket.write(bytes));
                let state = self.state.lock();
                if state.reads != reads || state.writer == Writer::Reader {
                    return Ok(());
                }
            }
        }
    }

    /// Waits until home is gone, a reply is owed, or a message arrives.
    async fn busy(&self) {
        let mut watched = None;
        loop {
            // Created before the check: a command sent after the check then ends the wait.
            let used = self.used.notified();
            let is_subscribed = {
                let mut state = self.state.lock();
                if state.home.is_none() || state.is_owed_a_reply() {
                    return;
                }
                state.idle = true;
                state.wire.is_subscribed()
            };
            // Messages are rare: a watched socket wakes this thread less often than a timer.
            if is_subscribed && watched.is_none() {
                watched = self.stream.socket.watch().ok();
            }
            match &watched {
                Some(watched) if is_subscribed => tokio::select! {
                    biased;
                    () = used => {}
                    _ = watched.ready(Interest::READABLE) => return,
                },
                _ => used.await,
            }
        }
    }
}

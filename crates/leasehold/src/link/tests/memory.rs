//! An in-memory network, on which a link behaves the same for each seed.
//!
//! A stream holds a bounded number of bytes. It accepts a part of a write, and returns a part of the arrived bytes, as
//! the seed chooses. When a stream is cut, its client may lose bytes that have arrived.

use super::super::target::Host;
use fastrand::Rng;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use parking_lot::Mutex;
use std::collections::{BTreeMap, VecDeque};
use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{Interest, Ready};
use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// The network.
#[derive(Debug)]
pub(crate) struct Memory {
    rng: Mutex<Rng>,
    /// Whether its streams transfer all bytes of a write at once.
    whole: bool,
    listeners: Mutex<BTreeMap<SocketAddr, UnboundedSender<End>>>,
}

impl Memory {
    pub(super) fn new(seed: u64) -> Arc<Self> {
        Arc::new(Self { rng: Mutex::new(Rng::with_seed(seed)), whole: false, listeners: Mutex::default() })
    }

    /// A network whose streams transfer all bytes of a write at once.
    pub(super) fn whole() -> Arc<Self> {
        Arc::new(Self { rng: Mutex::new(Rng::with_seed(0)), whole: true, listeners: Mutex::default() })
    }

    /// The server's ends of the streams to this address.
    pub(super) fn listen(&self, address: SocketAddr) -> UnboundedReceiver<End> {
        let (streams, accepted) = unbounded_channel();
        self.listeners.lock().insert(address, streams);
        accepted
    }

    pub(crate) fn addresses(host: &Host) -> io::Result<Vec<SocketAddr>> {
        let address: IpAddr = host.name.parse().map_err(|error| io::Error::new(ErrorKind::NotFound, error))?;
        Ok(vec![SocketAddr::new(address, host.port)])
    }

    pub(crate) fn dial(&self, address: SocketAddr) -> io::Result<End> {
        let rng = self.rng.lock().fork();
        let (client, server) = End::pair(rng, self.whole);
        let listeners = self.listeners.lock();
        let listener = listeners.get(&address).ok_or(ErrorKind::ConnectionRefused)?;
        listener.send(server).map_err(|_| ErrorKind::ConnectionRefused)?;
        Ok(client)
    }

    pub(crate) fn jitter(&self) -> u8 {
        self.rng.lock().u8(..)
    }
}

/// One end of a stream. Dropping it closes the stream.
#[derive(Debug)]
pub(crate) struct End {
    stream: Arc<Stream>,
    /// The direction in which this end writes.
    out: usize,
}

#[derive(Debug)]
struct Stream {
    state: Mutex<State>,
    directions: [Direction; 2],
}

#[derive(Debug)]
struct State {
    rng: Rng,
    whole: bool,
    /// The bytes on their way, by direction.
    bytes: [VecDeque<u8>; 2],
    /// The maximum number of bytes in transit in one direction.
    capacity: usize,
    /// Number of writes in each direction.
    writes: [usize; 2],
    closed: bool,
}

#[derive(Debug, Default)]
struct Direction {
    /// Bytes have arrived.
    filled: Notify,
    /// There is room for bytes.
    drained: Notify,
}

impl State {
    /// Some of `most` bytes: often all of them, and at least one.
    fn part(&mut self, most: usize) -> usize {
        if self.whole || self.rng.bool() { most } else { self.rng.usize(1..=most) }
    }
}

impl End {
    fn pair(mut rng: Rng, whole: bool) -> (Self, Self) {
        let capacity = if whole { usize::MAX } else { [48, 700, 64 * 1024][rng.usize(..3)] };
        let state = State { rng, whole, bytes: Default::default(), capacity, writes: [0; 2], closed: false };
        let stream = Arc::new(Stream { state: Mutex::new(state), directions: Default::default() });
        (Self { stream: Arc::clone(&stream), out: 0 }, Self { stream, out: 1 })
    }

    /// The direction in which the other end writes.
    const fn arriving(&self) -> usize {
        1 - self.out
    }

    /// Waits until reading, or writing, does not block.
    pub(crate) async fn ready(&self, interest: Interest) -> Ready {
        let [arriving, leaving] = [self.arriving(), self.out].map(|at| &self.stream.directions[at]);
        loop {
            // Created before the check, so that no later change is missed.
            let (filled, drained) = (arriving.filled.notified(), leaving.drained.notified());
            let ready = self.readiness(interest);
            if !ready.is_empty() {
                return ready;
            }
            tokio::select! {
                biased;
                () = filled, if interest.is_readable() => {}
                () = drained, if interest.is_writable() => {}
            }
        }
    }

    fn readiness(&self, interest: Interest) -> Ready {
        let state = self.stream.state.lock();
        let mut ready = Ready::EMPTY;
        if interest.is_readable() && (state.closed || !state.bytes[self.arriving()].is_empty()) {
            ready |= Ready::READABLE;
        }
        if interest.is_writable() && (state.closed || state.bytes[self.out].len() < state.capacity) {
            ready |= Ready::WRITABLE;
        }
        ready
    }

    /// Reads a part of what has arrived.
    pub(crate) fn try_read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let at = self.arriving();
        let mut state = self.stream.state.lock();
        let most = state.bytes[at].len().min(buffer.len());
        if most == 0 {
            return if state.closed { Ok(0) } else { Err(ErrorKind::WouldBlock.into()) };
        }
        let read = state.part(most);
        for (place, byte) in buffer.iter_mut().zip(state.bytes[at].drain(..read)) {
            *place = byte;
        }
        drop(state);
        self.stream.directions[at].drained.notify_waiters();
        Ok(read)
    }

    /// Writes a part of these bytes.
    pub(crate) fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        let mut state = self.stream.state.lock();
        if state.closed {
            return Err(ErrorKind::BrokenPipe.into());
        }
        let most = bytes.len().min(state.capacity - state.bytes[self.out].len());
        if most == 0 {
            return if bytes.is_empty() { Ok(0) } else { Err(ErrorKind::WouldBlock.into()) };
        }
        let written = state.part(most);
        state.bytes[self.out].extend(&bytes[..written]);
        state.writes[self.out] += 1;
        drop(state);
        self.stream.directions[self.out].filled.notify_waiters();
        Ok(written)
    }

    /// Reads a part of what arrives; nothing at the end of the stream.
    pub(super) async fn read(&self, buffer: &mut [u8]) -> usize {
        self.ready(Interest::READABLE).await;
        self.try_read(buffer).expect("the only reader has waited")
    }

    /// Appends a part of what arrives to `requests`. Returns `false` at the end of the stream.
    pub(super) async fn read_more(&self, requests: &mut Vec<u8>) -> bool {
        let mut buffer = [0; 4_096];
        let read = self.read(&mut buffer).await;
        requests.extend_from_slice(&buffer[..read]);
        read > 0
    }

    /// Writes all bytes, unless the stream is closed.
    pub(super) async fn write_all(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            self.ready(Interest::WRITABLE).await;
            bytes = &bytes[self.try_write(bytes)?..];
        }
        Ok(())
    }

    /// Number of writes by the other end.
    pub(super) fn writes(&self) -> usize {
        self.stream.state.lock().writes[self.arriving()]
    }

    /// Closes the stream. Written bytes still arrive.
    pub(crate) fn shut_down(&self) {
        self.stream.state.lock().closed = true;
        for direction in &self.stream.directions {
            direction.filled.notify_waiters();
            direction.drained.notify_waiters();
        }
    }

    /// Closes the stream. The other end may lose unread bytes.
    pub(super) fn cut(&self) {
        let mut state = self.stream.state.lock();
        if state.rng.bool() {
            state.bytes[self.out].clear();
        }
        drop(state);
        self.shut_down();
    }
}

impl Drop for End {
    fn drop(&mut self) {
        self.shut_down();
    }
}

/// A fake runtime that sleeps or ends on a test's command.
#[derive(Clone, Debug)]
pub(crate) struct Tasks {
    new: UnboundedSender<BoxFuture<'static, ()>>,
    orders: UnboundedSender<Order>,
}

#[derive(Debug)]
enum Order {
    Sleep(Duration),
    End,
}

impl Tasks {
    /// They run within a task of the current runtime.
    pub(super) fn start() -> Self {
        let ((new, mut starting), (orders, mut ordered)) = (unbounded_channel(), unbounded_channel());
        drop(tokio::spawn(async move {
            let mut running = FuturesUnordered::new();
            loop {
                tokio::select! {
                    biased;
                    order = ordered.recv() => match order {
                        Some(Order::Sleep(pause)) => tokio::time::sleep(pause).await,
                        Some(Order::End) | None => return,
                    },
                    Some(task) = starting.recv() => running.push(task),
                    Some(()) = running.next(), if !running.is_empty() => {}
                }
            }
        }));
        Self { new, orders }
    }

    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        // After the end no task starts.
        drop(self.new.send(task.boxed()));
    }

    pub(super) fn sleep(&self, pause: Duration) {
        drop(self.orders.send(Order::Sleep(pause)));
    }

    pub(super) fn end(&self) {
        drop(self.orders.send(Order::End));
    }
}

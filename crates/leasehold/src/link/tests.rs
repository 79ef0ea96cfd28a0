//! Tests of the link with real servers, behind a proxy that injects faults. A test has the name of a known bug (FR and
//! a number), or of a rule of settling. Each test runs on every server program.

mod batches;
mod calls;
mod cluster;
mod connecting;
mod durable;
mod handshakes;
mod hostile;
pub(super) mod memory;
mod notices;
mod scripts;
mod settling;
mod silence;
#[cfg(feature = "tls")]
mod tls;
mod worlds;
mod writers;

use super::{ConnectError, Home, LinkSettings, ServerLink, ServerTarget};
use bytes::Bytes;
use leasehold_core::call::Call;
use leasehold_core::link::{Arrival, Link, LinkError, LinkEvent, Outcome, Receiver, Settled};
use leasehold_core::reply::Reply;
use leasehold_core::script::{ACQUIRE, INSPECT, RELEASE, RENEW};
use leasehold_core::session::CallId;
use leasehold_test_support::{Binary, Version, binaries};
use std::collections::{HashMap, VecDeque};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, Weak};
use std::task::{Context, Waker};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{Notify, oneshot};

/// The command timeout of all tests: short enough to wait for, long enough for a busy machine.
const TIMEOUT: Duration = Duration::from_millis(500);

/// The time limit of a step before it counts as hung.
const HUNG: Duration = Duration::from_secs(30);

/// Runs a test on every server that supports sharded notices.
fn on_each(test: impl Fn(&Binary)) {
    let floor = Version { major: 7, minor: 0, patch: 0 };
    let mut ran = 0;
    for binary in binaries().iter().filter(|binary| binary.version >= floor) {
        eprintln!("on {binary}");
        test(binary);
        ran += 1;
    }
    assert!(ran > 0, "no server program; run `cargo xtask servers`");
}

/// A connected link, on the current runtime.
async fn open(target: ServerTarget, settings: LinkSettings, home: Option<Home>) -> Result<ServerLink, ConnectError> {
    let link = ServerLink::new(target, settings, home);
    link.connect().await?;
    Ok(link)
}

/// Polls once, so that the call starts.
fn begin<T>(call: Pin<&mut (impl Future<Output = T> + ?Sized)>) {
    assert!(call.poll(&mut Context::from_waker(Waker::noop())).is_pending());
}

fn settings() -> LinkSettings {
    LinkSettings {
        command_timeout: TIMEOUT,
        connect_deadline: Duration::from_secs(5),
        audit_interval: Duration::from_millis(300),
        ..LinkSettings::default()
    }
}

/// For tests in which every server replies: a slow machine loses no connection.
fn patient() -> LinkSettings {
    LinkSettings { command_timeout: Duration::from_secs(20), ..settings() }
}

/// A link with its two runtimes, and a third runtime for the test.
struct World {
    link: ServerLink,
    home: Option<Runtime>,
    test: Runtime,
    messages: Arc<Messages>,
    /// Number of calls that were started.
    started: AtomicU64,
    _background: BackgroundThread,
}

impl World {
    fn new(url: &str) -> Self {
        Self::with(url, settings())
    }

    fn with(url: &str, settings: LinkSettings) -> Self {
        let home = Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
        Self::on(url, settings, home)
    }

    fn on(url: &str, settings: LinkSettings, home: Runtime) -> Self {
        let target = ServerTarget::parse(url).expect("a target");
        Self::try_new(target, settings, home).expect("a link")
    }

    fn try_new(target: ServerTarget, settings: LinkSettings, home: Runtime) -> Result<Self, ConnectError> {
        let at_home = Some(Home::Runtime(home.handle().clone()));
        let (link, thread) = BackgroundThread::start(target, settings, at_home)?;
        let test = Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
        let messages = Messages::of(&link);
        Ok(Self { link, messages, started: AtomicU64::new(0), home: Some(home), test, _background: thread })
    }

    fn block_on<T>(&self, work: impl Future<Output = T>) -> T {
        self.test.block_on(work)
    }

    /// The outcome of work, which must not hang.
    fn ends<T>(&self, work: impl Future<Output = T>) -> T {
        self.block_on(async { tokio::time::timeout(HUNG, work).await }).expect("it hangs")
    }

    /// Sends a call as a session does: from this thread, and in a batch with other calls.
    fn start(&self, call: Call) -> oneshot::Receiver<Outcome> {
        let id = CallId::new(self.started.fetch_add(1, Ordering::Relaxed));
        let (answer, answered) = oneshot::channel();
        self.messages.calls.lock().insert(id, answer);
        if let Some(known) = self.link.start(self.link.settlings(false), id, call).expect("a connection") {
            self.messages.answer(id, known);
        }
        answered
    }

    /// Sends calls as a session does, and waits for their outcomes.
    fn start_all(&self, calls: impl IntoIterator<Item = Call>) -> Vec<Outcome> {
        let started: Vec<_> = calls.into_iter().map(|call| self.start(call)).collect();
        let outcomes = self.ends(futures_util::future::join_all(started));
        outcomes.into_iter().map(|outcome| outcome.expect("every call is answered")).collect()
    }

    fn call(&self, call: Call) -> Result<Reply, LinkError> {
        self.ends(self.link.call(call))
    }

    /// Retries a call until it has a reply, for up to 20 s.
    fn call_until_answered(&self, call: &Call) -> Reply {
        let end = Instant::now() + Duration::from_secs(20);
        loop {
            match self.call(call.clone()) {
                Ok(reply) => return reply,
                Err(error) => assert!(Instant::now() < end, "no reply in 20 s: {error}"),
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Settles as a session does: retries an unknown outcome, for up to 20 s. On a busy machine the connection of a
    /// kill may be lost.
    async fn settled(&self, lock: &str) -> Result<Settled, LinkError> {
        self.settled_of(lock, false).await
    }

    /// Settles the durable calls, or all other calls.
    async fn settled_of(&self, lock: &str, durable: bool) -> Result<Settled, LinkError> {
        let end = Instant::now() + Duration::from_secs(20);
        loop {
            match self.link.settle(key(lock), durable).await {
                Err(LinkError::Unknown(_) | LinkError::NotSent(_)) if Instant::now() < end => {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
                outcome => return outcome,
            }
        }
    }

    async fn event(&self) -> Option<LinkEvent> {
        self.messages.next(&self.link).await
    }

    /// The next event, without events about reachability.
    fn next_event(&self) -> Option<LinkEvent> {
        self.block_on(async {
            loop {
                match self.event().await {
                    Some(LinkEvent::Connected { .. } | LinkEvent::OutOfReach { .. } | LinkEvent::Retired { .. }) => {}
                    event => return event,
                }
            }
        })
    }

    /// Waits up to 20 s for an event, and drops earlier events.
    fn wait_for(&self, wanted: &LinkEvent) {
        self.wait_for_all(vec![wanted.clone()]);
    }

    /// Waits up to 20 s for several events, in any order.
    fn wait_for_all(&self, mut wanted: Vec<LinkEvent>) {
        self.block_on(async {
            let wait = async {
                while !wanted.is_empty() {
                    let event = self.event().await.expect("an open link");
                    wanted.retain(|wanted| *wanted != event);
                }
            };
            tokio::time::timeout(Duration::from_secs(20), wait).await.expect("the events within 20 s");
        });
    }
}

/// The messages of a link, and the calls without an outcome.
#[derive(Default)]
struct Messages {
    calls: parking_lot::Mutex<HashMap<CallId, oneshot::Sender<Outcome>>>,
    arrived: parking_lot::Mutex<VecDeque<LinkEvent>>,
    changed: Notify,
}

impl Messages {
    /// Starts to record the messages of a link.
    fn of(link: &ServerLink) -> Arc<Self> {
        let messages = Arc::<Self>::default();
        let receiver: Weak<dyn Receiver> = Arc::<Self>::downgrade(&messages);
        link.deliver_to(receiver);
        messages
    }

    fn answer(&self, id: CallId, outcome: Outcome) {
        // The test may have stopped waiting.
        if let Some(answer) = self.calls.lock().remove(&id) {
            let _ = answer.send(outcome);
        }
    }

    /// The next message or other event of the link.
    async fn next(&self, link: &ServerLink) -> Option<LinkEvent> {
        loop {
            let message = self.arrived.lock().pop_front();
            if message.is_some() {
                return message;
            }
            tokio::select! {
                biased;
                event = link.event() => return event,
                () = self.changed.notified() => {}
            }
        }
    }
}

impl Receiver for Messages {
    fn receive(&self, arrivals: &mut Vec<Arrival>) {
        for arrival in arrivals.drain(..) {
            match arrival {
                Arrival::Event(event) => {
                    self.arrived.lock().push_back(event);
                    self.changed.notify_one();
                }
                Arrival::Outcome(id, outcome) => self.answer(id, outcome),
            }
        }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.block_on(self.link.close());
        if let Some(home) = self.home.take() {
            home.shutdown_background();
        }
    }
}

/// A thread with the background's runtime.
struct BackgroundThread {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl BackgroundThread {
    fn start(
        target: ServerTarget,
        settings: LinkSettings,
        home: Option<Home>,
    ) -> Result<(ServerLink, Self), ConnectError> {
        let (made, making) = mpsc::channel();
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::spawn(move || {
            let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(async move {
                made.send(open(target, settings, home).await).unwrap_or_else(|_| unreachable!("the test waits"));
                let _ = stopped.await;
            });
        });
        let link = making.recv().expect("an outcome")?;
        Ok((link, Self { stop: Some(stop), thread: Some(thread) }))
    }
}

impl Drop for BackgroundThread {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            thread.join().expect("the background did not panic");
        }
    }
}

/// The hold of all tests. No other command contains it: the payload of the link's `PING` is `leasehold:` and a number.
const HOLD: &str = "the-tests-hold";

fn acquire(lock: &str) -> Call {
    let args = [HOLD, "1", "60000", "-1"].map(Bytes::from_static_str).to_vec();
    Call::new(&ACQUIRE, vec![Bytes::copy_from_slice(lock.as_bytes())], args)
}

/// The arguments of a release that frees the lock at once.
fn release_args() -> Vec<Bytes> {
    [HOLD, "0", "PUBLISH", "0", "", "c"].map(Bytes::from_static_str).to_vec()
}

fn release(lock: &str) -> Call {
    Call::new(&RELEASE, vec![Bytes::copy_from_slice(lock.as_bytes())], release_args())
}

fn inspect(lock: &str) -> Call {
    Call::new(&INSPECT, vec![Bytes::copy_from_slice(lock.as_bytes())], [""; 0])
}

/// The reply to `INSPECT` for a free lock.
fn nobody() -> Reply {
    Reply::Array(vec![Reply::Int(0)])
}

fn is_granted(reply: &Reply) -> bool {
    matches!(reply, Reply::Array(parts) if parts.first() == Some(&Reply::Int(1)))
}

fn key(lock: &str) -> Bytes {
    Bytes::copy_from_slice(lock.as_bytes())
}

trait FromStaticStr {
    fn from_static_str(text: &'static str) -> Self;
}

impl FromStaticStr for Bytes {
    fn from_static_str(text: &'static str) -> Self {
        Self::from_static(text.as_bytes())
    }
}

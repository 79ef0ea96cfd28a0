//! The caller of a link in a world. It runs the steps of the plan, and records the link's reports.

use super::super::super::network::Network;
use super::super::memory::Tasks;
use super::super::*;
use super::commands::CALL;
use super::notices;
use super::plan::{CHANNELS, Deed, Disturbance, LOCKS, Manner, Plan};
use super::servers::{FIRST_PORT, Servers};
use super::tally::{Happened, Tally};
use super::trace::{End, Event, Number, Trace};
use crate::PublishCommand;
use leasehold_core::call::Replicas;
use leasehold_core::link::{Arrival, Receiver};
use leasehold_core::script::Script;
use leasehold_core::session::CallId;
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::task::Poll;
use tokio::sync::oneshot;
use tokio::task::JoinHandle as Task;
use tokio::time::Instant;

/// The command timeout of the worlds.
pub(super) const TIMEOUT: Duration = Duration::from_millis(60);
/// Disturbances of a world delay a call by less than this.
pub(super) const SLACK: Duration = Duration::from_secs(2);

/// The name of a lock. Each half of the slots has two locks.
pub(super) fn lock(number: usize) -> Bytes {
    const NAMES: [&str; LOCKS] = ["a", "b", "c", "d"];
    Bytes::from_static_str(NAMES[number])
}

/// The name of a channel, in the slot of a lock.
pub(super) fn channel(number: usize) -> Bytes {
    Bytes::from(format!("c:{{{}}}", String::from_utf8_lossy(&lock(number % LOCKS))))
}

fn slot(lock: &[u8]) -> u16 {
    leasehold_core::name::slot(lock)
}

/// The shared state of a world's tasks.
struct Caller {
    link: ServerLink,
    home: Tasks,
    trace: Trace,
    /// One command per channel at a time, as in a session.
    channels: [tokio::sync::Mutex<()>; CHANNELS],
    plan: Plan,
    tally: parking_lot::Mutex<Tally>,
    inbox: Arc<Inbox>,
}

/// The senders that wait for the outcomes of calls, and the trace for messages.
struct Inbox {
    waiting: parking_lot::Mutex<BTreeMap<CallId, oneshot::Sender<Result<Reply, LinkError>>>>,
    notices: parking_lot::Mutex<usize>,
    trace: Trace,
}

impl Receiver for Inbox {
    fn receive(&self, arrivals: &mut Vec<Arrival>) {
        for arrival in arrivals.drain(..) {
            match arrival {
                Arrival::Outcome(id, result) => {
                    let waiting = self.waiting.lock().remove(&id).expect("a call is answered once");
                    // The future may have been dropped.
                    drop(waiting.send(result));
                }
                Arrival::Event(event) => {
                    *self.notices.lock() += 1;
                    self.trace.say(Event::Told(event));
                }
            }
        }
    }
}

/// Polls once, so that the call leaves. Then treats the future as `manner` requires; `None` if dropped.
async fn treat<T>(caller: &Caller, work: impl Future<Output = T>, manner: Manner, queued: impl FnOnce()) -> Option<T> {
    let mut work = Box::pin(work);
    let first = std::future::poll_fn(|cx| Poll::Ready(work.as_mut().poll(cx))).await;
    queued();
    if let Poll::Ready(done) = first {
        return Some(done);
    }
    match manner {
        Manner::Awaits => {}
        Manner::Drops(millis) => {
            let limit = tokio::time::timeout(Duration::from_millis(millis), work);
            let end = limit.await.ok();
            if end.is_none() {
                caller.tally.lock().note(Happened::FutureDropped);
            }
            return end;
        }
        Manner::LeavesAlone(millis) => {
            caller.tally.lock().note(Happened::FutureLeftAlone);
            tokio::time::sleep(Duration::from_millis(millis)).await;
        }
    }
    Some(work.await)
}

impl Caller {
    async fn call(self: Arc<Self>, number: Number, durable: bool, key: Bytes, script: &'static Script, manner: Manner) {
        let mut call = Call::new(script, vec![key.clone()], vec![Bytes::from(format!("{CALL}{number}"))]);
        if durable {
            call = call.with_replicas(Some(Replicas { at_least: 1, within: Duration::from_millis(10) }));
        }
        self.trace.say(Event::Begun { call: number, durable, slot: self.slot(&key) });
        let queued = || self.trace.say(Event::Queued { call: number });
        let end = treat(&self, self.send(number, call), manner, queued).await;
        if matches!(end, Some(Ok(_))) {
            self.tally.lock().note(Happened::CallAnswered);
        }
        self.trace.say(Event::Ended { call: number, end: end.map_or(End::Dropped, End::Answered) });
    }

    /// Sends a call as a session's driver does.
    async fn send(&self, number: Number, call: Call) -> Result<Reply, LinkError> {
        let (id, decided) = (CallId::new(number as u64), self.link.settlings(call.replicas().is_some()));
        let (answer, answered) = oneshot::channel();
        self.inbox.waiting.lock().insert(id, answer);
        match self.link.start(decided, id, call) {
            Ok(None) => answered.await.expect("every call is answered"),
            Ok(Some(outcome)) => outcome,
            Err(call) => self.link.call_decided(decided, call).await,
        }
    }

    async fn settle(&self, number: Number, key: Bytes, durable: bool) -> Result<Settled, LinkError> {
        self.trace.say(Event::Settling { number, durable, slot: self.slot(&key) });
        let result = self.link.settle(key, durable).await;
        if let Ok(settled) = result {
            let proven = settled == Settled::Proven;
            self.tally.lock().note(if proven { Happened::SettlingProven } else { Happened::Unproven });
        }
        self.trace.say(Event::Settled { number, result: result.clone() });
        result
    }

    async fn subscribe(&self, number: usize, manner: Manner) -> Option<Result<(), LinkError>> {
        let _turn = self.channels[number].lock().await;
        let channel = channel(number);
        self.trace.say(Event::Subscribing { channel: channel.clone() });
        let result = treat(self, self.link.subscribe(channel.clone()), manner, || {}).await?;
        self.trace.say(Event::Subscribed { channel, result: result.clone() });
        Some(result)
    }

    async fn unsubscribe(&self, number: usize) {
        let _turn = self.channels[number].lock().await;
        let channel = channel(number);
        self.trace.say(Event::Unsubscribing { channel: channel.clone() });
        let result = self.link.unsubscribe(channel.clone()).await;
        self.trace.say(Event::Unsubscribed { channel, result });
    }

    /// The slot of a key. Outside of a cluster all keys have one slot, and are settled together.
    fn slot(&self, key: &[u8]) -> u16 {
        if self.plan.cluster { slot(key) } else { 0 }
    }
}

/// A link to the servers.
pub(super) async fn connect(plan: &Plan, servers: &Servers, home: Option<Home>) -> ServerLink {
    let publish = match (plan.sharded, plan.cluster) {
        (true, true) => PublishCommand::Auto,
        (true, false) => PublishCommand::Sharded,
        (false, _) => PublishCommand::Classic,
    };
    let settings = LinkSettings {
        fsync: false,
        command_timeout: TIMEOUT,
        connect_deadline: SLACK,
        audit_interval: Duration::from_millis(100),
        publish,
        batch_from: plan.batch_from,
        network: Network::Memory(Arc::clone(&servers.network)),
    };
    let scheme = if plan.cluster { "redis-cluster" } else { "redis" };
    let target = ServerTarget::parse(&format!("{scheme}://127.0.0.1:{FIRST_PORT}")).expect("a target");
    open(target, settings, home).await.expect("a server")
}

/// Runs a plan to its end, and returns the steps that did not finish.
pub(super) async fn play(plan: &Plan, servers: &Servers, trace: &Trace) -> (Tally, Vec<String>) {
    let home = Tasks::start();
    let link = connect(plan, servers, Some(Home::Tasks(home.clone()))).await;
    let inbox = Arc::new(Inbox { waiting: Default::default(), notices: Default::default(), trace: trace.clone() });
    let receiver: Weak<dyn Receiver> = Arc::<Inbox>::downgrade(&inbox);
    link.deliver_to(receiver);
    let caller = Arc::new(Caller {
        link,
        home,
        inbox,
        trace: trace.clone(),
        channels: Default::default(),
        plan: plan.clone(),
        tally: parking_lot::Mutex::default(),
    });
    let listening = Arc::clone(&caller);
    drop(tokio::spawn(async move {
        while let Some(event) = listening.link.event().await {
            listening.trace.say(Event::Told(event));
        }
    }));
    servers.set_calm(false);
    let mut tasks = Vec::new();
    for (number, step) in plan.steps.iter().enumerate() {
        tasks.extend(do_step(&caller, servers, number, step.deed).await.map(|task| (number, step.deed, task)));
        if step.pause > 0 {
            tokio::time::sleep(Duration::from_millis(step.pause)).await;
        }
    }
    let unended = end(&caller, servers, plan.steps.len(), tasks).await;
    let mut tally = caller.tally.lock().clone();
    (0..*caller.inbox.notices.lock()).for_each(|_| tally.note(Happened::NoticeTold));
    (tally, unended)
}

async fn do_step(caller: &Arc<Caller>, servers: &Servers, number: Number, deed: Deed) -> Option<Task<()>> {
    const SCRIPTS: [&Script; 4] = [&ACQUIRE, &RELEASE, &RENEW, &INSPECT];
    let own = Arc::clone(caller);
    Some(match deed {
        Deed::Call { durable, lock: at, script, manner } => {
            tokio::spawn(own.call(number, durable, lock(at), SCRIPTS[script], manner))
        }
        Deed::Settle { durable, lock: at } => {
            tokio::spawn(async move { drop(own.settle(number, lock(at), durable).await) })
        }
        Deed::Subscribe { channel, manner } => tokio::spawn(async move { drop(own.subscribe(channel, manner).await) }),
        Deed::Unsubscribe { channel } => tokio::spawn(async move { own.unsubscribe(channel).await }),
        Deed::Publish { channel: at } => {
            servers.state.lock().publish(&String::from_utf8_lossy(&channel(at)));
            return None;
        }
        Deed::Disturb(disturbance) => {
            servers.disturb(disturbance);
            match disturbance {
                Disturbance::Block(millis) => {
                    own.tally.lock().note(Happened::ExecutorBlocked);
                    tokio::time::advance(Duration::from_millis(millis)).await;
                }
                Disturbance::HomeSleeps(millis) => {
                    own.tally.lock().note(Happened::HomeSlept);
                    own.home.sleep(Duration::from_millis(millis));
                }
                Disturbance::HomeEnds => {
                    own.tally.lock().note(Happened::HomeEnded);
                    own.home.end();
                }
                _ => {}
            }
            return None;
        }
    })
}

/// No disturbances from here on: every pending step must end, and each channel must deliver a message.
async fn end(
    caller: &Arc<Caller>,
    servers: &Servers,
    first: Number,
    tasks: Vec<(Number, Deed, Task<()>)>,
) -> Vec<String> {
    servers.set_calm(true);
    caller.trace.say(Event::Disturbed("calm".to_owned()));
    let end = Instant::now() + SLACK;
    let mut unended = Vec::new();
    let mut numbers = first..;
    for (at, durable) in (0..LOCKS).flat_map(|at| [(at, false), (at, true)]) {
        let settled = async {
            while caller.settle(numbers.next().expect("a number"), lock(at), durable).await.is_err() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        if tokio::time::timeout_at(end, settled).await.is_err() {
            unended.push(format!("lock {at} cannot be settled at the end"));
        }
    }
    for (number, deed, task) in tasks {
        match tokio::time::timeout_at(end, task).await {
            Ok(done) => done.expect("no task of the world panics"),
            Err(_) => unended.push(format!("step {number} never ends: {deed:?}")),
        }
    }
    for number in 0..CHANNELS {
        let subscribed = async {
            while caller.subscribe(number, Manner::Awaits).await != Some(Ok(())) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        if tokio::time::timeout_at(end, subscribed).await.is_err() {
            unended.push(format!("channel {number} cannot be subscribed to at the end"));
        }
        servers.state.lock().publish(&String::from_utf8_lossy(&channel(number)));
    }
    // An event may still be in transit.
    while !notices::violations(&caller.trace.lines()).is_empty() && Instant::now() < end {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    unended
}

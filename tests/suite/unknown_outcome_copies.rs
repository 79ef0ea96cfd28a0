//! Copies of calls, delivered at once and late.

use crate::support::kinds::{AnyLock, FAIR_CLAIM, FAIR_WINDOW, for_every_kind};
use crate::support::wire::Log;
use crate::support::world::idle;
use crate::support::{Actor, Kind, Sent, Stage, World, ms, secs, until};
use leasehold::embedded::{Fault, FaultTarget};
use leasehold::{Client, ClientStats, Tuning};
use leasehold_core::script::ACQUIRE;
use leasehold_test_support::{Resp, Rounds};
use std::time::Instant;

/// The prefixes of the keys of fair queues.
const QUEUES: [&str; 3] = ["leasehold:1:fair:", "redisson_lock_queue:", "redisson_lock_timeout:"];

/// The servers that a kind lies on, each with what has been sent to it.
struct Recorded {
    kind: Kind,
    worlds: Vec<(World, Log)>,
}

impl Recorded {
    fn new(world: &World, kind: Kind) -> Self {
        let own = (0..kind.servers()).map(|_| World::on(world.engine).recordable());
        let record = |world: World| {
            world.warm();
            let log = world.record();
            (world, log)
        };
        Self { kind, worlds: own.map(record).collect() }
    }

    /// A client for each server.
    async fn process(&self, lease: u64) -> Vec<Client> {
        let mut clients = Vec::new();
        for (world, _) in &self.worlds {
            clients.push(world.client_with(|builder| builder.lease(ms(lease))).await);
        }
        clients
    }

    /// The calls that change something, but for the beats of fair queues: they say that a process lives, whenever they come.
    fn calls(&self) -> Vec<Vec<Sent>> {
        let changes = |sent: &Sent| !sent.script.ends_with("/inspect") && sent.script != "fair/beat";
        self.worlds.iter().map(|(world, log)| world.sent(log).into_iter().filter(changes).collect()).collect()
    }

    /// How many attempts of a process have been answered.
    fn attempts(&self, clients: &[Client]) -> usize {
        let ids: Vec<String> = clients.iter().map(|client| client.id().into_string()).collect();
        let own = |sent: &&Sent| {
            let hold = if self.kind == Kind::Semaphore { sent.keys.get(1) } else { sent.args.first() };
            sent.answered
                && sent.script.ends_with("/acquire")
                && hold.is_some_and(|hold| ids.iter().any(|id| hold.contains(id)))
        };
        self.calls().iter().flatten().filter(own).count()
    }

    /// The same of a waiter that is told, once nothing has come for a while: a waiter whose task is held up makes one attempt more.
    async fn settled_attempts(&self, clients: &[Client]) -> usize {
        let (mut seen, mut since) = (self.attempts(clients), Instant::now());
        until("the waiter rests", || {
            let now = self.attempts(clients);
            if now != seen {
                (seen, since) = (now, Instant::now());
            }
            since.elapsed() >= ms(100)
        })
        .await;
        seen
    }

    /// The state of the servers, but for fair queues and for times. A late copy of a first grant takes a place in a queue, as that of a
    /// process whose tasks are not polled: its turn is not claimed. Nor does it count what a waiter leaves of an attempt that was busy: it
    /// comes and goes by itself, long before the records of what was changed do.
    fn contents(&self) -> Vec<(String, Resp)> {
        let queue = |key: &str| QUEUES.iter().any(|queue| key.starts_with(queue));
        let busy =
            |world: &World, key: &str| key.contains(":op:") && world.lease(key).is_none_or(|left| left < secs(60));
        self.worlds.iter().flat_map(|(world, _)| world.contents(|key| !queue(key) && !busy(world, key))).collect()
    }

    /// Delivers the calls once more, and sees that nothing has changed.
    #[track_caller]
    fn again(&self, calls: &[Vec<Sent>]) {
        for ((world, log), calls) in self.worlds.iter().zip(calls) {
            for sent in calls {
                let before = self.contents();
                let reply = world.replay(log, sent);
                assert!(!reply.is_error(), "{reply:?}");
                assert_eq!(self.contents(), before, "a copy of {sent:?} changes nothing");
            }
        }
    }

    /// The last call to each server once more.
    #[track_caller]
    fn last_again(&self, verb: &str) {
        let calls = self.calls();
        let last = |calls: &Vec<Sent>| calls.iter().rfind(|sent| sent.answered && sent.script.ends_with(verb)).cloned();
        let last: Vec<Vec<Sent>> = calls.iter().map(|calls| Vec::from_iter(last(calls))).collect();
        assert!(last.iter().any(|calls| !calls.is_empty()), "{verb} was recorded");
        self.again(&last);
    }

    async fn gone(&self) {
        for (world, _) in &self.worlds {
            until("nothing is left", || self.kind.leftovers(world).is_empty() && world.subscriptions() == 0).await;
        }
    }
}

/// A hold with every sort of call in it; each is delivered twice.
async fn history(recorded: &Recorded, clients: &[Client], name: &str, lock: &AnyLock) {
    let (kind, owner) = (recorded.kind, clients[0].new_owner());
    let outer = lock.acquire_as(&owner).await.expect("the lock");
    recorded.last_again("/acquire");
    if kind.is_owned() {
        let inner = lock.acquire_as(&owner).await.expect("a re-entry");
        recorded.last_again("/acquire");
        inner.release().await.expect("a release");
        recorded.last_again("/release");
    }
    // A bare permit has no lease, and that of a simple lock is fixed.
    if !matches!(kind, Kind::Semaphore | Kind::Simple) {
        let renewed = |calls: &Vec<Sent>| calls.iter().any(|sent| sent.script.ends_with("/renew") && sent.answered);
        until("it is renewed", || recorded.calls().iter().all(renewed)).await;
        recorded.last_again("/renew");
    }
    outer.release().await.expect("a release");
    recorded.last_again("/release");
    let guard = lock.acquire_as(&owner).await.expect("the lock");
    if let Some(ending) = kind.force_release(clients, name) {
        ending.await.expect("an answer");
        // By a script of its own, or by that of a release.
        recorded.last_again("release");
    }
    drop(guard.release().await);
    recorded.gone().await;
}

async fn late_copies(world: World, kind: Kind) {
    for way in 0.. {
        let (recorded, name) = (Recorded::new(&world, kind), world.name("copied"));
        let (clients, others) = (recorded.process(3_000).await, recorded.process(2_000).await);
        let waiters = recorded.process(2_000).await;
        let mut ways = kind.locks(&clients, &name);
        if way == ways.len() {
            break;
        }
        kind.prepare(&clients[0], &name).await;
        history(&recorded, &clients, &name, &ways.swap_remove(way)).await;
        let old = recorded.calls();
        for later in [&clients, &others] {
            let guard = kind.lock(later, &name).acquire().await.expect("the lock");
            let before = recorded.attempts(&waiters);
            let waiting = tokio::spawn(kind.lock(&waiters, &name).acquire());
            let enough = if kind.is_told() { 2 } else { 1 };
            if kind != Kind::Permits {
                until("a waiter has tried", || recorded.attempts(&waiters) >= before + enough).await;
            }
            // A waiter that is not told asks again and again. A task that is held up disturbs a round, and a copy would disturb each.
            let mut rounds = Rounds::default();
            loop {
                let tried = if kind.is_told() { Some(recorded.settled_attempts(&waiters).await) } else { None };
                recorded.again(&old);
                let now = recorded.attempts(&waiters);
                if rounds.end_with(tried.is_none_or(|tried| tried == now), (tried, now)) {
                    break;
                }
            }
            if later[0].id() == others[0].id() && kind != Kind::Simple {
                for (world, _) in &recorded.worlds {
                    let own =
                        |key: &String| !QUEUES.iter().any(|queue| key.starts_with(queue)) && !key.contains(":op:");
                    for key in world.keys().into_iter().filter(own) {
                        let left = world.lease(&key);
                        assert!(
                            left.is_none_or(|left| left <= ms(2_000)),
                            "{key}: nor do they prolong a lease, {left:?}"
                        );
                    }
                }
            }
            assert!(guard.is_held());
            guard.release().await.expect("a release");
            drop(waiting.await.expect("a task").expect("the lock"));
            if kind.is_fair() {
                // Each place that is not claimed costs its claim.
                let places = old.iter().flatten().filter(|sent| sent.script.ends_with("/acquire")).count();
                let bound = FAIR_CLAIM * u32::try_from(places).expect("few") + FAIR_WINDOW;
                kind.lock(later, &name)
                    .acquire_within(bound + secs(30))
                    .await
                    .expect("the lock")
                    .release()
                    .await
                    .expect("a release");
            }
            recorded.gone().await;
        }
        for client in clients.iter().chain(&others).chain(&waiters) {
            idle(client).await;
        }
    }
}

for_every_kind!(late_copies, and permits);

pub(crate) async fn a_first_grant_after_its_time_is_refused(world: World) {
    let world = world.proxied();
    world.warm();
    let client = world
        .client_with(|builder| builder.tuning(Tuning::new().server_side_expiry(true)).command_timeout(ms(200)))
        .await;
    let lock = client.lock(world.name("not-after"));
    // The first reply tells the server's time.
    lock.acquire().await.expect("the lock").release().await.expect("a release");
    let log = world.record();
    lock.acquire().await.expect("the lock").release().await.expect("a release");
    let sent = world.sent(&log);
    let acquire = sent.iter().find(|sent| sent.script == ACQUIRE.name()).expect("an acquire");
    assert!(acquire.args[3].parse::<i64>().expect("a time") > 0, "it carries a time: {acquire:?}");
    tokio::time::sleep(ms(400)).await;
    let reply = world.replay(&log, acquire);
    assert_eq!(reply.elements().first().and_then(Resp::as_int), Some(-3), "{reply:?}");
    assert!(!world.exists(lock.name()), "nobody got it");
}

/// A driver that sends everything twice: callers see the replies to the copies only.
pub(crate) async fn copies_whose_replies_are_seen_change_nothing_either(_: World) {
    for kind in Kind::ALL {
        for way in 0..kind.locks(&Stage::of(kind).process(), "doubled").len() {
            seen_copies(kind, way);
        }
    }
}

fn seen_copies(kind: Kind, way: usize) {
    let stage = Stage::of(kind);
    let (clients, others) = (stage.process(), stage.process());
    stage.now(kind.prepare(&clients[0], "doubled"));
    stage.servers().for_each(|server| server.inject(Fault::Duplicate, FaultTarget::always()));
    let (lock, rival) = (kind.locks(&clients, "doubled").swap_remove(way), kind.lock(&others, "doubled"));
    let owner = clients[0].new_owner();
    for _ in 0..3 {
        let guard = soon(&stage, kind, lock.acquire_as(&owner)).expect("the lock");
        let again = kind.is_owned().then(|| soon(&stage, kind, lock.acquire_as(&owner)).expect("a re-entry"));
        // Less than the lease of a simple lock, which is not renewed.
        for _ in 0..25 {
            stage.clock.advance(secs(1));
        }
        if let Some(again) = again {
            soon(&stage, kind, again.release()).expect("a release");
        }
        // A busy attempt at a bare semaphore withdraws, so that a copy takes nothing: that copy is told so, and goes again.
        if !matches!(kind, Kind::Latch | Kind::Semaphore) {
            assert!(soon(&stage, kind, rival.try_acquire()).expect("an answer").is_none(), "{kind:?} is held");
        }
        assert!(guard.is_held(), "{kind:?}");
        // The server cannot tell the copy of a last release from one of a hold that was lost, and the caller is told so: our
        // link never sends anything twice.
        drop(soon(&stage, kind, guard.release()));
        let next = soon(&stage, kind, rival.acquire()).expect("the lock");
        drop(soon(&stage, kind, next.release()));
        let open = || clients.iter().chain(&others).any(|client| client.stats() != ClientStats::default());
        let nobody = &mut Vec::<Actor<()>>::new();
        stage.pass_until(&format!("the end of {kind:?}"), ms(100), nobody, |_| {
            stage.leftovers(kind).is_empty() && !open()
        });
    }
}

/// A step that takes no longer than the pauses between attempts.
#[track_caller]
fn soon<T: 'static>(stage: &Stage, kind: Kind, future: impl Future<Output = T> + 'static) -> T {
    let mut actors = [Actor::new(future)];
    stage.pass_until(&format!("an answer ({kind:?})"), secs(1), &mut actors, |actors| actors[0].is_done());
    actors[0].take()
}

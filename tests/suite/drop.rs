//! Public futures that are dropped half-way, whatever becomes of their command. On the embedded engine at every point at which
//! they can wait; on servers at instants of which some hit each of these points.

use crate::support::kinds::{AnyGuard, AnyLock, for_every_kind};
use crate::support::world::idle;
use crate::support::{Kind, Polled, Stage, World, ms, secs, until};
use futures_util::FutureExt as _;
use leasehold::embedded::{Fault, FaultTarget};
use leasehold::{Client, ClientStats, Owner};
use leasehold_core::link::ServerError;
use leasehold_core::script::Script;
use leasehold_test_support::Way;
use std::task::Poll;
use std::time::Duration;

/// The dropped value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    First,
    Try,
    Waiting,
    Entry,
    Reenter,
    ReleaseInner,
    ReleaseLast,
    Inspect,
    ForceRelease,
    With,
    Run,
    Shutdown,
    /// The methods that only this kind has.
    Story,
}

const ALL: [What; 13] = [
    What::First,
    What::Try,
    What::Waiting,
    What::Entry,
    What::Reenter,
    What::ReleaseInner,
    What::ReleaseLast,
    What::Inspect,
    What::ForceRelease,
    What::With,
    What::Run,
    What::Shutdown,
    What::Story,
];

/// The fate of its command. A refusal of the server is told from a loss in the same way for every kind.
fn faults(kind: Kind) -> Vec<Option<Fault>> {
    let mut faults = vec![None, Some(Fault::LoseReply), Some(Fault::LoseRequest)];
    if kind == Kind::Lock {
        faults.push(Some(Fault::Refuse(ServerError::new("LOADING the data"))));
        faults.push(Some(Fault::LinkDown));
    }
    faults.push(Some(Fault::Refuse(ServerError::new("OOM command not allowed when used memory > 'maxmemory'."))));
    faults
}

const NAME: &str = "dropped";

/// Two processes and one name.
struct Scene {
    kind: Kind,
    stage: Stage,
    clients: Vec<Client>,
    others: Vec<Client>,
    lock: AnyLock,
    /// The lock by which the other process excludes all others.
    rival: AnyLock,
    owner: Owner,
    guards: Vec<AnyGuard>,
    /// Opens a latch.
    beside: Option<Polled<'static, ()>>,
}

impl Scene {
    fn new(kind: Kind, way: usize, what: What) -> Self {
        let stage = Stage::of(kind);
        let (clients, others) = (stage.process(), stage.process());
        stage.now(kind.prepare(&others[0], NAME));
        let (lock, rival) = (kind.locks(&clients, NAME).swap_remove(way), kind.lock(&others, NAME));
        let owner = clients[0].new_owner();
        let mine = || stage.now(lock.acquire_as(&owner)).expect("the lock");
        let guards = match what {
            What::First | What::Try | What::With | What::Inspect | What::Story => vec![],
            What::Entry | What::ReleaseInner if !kind.is_owned() => vec![],
            What::Waiting if kind == Kind::Latch => {
                let latch = others[0].count_down_latch(NAME);
                assert!(stage.now(async move { latch.try_set_count(1).await }).expect("an answer"));
                vec![]
            }
            What::Waiting | What::ForceRelease => vec![stage.now(rival.acquire()).expect("the lock")],
            What::Entry | What::Reenter | What::ReleaseLast | What::Run | What::Shutdown => vec![mine()],
            What::ReleaseInner => vec![mine(), mine()],
        };
        Self { kind, stage, clients, others, lock, rival, owner, guards, beside: None }
    }

    /// The dropped value; `None` if the kind has nothing of that sort.
    fn future(&mut self, what: What) -> Option<Polled<'static, ()>> {
        let (kind, lock, owner) = (self.kind, self.lock.clone(), self.owner.clone());
        Some(match what {
            What::Entry | What::ReleaseInner if !kind.is_owned() => return None,
            What::First | What::Waiting => Polled::new(async move { drop(lock.acquire().await) }),
            What::Try => Polled::new(async move { drop(lock.try_acquire().await) }),
            What::Entry => Polled::new(async move { drop(owner.scope(lock.acquire()).await) }),
            What::Reenter => {
                let guard = self.guards.pop().expect("a guard");
                drop(guard.reenter()?);
                Polled::new(async move { drop(guard.reenter().expect("a re-entry").await) })
            }
            What::ReleaseInner | What::ReleaseLast => {
                let guard = self.guards.pop().expect("a guard");
                Polled::new(async move { drop(guard.release().await) })
            }
            What::Inspect => Polled::new(kind.inspect(&self.clients, NAME).map(drop)),
            What::ForceRelease => Polled::new(kind.force_release(&self.clients, NAME)?.map(drop)),
            What::With => Polled::new(lock.with()?),
            What::Run => {
                let guard = self.guards.pop().expect("a guard");
                Polled::new(async move { guard.run().await })
            }
            What::Shutdown => {
                let client = self.clients[0].clone();
                Polled::new(async move { drop(client.shutdown(secs(60)).await) })
            }
            What::Story => Polled::new(kind.story(&self.clients, NAME)?.map(drop)),
        })
    }

    /// The holder that is in the way goes.
    fn make_way(&mut self) {
        self.guards.clear();
        if self.kind == Kind::Latch && self.beside.is_none() {
            let latch = self.others[0].count_down_latch(NAME);
            self.beside = Some(Polled::new(async move { drop(latch.count_down_by(2).await) }));
        }
        if let Some(beside) = self.beside.as_mut().filter(|beside| beside.is_woken()) {
            let _ = beside.poll();
        }
    }

    /// Polls up to `polls` times, and drops. Tells whether there was an end to come to.
    fn go(&mut self, what: What, mut future: Polled<'static, ()>, fault: Option<Fault>, polls: usize) -> bool {
        self.stage.servers().for_each(|server| server.stepped(true));
        if let Some(fault) = fault {
            self.stage.server.inject(fault, FaultTarget::next());
        }
        for _ in 0..polls {
            let mut patience = 4_000;
            while !future.is_woken() {
                if what == What::Waiting {
                    self.make_way();
                }
                self.stage.clock.advance(ms(1));
                patience -= 1;
                if patience == 0 {
                    return true;
                }
            }
            if future.poll() == Poll::Ready(()) {
                return true;
            }
        }
        false
    }

    fn set_down(&self, down: bool) {
        self.stage.servers().for_each(|server| server.set_down(down));
    }

    fn censuses(&self) -> Vec<ClientStats> {
        self.clients.iter().chain(&self.others).map(Client::stats).collect()
    }

    /// Waits until nothing is left, on a clock of which a lease has thirty seconds.
    #[track_caller]
    fn clean_up(&self, within: Duration, what: &str) {
        let end = self.stage.clock.now() + within;
        loop {
            let (left, open) = (self.stage.leftovers(self.kind), self.censuses());
            if left.is_empty() && open.iter().all(|census| *census == ClientStats::default()) {
                return;
            }
            assert!(self.stage.clock.now() < end, "{what}: after {within:?} {left:?} {open:?}");
            self.stage.clock.advance(ms(5));
        }
    }

    /// The other process gets it at once.
    #[track_caller]
    fn is_free(&mut self, what: &str) {
        self.stage.servers().for_each(|server| server.stepped(false));
        if self.kind == Kind::Latch {
            let latch = self.others[0].count_down_latch(NAME);
            let _ = self.stage.now(async move { latch.count_down_by(2).await });
        }
        let next = self.stage.now(self.rival.try_acquire()).expect("an answer").expect(what);
        assert!(next.is_held(), "{what}");
        drop(next);
        self.clean_up(ms(10), what);
    }
}

/// Every future of a kind, on each way to ask for it, and every fault. Reachable servers are cleaned up at once: within the pauses
/// between attempts, and far within the lease.
fn every_point(kind: Kind) {
    let ways = kind.locks(&Stage::of(kind).process(), NAME).len();
    let mut drops = 0;
    let places = (0..ways).flat_map(|way| ALL.map(|what| (way, what)));
    for ((way, what), fault) in places.flat_map(|place| faults(kind).into_iter().map(move |fault| (place, fault))) {
        for polls in 0.. {
            let mut scene = Scene::new(kind, way, what);
            let Some(future) = scene.future(what) else { break };
            let ended = scene.go(what, future, fault.clone(), polls);
            scene.guards.clear();
            scene.stage.server.clear_faults();
            scene.set_down(false);
            let name = format!("{kind:?}, way {way}: {what:?} with {fault:?} dropped after {polls} polls");
            scene.clean_up(ms(if fault.is_none() { 100 } else { 1_500 }), &name);
            scene.is_free(&name);
            drops += 1;
            if ended {
                break;
            }
            assert!(polls < 200, "{name}: it has no end");
        }
    }
    assert!(drops > 50, "only {drops} drops");
}

/// One test for each kind.
macro_rules! every_point {
    ($($test:ident $kind:ident),+ $(,)?) => {$(
        pub(crate) async fn $test(_: World) {
            every_point(Kind::$kind);
        }
    )+};
}

every_point! {
    l4_every_future_dropped_at_every_point_leaves_nothing Lock,
    l4_fair Fair,
    l4_fenced_fair FencedFair,
    l4_fenced Fenced,
    l4_spin Spin,
    l4_simple Simple,
    l4_read_write ReadWrite,
    l4_multi Multi,
    l4_striped Striped,
    l4_quorum Quorum,
    l4_semaphore Semaphore,
    l4_permits Permits,
    l4_latch Latch,
}

/// A hold that stays cut off costs one lease, and no more. A bare permit has none: it is back as soon as its client is.
pub(crate) async fn l4_what_cannot_be_reached_is_free_after_one_lease(_: World) {
    for kind in Kind::ALL {
        let whats = [What::First, What::Entry, What::ReleaseInner, What::ReleaseLast];
        for (way, what) in whats.map(|what| (0, what)) {
            for polls in 0..8 {
                let mut scene = Scene::new(kind, way, what);
                let Some(future) = scene.future(what) else { break };
                let name = format!("{kind:?}, way {way}: {what:?} after {polls} polls");
                let _ended = scene.go(what, future, None, polls);
                scene.set_down(true);
                scene.guards.clear();
                scene.stage.clock.advance(secs(31));
                if !matches!(kind, Kind::Semaphore | Kind::Permits) {
                    let left: Vec<_> = scene.stage.leftovers(kind);
                    assert!(left.iter().all(|left| left == "a subscription"), "{name}: {left:?}");
                }
                // The clients have given up too, or do so as soon as they are back.
                scene.set_down(false);
                scene.stage.clock.advance(secs(1));
                if kind == Kind::Permits {
                    scene.is_free(&name);
                }
                scene.clean_up(secs(2), &name);
            }
        }
    }
}

/// The script with which a kind is taken or released in one of its ways.
fn script(kind: Kind, way: usize, verb: &str) -> &'static Script {
    let folder = match (kind, verb) {
        (Kind::FencedFair, "acquire") => "fenced_fair",
        (Kind::Fair | Kind::FencedFair, _) => "fair",
        (Kind::Fenced, "acquire") => "fenced",
        (Kind::Simple, _) => "simple",
        (Kind::ReadWrite, _) => ["write", "read"][way],
        (Kind::Semaphore, _) => "semaphore",
        (Kind::Permits, _) => "permits",
        _ => "lock",
    };
    let name = format!("{folder}/{verb}");
    leasehold_core::script::ALL.iter().find(|script| script.name() == name).expect("a script")
}

/// The fate of one command on its way to a server.
type Harm = fn(&World, &'static Script);

const HARMS: [(&str, Harm); 5] = [
    ("acquire", |_, _| {}),
    ("acquire", World::lose_reply),
    ("acquire", World::lose_request),
    ("release", World::lose_reply),
    ("release", World::lose_request),
];

/// After how many milliseconds.
static AFTER: [u64; 4] = [0, 2, 4, 7];

/// A sample of what the embedded engine is asked for every point.
async fn at_any_time(world: World, kind: Kind) {
    let worlds: Vec<World> = (0..kind.servers()).map(|_| World::on(world.engine).proxied()).collect();
    let (mut others, name) = (Vec::new(), world.name("dropped"));
    for world in &worlds {
        world.warm();
        others.push(world.client().await);
        world.proxy.as_ref().expect("a proxy").delay(Way::Both, ms(1));
    }
    kind.prepare(&others[0], &name).await;
    let ways = kind.locks(&others, &name).len();
    let whats = [What::First, What::Waiting, What::Entry, What::ReleaseInner, What::ReleaseLast];
    let whats = whats.into_iter().filter(|what| kind.is_owned() || !matches!(what, What::Entry | What::ReleaseInner));
    for (what, way) in whats.flat_map(|what| (0..ways).map(move |way| (what, way))) {
        for (number, (verb, harm)) in HARMS.iter().enumerate() {
            let one = number + what as usize;
            for after in if kind == Kind::Lock { &AFTER[..] } else { &AFTER[one % 4..=one % 4] } {
                // Clients of its own: one that loses connection after connection connects more and more slowly.
                let mut clients = Vec::new();
                for world in &worlds {
                    clients.push(world.client().await);
                }
                let (lock, owner) = (kind.locks(&clients, &name).swap_remove(way), clients[0].new_owner());
                let mut held = Vec::new();
                if what == What::Waiting {
                    held.push(kind.lock(&others, &name).acquire().await.expect("the lock"));
                } else if what != What::First {
                    held.push(lock.acquire_as(&owner).await.expect("the lock"));
                }
                if what == What::ReleaseInner {
                    held.push(lock.acquire_as(&owner).await.expect("a re-entry"));
                }
                harm(&worlds[0], script(kind, way, verb));
                let dropped = async {
                    match what {
                        What::ReleaseInner | What::ReleaseLast => drop(held.pop().expect("a guard").release().await),
                        _ => drop(lock.acquire_as(&owner).await),
                    }
                };
                let _ = tokio::time::timeout(ms(*after), dropped).await;
                held.clear();
                let place = format!("{kind:?}, way {way}: {what:?}, harm {number}, dropped after {after} ms");
                for world in &worlds {
                    until(&format!("no key is left: {place}"), || kind.leftovers(world).is_empty()).await;
                    until(&format!("nobody listens: {place}"), || world.subscriptions() == 0).await;
                }
                // A trap that nothing has run into must not wait for the next round.
                lock.acquire().await.expect("the lock").release().await.expect("a release");
                for client in &clients {
                    idle(client).await;
                }
            }
        }
    }
    for (client, world) in others.iter().zip(&worlds) {
        idle(client).await;
        assert!(kind.leftovers(world).is_empty() && world.subscriptions() == 0);
    }
}

for_every_kind!(at_any_time, and permits);

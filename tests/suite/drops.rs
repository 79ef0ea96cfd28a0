//! Public futures that are dropped half-way, whatever becomes of their command. On the embedded engine at every point at which
//! they can wait; on servers at instants of which some hit each of these points.

use crate::support::world::idle;
use crate::support::{Polled, World, ms, secs, until};
use futures_util::FutureExt as _;
use leasehold::embedded::{Aim, EmbeddedServer, Fault, ManualClock};
use leasehold::{Census, Client, Guard, Lock, Owner};
use leasehold_core::link::ServerError;
use leasehold_core::script::{ACQUIRE, RELEASE};
use leasehold_test_support::Way;
use std::task::Poll;
use std::time::Duration;

/// What is dropped.
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
    Lost,
    Shutdown,
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
    What::Lost,
    What::Shutdown,
];

/// What becomes of its command.
fn faults() -> [Option<Fault>; 6] {
    [
        None,
        Some(Fault::LoseReply),
        Some(Fault::LoseRequest),
        Some(Fault::Refuse(ServerError::new("LOADING the data"))),
        Some(Fault::Refuse(ServerError::new("OOM command not allowed when used memory > 'maxmemory'."))),
        Some(Fault::LinkDown),
    ]
}

struct Scene {
    clock: ManualClock,
    server: EmbeddedServer,
    client: Client,
    other: Client,
    lock: Lock,
    owner: Owner,
    guards: Vec<Guard>,
}

impl Scene {
    fn new(what: What) -> Self {
        let clock = ManualClock::new();
        let server = EmbeddedServer::with_clock(clock.clone());
        let client = || Client::builder().manual_clock(&clock).embedded(&server).expect("a client");
        let (client, other) = (client(), client());
        let (lock, owner) = (client.lock("dropped"), client.new_owner());
        let take = |acquire: leasehold::Acquire| {
            let taken = acquire.into_future().now_or_never().expect("an answer at once");
            taken.expect("the lock")
        };
        let guards = match what {
            What::First | What::Try | What::With | What::Inspect => vec![],
            What::Waiting | What::ForceRelease => vec![take(other.lock("dropped").acquire())],
            What::Entry | What::Reenter | What::ReleaseLast | What::Run | What::Lost | What::Shutdown => {
                vec![take(lock.acquire().owner(&owner))]
            }
            What::ReleaseInner => vec![take(lock.acquire().owner(&owner)), take(lock.acquire().owner(&owner))],
        };
        Self { clock, server, client, other, lock, owner, guards }
    }

    fn future(&mut self, what: What) -> Polled<'static, ()> {
        let (lock, owner, client) = (self.lock.clone(), self.owner.clone(), self.client.clone());
        match what {
            What::First | What::Waiting => Polled::new(async move { drop(lock.acquire().await) }),
            What::Try => Polled::new(async move { drop(lock.try_acquire().await) }),
            What::Entry => Polled::new(async move { drop(owner.scope(lock.acquire().into_future()).await) }),
            What::Reenter => {
                let guard = self.guards.pop().expect("a guard");
                Polled::new(async move { drop(guard.reenter().await) })
            }
            What::ReleaseInner | What::ReleaseLast => {
                let guard = self.guards.pop().expect("a guard");
                Polled::new(async move { drop(guard.release().await) })
            }
            What::Inspect => Polled::new(async move { drop(lock.inspect().await) }),
            What::ForceRelease => Polled::new(async move { drop(lock.force_release().await) }),
            What::With => Polled::new(async move { drop(lock.with(async |_| tokio::task::yield_now().await).await) }),
            What::Run | What::Lost => {
                let guard = self.guards.pop().expect("a guard");
                Polled::new(async move {
                    if what == What::Run {
                        drop(guard.run(tokio::task::yield_now()).await);
                    }
                    drop(guard.lost().await);
                })
            }
            What::Shutdown => Polled::new(async move { drop(client.shutdown(secs(60)).await) }),
        }
    }

    /// Polls up to `polls` times, and drops. Tells whether there was an end to come to.
    fn go(&mut self, what: What, fault: Option<Fault>, polls: usize) -> bool {
        let mut future = self.future(what);
        self.server.stepped(true);
        if let Some(fault) = fault {
            self.server.inject(fault, Aim::next());
        }
        for _ in 0..polls {
            let mut patience = 4_000;
            while !future.is_woken() {
                if what == What::Waiting {
                    self.guards.clear();
                }
                self.clock.advance(ms(1));
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

    fn is_clean(&self) -> bool {
        self.server.keys().is_empty()
            && self.server.subscriptions() == 0
            && self.client.census() == Census::default()
            && self.other.census() == Census::default()
    }

    /// Waits until nothing is left, on a clock of which a lease has thirty seconds.
    #[track_caller]
    fn clean_up(&self, within: Duration, what: &str) {
        let end = self.clock.now() + within;
        while !self.is_clean() {
            let (keys, census) = (self.server.keys(), self.client.census());
            assert!(self.clock.now() < end, "{what}: after {within:?} {keys:?} {census:?} {:?}", self.other.census());
            self.clock.advance(ms(5));
        }
    }
}

/// Reachable servers are cleaned up at once: within the pauses between attempts, and far within the lease.
pub(crate) async fn l4_every_future_dropped_at_every_point_leaves_nothing(_: World) {
    let mut drops = 0;
    for what in ALL {
        for fault in faults() {
            for polls in 0.. {
                let mut scene = Scene::new(what);
                let ended = scene.go(what, fault.clone(), polls);
                scene.guards.clear();
                scene.server.clear_faults();
                scene.server.set_down(false);
                let name = format!("{what:?} with {fault:?} dropped after {polls} polls");
                scene.clean_up(ms(if fault.is_none() { 100 } else { 1_500 }), &name);
                scene.server.stepped(false);
                let next = scene.other.lock("dropped").try_acquire().now_or_never().expect("an answer at once");
                drop(next.expect("an answer").expect(&name));
                scene.clean_up(ms(10), &name);
                drops += 1;
                if ended {
                    break;
                }
                assert!(polls < 200, "{name}: it has no end");
            }
        }
    }
    assert!(drops > 300, "only {drops} drops");
}

/// What stays cut off costs one lease, and no more.
pub(crate) async fn l4_what_cannot_be_reached_is_free_after_one_lease(_: World) {
    for what in [What::First, What::Entry, What::ReleaseInner, What::ReleaseLast] {
        for polls in 0..8 {
            let mut scene = Scene::new(what);
            let _ended = scene.go(what, None, polls);
            scene.server.set_down(true);
            scene.guards.clear();
            scene.clock.advance(secs(31));
            assert!(scene.server.keys().is_empty(), "{what:?} after {polls} polls");
            // The clients have given up too, or do so as soon as they are back.
            scene.server.set_down(false);
            scene.clean_up(secs(2), &format!("{what:?} after {polls} polls"));
        }
    }
}

/// What happens to one command on its way to a server.
type Harm = fn(&World);

pub(crate) async fn l4_futures_dropped_at_any_time_leave_nothing_on_a_server(world: World) {
    let world = world.proxied();
    world.warm();
    let proxy = world.proxy.as_ref().expect("a proxy");
    let harms: [Harm; 5] = [
        |_| {},
        |world| world.lose_reply(&ACQUIRE),
        |world| world.lose_request(&ACQUIRE),
        |world| world.lose_reply(&RELEASE),
        |world| world.lose_request(&RELEASE),
    ];
    let other = world.client().await;
    proxy.delay(Way::Both, ms(1));
    for what in [What::First, What::Waiting, What::Entry, What::ReleaseInner, What::ReleaseLast] {
        let name = world.name("dropped");
        for (number, harm) in harms.iter().enumerate() {
            for after in [0, 2, 4, 7] {
                // A client of its own: one that loses connection after connection connects more and more slowly.
                let client = world.client().await;
                let (lock, owner) = (client.lock(&name), client.new_owner());
                let mut held = Vec::new();
                if what == What::Waiting {
                    held.push(other.lock(&name).acquire().await.expect("the lock"));
                } else if what != What::First {
                    held.push(lock.acquire().owner(&owner).await.expect("the lock"));
                }
                if what == What::ReleaseInner {
                    held.push(lock.acquire().owner(&owner).await.expect("a re-entry"));
                }
                harm(&world);
                let dropped = async {
                    match what {
                        What::ReleaseInner | What::ReleaseLast => drop(held.pop().expect("a guard").release().await),
                        _ => drop(lock.acquire().owner(&owner).await),
                    }
                };
                let _ = tokio::time::timeout(ms(after), dropped).await;
                held.clear();
                let place = format!("{what:?}, harm {number}, dropped after {after} ms");
                until(&format!("the key is gone: {place}"), || !world.exists(&name)).await;
                until(&format!("nobody listens: {place}"), || world.subscribers(&name) == 0).await;
                // A trap that nothing has run into must not wait for the next round.
                lock.acquire().await.expect("the lock").release().await.expect("a release");
                idle(&client).await;
            }
        }
    }
    idle(&other).await;
    assert!(world.keys().is_empty() && world.subscriptions() == 0);
}

//! A fair queue of both sides.

use crate::kind::{Kind, Wish};
use crate::place::PlaceName;
use crate::suite::Cases;
use crate::world::{World, timed};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::task::JoinSet;

/// How many wait and live, every other one of the same side.
const LIVING: usize = 20;

/// Before which of them a dead one stands.
const DEAD_JVM: usize = 6;
const DEAD_RUST: usize = 13;

pub(super) fn add(cases: &mut Cases) {
    for place in PlaceName::ALL {
        let name =
            "fair: 20 waiters, Rust and JVM in turn, are served in the order of arrival, past a dead one of each";
        cases.add(place, name, in_order);
    }
}

async fn in_order(world: World) {
    let object = world.object(Kind::Fair);
    let lock = world.lock(Kind::Fair);
    let (jvm, doomed) = world.mortal().await;
    let mut child = world.child().await;
    let holder = world.actor("holder");
    holder.tell("lock", &[&object]).await;
    let served = Arc::new(Mutex::new(Vec::new()));
    let mut waiters = JoinSet::new();
    let mut length = 0;
    for number in 0..LIVING {
        if number == DEAD_JVM {
            drop(doomed.begin("lock", &[&object]).await);
            length += 1;
            world.until_waiting(Kind::Fair, length).await;
        }
        if number == DEAD_RUST {
            child.order("acquire", Kind::Fair, &world.name).await;
            length += 1;
            world.until_waiting(Kind::Fair, length).await;
        }
        let serve = serve(&served, number);
        if number % 2 == 0 {
            let acquire = lock.acquire(Wish::default());
            waiters.spawn(async move {
                let guard = acquire.await.expect("the lock");
                serve();
                guard.release().await.expect("a release");
            });
        } else {
            let (actor, object) = (world.actor(&format!("jvm-{number}")), object.clone());
            let waiting = actor.begin("lock", &[&object]).await;
            waiters.spawn(async move {
                waiting.await.expect("an answer").expect("no exception");
                serve();
                actor.tell("unlock", &[&object]).await;
            });
        }
        length += 1;
        world.until_waiting(Kind::Fair, length).await;
    }
    jvm.kill();
    child.kill();
    holder.tell("unlock", &[&object]).await;
    let all = async {
        while let Some(waiter) = waiters.join_next().await {
            waiter.expect("a waiter that was served");
        }
    };
    let ((), took) = timed(all).await;
    world.note(format!("all served in {took:.1?}"));
    let served = served.lock().unwrap_or_else(PoisonError::into_inner).clone();
    assert_eq!(served, (0..LIVING).collect::<Vec<_>>());
    assert_eq!(world.holder(), None);
    assert_eq!(world.command(&["LLEN", &Kind::queue(&world.name)]).as_int(), Some(0), "nobody is left in the queue");
}

/// Takes down that this one was served.
fn serve(served: &Arc<Mutex<Vec<usize>>>, number: usize) -> impl FnOnce() + Send + use<> {
    let served = served.clone();
    move || served.lock().unwrap_or_else(PoisonError::into_inner).push(number)
}

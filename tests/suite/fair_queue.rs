//! The fair lock: who comes next, and what becomes of those who go. F1 to F12 are faults of other libraries, by their ids in our
//! list.

use crate::support::kinds::FAIR_WINDOW;
use crate::support::world::idle;
use crate::support::{Actor, Polled, Stage, World, ms, secs, until};
use leasehold::kind::Fair;
use leasehold::{Client, Error, FairLock, FairSettings, Guard};
use leasehold_core::reply::Reply;

use std::sync::{Arc, Mutex};
use std::time::Duration;

/// How often a client that waits says that it lives.
const BEAT: Duration = ms(500);

/// The time that a command and the turn of a future take on a clock that only ticks.
const STEP: Duration = ms(10);

type FairGuard = Guard<Fair>;

type Waiter = Actor<Result<FairGuard, Error>>;

fn waits(lock: &FairLock) -> Waiter {
    let lock = lock.clone();
    Actor::new(async move { lock.acquire().await })
}

fn queue(name: &str) -> String {
    format!("redisson_lock_queue:{{{name}}}")
}

fn deadlines(name: &str) -> String {
    format!("redisson_lock_timeout:{{{name}}}")
}

/// How many stand in the queue, those aside who left.
fn waiting(world: &World, name: &str) -> usize {
    let alive = world.command(name, &["ZCOUNT", &deadlines(name), "1000000000000", "+inf"]);
    usize::try_from(alive.as_int().expect("a number")).expect("a number")
}

impl Stage {
    /// A holder, and a waiter of each client, in this order.
    fn line(&self, name: &str, clients: &[&Client]) -> (FairGuard, Vec<Waiter>) {
        let held = self.holder(name);
        let mut waiters: Vec<Waiter> = Vec::new();
        for client in clients {
            waiters.push(waits(&client.fair_lock(name)));
            self.pass(ms(1), &mut waiters);
        }
        (held, waiters)
    }

    fn holder(&self, name: &str) -> FairGuard {
        let lock = self.client().fair_lock(name);
        self.now(async move { lock.acquire().await }).expect("the lock")
    }

    /// Releases, and tells how long it takes until the waiter has the lock; no other has it before.
    #[track_caller]
    fn hands_over(&self, held: FairGuard, waiters: &mut [Waiter], next: usize) -> Duration {
        drop(held);
        self.next_in(waiters, next)
    }

    #[track_caller]
    fn next_in(&self, waiters: &mut [Waiter], next: usize) -> Duration {
        let took = self.pass_until("a grant", secs(60), waiters, |waiters| waiters.iter().any(Actor::is_done));
        let got: Vec<usize> = (0..waiters.len()).filter(|index| waiters[*index].is_done()).collect();
        assert_eq!(got, [next], "who got in");
        took
    }

    fn entries(&self, name: &str) -> usize {
        match self.command(&["LLEN", &queue(name)]) {
            Reply::Int(entries) => usize::try_from(entries).expect("a length"),
            other => panic!("{other:?}"),
        }
    }
}

/// A client whose waiters keep their places and their turns, however long a machine lets none of its threads run.
async fn patient(world: &World) -> Client {
    let fair = FairSettings::new().liveness_timeout(secs(60)).offer_timeout(secs(60));
    world.client_with(|builder| builder.fair(fair.heartbeat_interval(ms(500)))).await
}

pub(crate) async fn everybody_comes_in_the_order_of_arrival(world: World) {
    let mut clients = Vec::new();
    for _ in 0..4 {
        clients.push(patient(&world).await);
    }
    let name = world.name("order");
    let held = clients[0].fair_lock(&name).acquire().await.expect("the lock");
    let order = Arc::new(Mutex::new(Vec::new()));
    let mut tasks = Vec::new();
    for number in 0..12 {
        let (lock, order) = (clients[number * 7 % 4].fair_lock(&name), order.clone());
        tasks.push(tokio::spawn(async move {
            let guard = lock.acquire().await.expect("the lock");
            order.lock().expect("an order").push(number);
            guard.release().await.expect("a release");
        }));
        until("it has its place", || waiting(&world, &name) == number + 1).await;
    }
    assert!(clients[1].fair_lock(&name).try_acquire().await.expect("an answer").is_none());
    held.release().await.expect("a release");
    for task in tasks {
        task.await.expect("a task");
    }
    assert_eq!(*order.lock().expect("an order"), Vec::from_iter(0..12));
    for client in &clients {
        idle(client).await;
    }
    until("no queue is left", || !world.exists(&queue(&name)) && !world.exists(&deadlines(&name))).await;
}

/// The leaving waiters stand at the head, in the middle and at the tail; they are dropped, or their wait runs out.
pub(crate) async fn f5_who_has_left_does_not_stand_in_the_queue(world: World) {
    let (holder, one, other) = (patient(&world).await, patient(&world).await, patient(&world).await);
    let name = world.name("left");
    for bounded in [false, true] {
        for leaves in 0..3 {
            let held = holder.fair_lock(&name).acquire().await.expect("the lock");
            let mut tasks = Vec::new();
            for number in 0..3 {
                let lock = if number == 1 { other.fair_lock(&name) } else { one.fair_lock(&name) };
                let wait = if bounded && number == leaves { secs(1) } else { secs(60) };
                tasks.push(tokio::spawn(async move { lock.acquire().wait(wait).await }));
                until("it has its place", || waiting(&world, &name) == number + 1).await;
            }
            let gone = tasks.remove(leaves);
            if bounded {
                let error = gone.await.expect("a task").expect_err("a busy lock");
                assert!(matches!(error, Error::WaitElapsed { .. }), "{error}");
            } else {
                gone.abort();
            }
            until("its place is gone", || waiting(&world, &name) == 2).await;
            held.release().await.expect("a release");
            for task in tasks {
                task.await.expect("a task").expect("the lock").release().await.expect("a release");
            }
            for client in [&holder, &one, &other] {
                idle(client).await;
            }
            let keys = [queue(&name), deadlines(&name), name.clone()];
            until("no queue is left", || keys.iter().all(|key| !world.exists(key))).await;
        }
    }
}

pub(crate) async fn grants_carry_tokens_that_grow(world: World) {
    let (client, other) = (world.client().await, world.client().await);
    let name = world.name("fenced");
    let (lock, same) = (client.fair_lock(&name).fenced(), other.fair_lock(&name).fenced());
    let mut last = None;
    for lock in [&lock, &same, &lock] {
        let guard = lock.acquire().await.expect("the lock");
        assert!(Some(guard.fencing_token()) > last);
        last = Some(guard.fencing_token());
        let again = guard.reenter().await.expect("a re-entry");
        assert_eq!(Some(again.fencing_token()), last);
        again.release().await.expect("a release");
        guard.release().await.expect("a release");
    }
    assert!(!world.exists(&name) && world.exists(&format!("redisson_lock_token:{{{name}}}")));
    idle(&client).await;
}

/// The dead cost a window and a beat, once, however many they are.
pub(crate) async fn f1_dead_waiters_cost_a_window_in_all(_: World) {
    for dead in [1, 20] {
        let mut stage = Stage::new();
        let (mortal, alive) = (stage.mortal(), stage.client());
        let mut clients = vec![&mortal; dead];
        clients.push(&alive);
        let (held, mut waiters) = stage.line("dead", &clients);
        let last = waiters.pop().expect("a waiter");
        std::mem::forget(waiters);
        let _clocks = stage.kill();
        let mut waiters = [last];
        let took = stage.hands_over(held, &mut waiters, 0);
        assert!(took >= secs(1) && took <= FAIR_WINDOW + BEAT, "{dead} dead waiters: in after {took:?}");
        let guard = waiters[0].take().expect("the lock");
        assert_eq!(stage.entries("dead"), 0);
        drop(guard);
        std::mem::forget(mortal);
    }
}

pub(crate) async fn f2_a_dead_holder_costs_its_lease(_: World) {
    let stage = Stage::new();
    let lock = stage.client().fair_lock("dead");
    stage.now(async move { lock.acquire().lease(secs(7)).await }).expect("the lock").detach();
    let other = stage.client();
    let mut waiters = [waits(&other.fair_lock("dead"))];
    let took = stage.next_in(&mut waiters, 0);
    assert!(took >= secs(7) && took <= secs(7) + STEP, "in after {took:?}");
    // A key that is deleted by hand is found at the next beat.
    let mut waiters = [Actor::new(async { unreachable!() }), waits(&stage.client().fair_lock("dead"))];
    waiters[0].dropped();
    stage.pass(secs(3), &mut waiters);
    stage.command(&["DEL", "dead"]);
    let took = stage.next_in(&mut waiters, 1);
    assert!(took <= BEAT + STEP, "in after {took:?}");
}

/// Scores do not run into the future, however many give up.
pub(crate) async fn f4_deadlines_do_not_drift(_: World) {
    let stage = Stage::new();
    let _held = stage.holder("drift");
    let clients: Vec<Client> = (0..5).map(|_| stage.client()).collect();
    for _ in 0..40 {
        let mut waiters: Vec<Waiter> = clients
            .iter()
            .map(|client| {
                let lock = client.fair_lock("drift");
                Actor::new(async move { lock.acquire().wait(secs(1)).await })
            })
            .collect();
        stage.pass(ms(900), &mut waiters);
        let Reply::Array(highest) = stage.command(&["ZRANGE", &deadlines("drift"), "-1", "-1", "WITHSCORES"]) else {
            panic!("a deadline")
        };
        let Some(Reply::Bulk(highest)) = highest.last() else { panic!("a deadline") };
        let highest: i64 = std::str::from_utf8(highest).expect("a text").parse().expect("a number");
        let ahead = highest - stage.server.wall_millis();
        assert!(ahead <= 3_000, "{ahead} ms ahead");
        stage.pass(ms(110), &mut waiters);
        assert!(waiters.iter_mut().all(|waiter| matches!(waiter.take(), Err(Error::WaitElapsed { .. }))));
    }
    assert_eq!(stage.entries("drift"), 0);
}

pub(crate) async fn f6_a_queue_that_lost_one_of_its_keys_mends_itself(_: World) {
    for key in [queue("torn"), deadlines("torn"), "leasehold:1:fair:{torn}".to_owned()] {
        let stage = Stage::new();
        let (one, other) = (stage.client(), stage.client());
        let (held, mut waiters) = stage.line("torn", &[&one, &other, &one]);
        stage.command(&["DEL", &key]);
        stage.pass(secs(1), &mut waiters);
        drop(held);
        for granted in 1..=3 {
            let all = |waiters: &[Waiter]| waiters.iter().filter(|waiter| waiter.is_done()).count() == granted;
            let took = stage.pass_until("a grant", secs(5), &mut waiters, all);
            assert!(took <= BEAT + STEP, "{key}: in after {took:?}");
            let done = waiters.iter_mut().find_map(|waiter| waiter.done.as_mut().filter(|(got, _)| got.is_ok()));
            let guard = std::mem::replace(&mut done.expect("a grant").0, Err(Error::ShutDown { lock: String::new() }));
            drop(guard);
        }
        assert_eq!(stage.entries("torn"), 0, "{key}");
    }
}

pub(crate) async fn f8_a_release_after_the_end_is_a_loss_and_wakes_the_head(_: World) {
    let stage = Stage::new();
    let client = stage.client();
    let lock = client.fair_lock("late");
    let held = stage.now({
        let lock = lock.clone();
        async move { lock.acquire().await }
    });
    let held = held.expect("the lock");
    let mut waiters = [waits(&stage.client().fair_lock("late"))];
    stage.pass(ms(700), &mut waiters);
    stage.command(&["DEL", "late"]);
    let error = stage.now(held.release()).expect_err("a lost lock");
    assert!(matches!(error, Error::Lost { .. }), "{error}");
    let took = stage.next_in(&mut waiters, 0);
    assert!(took <= STEP, "woken by the release, and not by the next beat: in after {took:?}");
}

pub(crate) async fn f10_a_try_overtakes_nobody_who_lives(_: World) {
    let mut stage = Stage::new();
    let (waiter, other, mortal) = (stage.client(), stage.client(), stage.mortal());
    let (held, mut waiters) = stage.line("barging", &[&waiter]);
    // Free, and the one who is next has not come yet.
    drop(held);
    let tries = |client: &Client| {
        let lock = client.fair_lock("barging");
        stage.now(async move { lock.try_acquire().await }).expect("an answer")
    };
    assert!(tries(&other).is_none(), "another client");
    assert!(tries(&waiter).is_none(), "its own client");
    assert!(stage.next_in(&mut waiters, 0) <= STEP);
    drop(waiters);
    // If all other waiters are dead, it is let in as soon as that is known.
    let (held, waiters) = stage.line("barging", &[&mortal, &mortal]);
    std::mem::forget(waiters);
    let _clocks = stage.kill();
    drop(held);
    let tries = |client: &Client| {
        let lock = client.fair_lock("barging");
        stage.now(async move { lock.try_acquire().await }).expect("an answer")
    };
    assert!(tries(&other).is_none(), "nobody knows yet");
    stage.pass(FAIR_WINDOW, &mut Vec::<Waiter>::new());
    assert!(tries(&other).is_some());
    std::mem::forget(mortal);
}

pub(crate) async fn f11_what_the_dead_leave_expires(_: World) {
    let mut stage = Stage::new();
    let mortal = stage.mortal();
    let lock = mortal.fair_lock("orphans");
    let held = stage.now(async move { lock.acquire().await });
    let mut waiters = [waits(&mortal.fair_lock("orphans")), waits(&mortal.fair_lock("orphans"))];
    stage.pass(secs(2), &mut waiters);
    let _clocks = stage.kill();
    std::mem::forget((held, waiters));
    for key in stage.keys() {
        assert!(matches!(stage.command(&["PTTL", &key]), Reply::Int(left) if left > 0), "{key} stays for ever");
    }
    stage.clock.advance(secs(700));
    assert!(stage.keys().is_empty(), "{:?}", stage.keys());
    std::mem::forget(mortal);
}

/// However many wait, each costs a command to take its place and one to take its turn, and the client a beat.
pub(crate) async fn f12_waiting_costs_the_same_for_few_and_many(_: World) {
    const MANY: u64 = 400;
    let stage = Stage::new();
    let client = stage.client();
    let held = stage.holder("crowd");
    let mut waiters: Vec<Waiter> = (0..MANY).map(|_| waits(&client.fair_lock("crowd"))).collect();
    stage.pass(ms(50), &mut waiters);
    let asked = stage.server.calls("fair/acquire");
    assert!(asked <= MANY + 4, "{asked} to take their places");
    let record = stage.server.record();
    stage.pass(secs(5), &mut waiters);
    let calls = record.scripts();
    let beats = calls.iter().filter(|script| **script == "fair/beat").count();
    assert!((8..=14).contains(&beats) && calls.len() <= beats + 2, "{calls:?}");
    let before = stage.server.calls("fair/acquire");
    drop(held);
    let turns = 50;
    for _ in 0..turns {
        stage.pass_until("a grant", secs(1), &mut waiters, |waiters| waiters.iter().any(Actor::is_done));
        waiters.retain(|waiter| !waiter.is_done());
    }
    let asked = stage.server.calls("fair/acquire") - before;
    assert!(asked <= turns * 2 + 4, "{asked} for {turns} turns");
    drop(waiters);
    stage.pass(ms(100), &mut Vec::<Waiter>::new());
    assert_eq!(stage.entries("crowd"), 0);
}

/// A wait may be longer than a lease; a waiter that gives up then leaves nothing either.
pub(crate) async fn a_place_is_given_up_however_long_it_was_held(_: World) {
    let stage = Stage::new();
    let (one, other) = (stage.client(), stage.client());
    let (held, mut waiters) = stage.line("long", &[&one, &one, &other]);
    stage.pass(secs(70), &mut waiters);
    waiters[0].dropped();
    waiters[1].dropped();
    stage.pass(STEP, &mut waiters);
    let took = stage.hands_over(held, &mut waiters, 2);
    assert!(took <= STEP, "in after {took:?}");
}

/// A process that was silent for less than the window keeps its places; after that it stands at the tail.
pub(crate) async fn silence_beyond_the_window_costs_the_place(_: World) {
    for (silence, keeps) in [(ms(1_400), true), (secs(3), false)] {
        let mut stage = Stage::new();
        let (mortal, alive) = (stage.mortal(), stage.client());
        let (held, mut waiters) = stage.line("silent", &[&mortal, &mortal, &alive]);
        let later = waiters.pop().expect("a waiter");
        let clocks = stage.kill();
        let mut awake = [later];
        stage.pass(silence, &mut awake);
        stage.revive(clocks);
        let [later] = awake;
        waiters.push(later);
        stage.pass(secs(1), &mut waiters);
        let order = if keeps { [0, 1, 2] } else { [2, 0, 1] };
        let mut held = Some(held);
        for next in order {
            drop(held.take());
            let took = stage.pass_until("a grant", secs(5), &mut waiters, |waiters| waiters.iter().any(Actor::is_done));
            assert!(took <= STEP, "after {silence:?}, {next}: in after {took:?}");
            assert!(waiters[next].is_done(), "after {silence:?} it is the turn of {next}");
            held = Some(waiters[next].take().expect("the lock"));
        }
        assert_eq!(stage.entries("silent"), 0);
    }
}

/// Without a connection for less than the window, no waiter loses its place; beyond it all go on.
pub(crate) async fn an_outage_does_not_strand_anybody(_: World) {
    for down in [ms(900), secs(4)] {
        let stage = Stage::new();
        let (one, other) = (stage.client(), stage.client());
        let (held, mut waiters) = stage.line("outage", &[&one, &other, &one, &other]);
        stage.server.set_down(true);
        stage.pass(down, &mut waiters);
        stage.server.set_down(false);
        stage.pass(secs(1), &mut waiters);
        drop(held);
        let mut order = Vec::new();
        for _ in 0..4 {
            let took = stage.pass_until("a grant", secs(5), &mut waiters, |waiters| waiters.iter().any(Actor::is_done));
            assert!(took <= STEP, "{down:?}: in after {took:?}");
            let next = waiters.iter().position(Actor::is_done).expect("a grant");
            order.push(next);
            drop(waiters[next].take().expect("the lock"));
        }
        if down < FAIR_WINDOW {
            assert_eq!(order, [0, 1, 2, 3]);
        } else {
            let place = |waiter| order.iter().position(|next| *next == waiter);
            assert!(place(0) < place(2) && place(1) < place(3), "each client keeps its own order: {order:?}");
        }
        assert_eq!(stage.entries("outage"), 0);
    }
}

/// The next one is asleep in its process: the turn passes on.
pub(crate) async fn a_front_that_is_not_polled_passes_its_turn(_: World) {
    for same_client in [true, false] {
        let stage = Stage::new();
        let forgetful = stage.client();
        let other = if same_client { forgetful.clone() } else { stage.client() };
        let held = stage.holder("forgotten");
        let lock = forgetful.fair_lock("forgotten");
        let mut forgotten = Polled::new(async move { lock.acquire().await });
        while forgotten.is_woken() {
            assert!(forgotten.poll().is_pending());
        }
        let mut waiters = [waits(&other.fair_lock("forgotten"))];
        stage.pass(ms(20), &mut waiters);
        let took = stage.hands_over(held, &mut waiters, 0);
        // A waiter that loses its turn loses its place, so it has a second, and not 50 ms, to be polled.
        assert!(took <= ms(1_100), "same client: {same_client}: in after {took:?}");
        drop(forgotten);
        drop(waiters);
        stage.pass(STEP, &mut Vec::<Waiter>::new());
        assert_eq!(stage.entries("forgotten"), 0);
    }
}

/// Tries, waits that run out, drops at every point, releases of every sort: a grant is never more than a moment away, and in the end
/// nothing is left.
pub(crate) async fn the_lock_is_never_free_while_somebody_waits(_: World) {
    for seed in 0..25 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let stage = Stage::new();
        let clients: Vec<Client> = (0..3).map(|_| stage.client()).collect();
        let (mut waiters, mut held): (Vec<Actor<Option<FairGuard>>>, Vec<FairGuard>) = (Vec::new(), Vec::new());
        for _ in 0..100 {
            let lock = clients[rng.usize(..3)].fair_lock("storm");
            let wait = ms(rng.u64(..4));
            waiters.push(match rng.u32(..5) {
                0 => Actor::new(async move { lock.try_acquire().await.expect("an answer") }),
                1 => Actor::new(async move { lock.acquire().wait(wait).await.ok() }),
                2 => {
                    let _ = Polled::new(async move { lock.acquire().await }).poll();
                    continue;
                }
                _ => Actor::new(async move { Some(lock.acquire().await.expect("the lock")) }),
            });
            stage.act(&mut waiters);
            for guard in waiters.iter_mut().filter_map(|waiter| waiter.done.take()?.0) {
                assert!(guard.is_held() && held.iter().all(|other| !other.is_held()), "seed {seed}: two holders");
                match rng.u32(..4) {
                    0 => drop(guard),
                    1 => drop(guard.release()),
                    2 => drop(Polled::new(guard.release()).poll()),
                    _ => held.push(guard),
                }
            }
            if rng.u32(..3) == 0 {
                held.pop();
            }
            if rng.u32(..6) == 0 {
                waiters.swap_remove(rng.usize(..waiters.len()));
            }
            if rng.u32(..3) == 0 {
                stage.pass(ms(1), &mut waiters);
            }
            waiters.retain(|waiter| !waiter.is_over() || waiter.is_done());
        }
        held.clear();
        while !waiters.is_empty() {
            let took = stage.pass_until("a grant", secs(9), &mut waiters, |waiters| waiters.iter().any(Actor::is_done));
            assert!(took <= STEP, "seed {seed}: in after {took:?}");
            waiters.retain(|waiter| !waiter.is_done());
        }
        stage.pass(STEP, &mut waiters);
        assert!(stage.keys().iter().all(|key| key.starts_with("leasehold:1:fair:")), "{:?}", stage.keys());
        assert!(clients.iter().all(|client| client.stats() == leasehold::ClientStats::default()));
    }
}

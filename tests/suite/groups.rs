//! Locks that are made of locks: the multi lock, the quorum lock and the striped lock.

use crate::support::kinds::{AnyGuard, AnyLock};
use crate::support::world::idle;
use crate::support::{Actor, Kind, Stage, World, ms, secs, until};
use leasehold::embedded::{EmbeddedServer, Fault, FaultTarget};
use leasehold::group::{MultiGuard, QuorumGuard};
use leasehold::{Client, ClientBuilder, Error, Fallback, HoldEnd, InvalidInput, MultiLock, QuorumLock, WithError};
use leasehold_core::link::ServerError;
use std::future::pending;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub(crate) async fn m1_m2_busy_member_leaves_none_held_and_one_wait_is_for_all(world: World) {
    let (client, other) = (world.client().await, world.client().await);
    let (a, b, c) = (world.name("a"), world.name("b"), world.name("c"));
    let (d, e) = (world.name("d"), world.name("e"));
    let multi = client.multi_lock([client.lock(&a), client.lock(&b), client.lock(&c)]);
    let held = other.lock(&b).acquire().await.expect("the lock");
    assert!(multi.try_acquire().await.expect("an answer").is_none());
    assert!(!world.exists(&a) && !world.exists(&c), "all or nothing");
    // M2: the wait is that of the whole, and not of each member.
    let begun = Instant::now();
    let error = multi.acquire().wait(ms(150)).await.expect_err("a busy member");
    assert!(matches!(error, Error::WaitElapsed { .. }), "{error}");
    assert!(begun.elapsed() >= ms(150), "{:?}", begun.elapsed());
    assert!(!world.exists(&a) && !world.exists(&c));
    // While it waits for one, the others are free.
    let waiting = tokio::spawn({
        let multi = multi.clone();
        async move { multi.acquire().await }
    });
    until("it waits", || world.subscribers(&b) == 1).await;
    other.lock(&a).acquire().wait(secs(5)).await.expect("a free member").release().await.expect("a release");
    held.release().await.expect("a release");
    let guard = waiting.await.expect("a task").expect("all members");
    assert!(world.count(&a) == 1 && world.count(&b) == 1 && world.count(&c) == 1);
    world.delete(&b);
    let lost = other.lock(&b).try_acquire().await.expect("an answer").expect("a free member");
    let error = guard.release().await.expect_err("a member was lost");
    assert!(matches!(error, Error::Lost { .. }), "{error}");
    assert!(!world.exists(&a) && !world.exists(&c), "what was left is released");
    lost.release().await.expect("a release");
    let halves = client.read_write_lock(&c);
    let mixed = MultiLock::new([
        leasehold::AnyLock::from(client.lock(&a)),
        client.fenced_lock(&b).into(),
        halves.read().into(),
        client.spin_lock(&d).into(),
        client.simple_lock(&e, secs(30)).into(),
    ]);
    let busy = other.simple_lock(&e, secs(30)).acquire().await.expect("a free member");
    assert!(mixed.try_acquire().await.expect("an answer").is_none() && !world.exists(&d));
    busy.release().await.expect("a release");
    let guard = mixed.acquire().await.expect("members of several kinds");
    halves.read().try_acquire().await.expect("an answer").expect("readers beside").release().await.expect("a release");
    guard.release().await.expect("a release");
    idle(&client).await;
    assert!(!world.exists(&a) && !world.exists(&b) && !world.exists(&c));
}

pub(crate) async fn fair_lock_is_a_member_of_a_group(world: World) {
    let (client, other) = (world.client().await, world.client().await);
    let (a, b, c) = (world.name("a"), world.name("b"), world.name("c"));
    let fenced = client.fair_lock(&c).fenced();
    let multi = MultiLock::new([leasehold::AnyLock::from(client.lock(&a)), client.fair_lock(&b).into(), fenced.into()]);
    let held = other.fair_lock(&b).acquire().await.expect("the lock");
    assert!(multi.try_acquire().await.expect("an answer").is_none());
    let error = multi.acquire().wait(ms(150)).await.expect_err("a busy member");
    assert!(matches!(error, Error::WaitElapsed { .. }), "{error}");
    assert!(!world.exists(&a) && !world.exists(&c), "all or nothing");
    let queue = other.fair_lock(&b).inspect().await.expect("an answer");
    assert_eq!(queue.waiters, [], "the place in the queue is given up");
    let (guard, released) = tokio::join!(multi.acquire().into_future(), held.release());
    released.expect("a release");
    let guard = guard.expect("all members");
    assert!(other.fair_lock(&b).try_acquire().await.expect("an answer").is_none(), "the group holds it");
    // The next in the queue gets the fair member as soon as the group releases it.
    let waiting = tokio::spawn(other.fair_lock(&b).acquire().into_future());
    guard.release().await.expect("a release");
    waiting.await.expect("a task").expect("the lock").release().await.expect("a release");
    idle(&client).await;
    idle(&other).await;
    assert!(!world.exists(&a) && !world.exists(&b) && !world.exists(&c));
}

pub(crate) async fn work_under_a_group_ends_with_a_member_and_releases_all(world: World) {
    let client = world.client().await;
    let (a, b, c) = (world.name("a"), world.name("b"), world.name("c"));
    let multi = client.multi_lock([client.lock(&a), client.lock(&b)]).class("tests");
    let held = multi.with(async |held| held.is_held() && world.exists(&a) && world.exists(&b)).await;
    assert_eq!(held, Ok(true));
    assert!(!world.exists(&a) && !world.exists(&b));
    let work = async |_: &MultiGuard| {
        client.lock(&a).force_release().await.expect("an answer").expect("a holder");
        pending::<()>().await;
    };
    let lost = multi.acquire().wait(secs(5)).with(work).await.expect_err("a member was lost");
    assert!(matches!(lost, WithError::Lost { value: None, .. }), "{lost}");
    let quorum = QuorumLock::new([client.clone()], &c).class("tests");
    assert_eq!(quorum.with(async |held| held.servers()).await, Ok(1));
    assert_eq!(quorum.acquire().wait(secs(5)).with(async |held| held.servers()).await, Ok(1));
    idle(&client).await;
    assert!(!world.exists(&a) && !world.exists(&b) && !world.exists(&c));
    let stripe = client.striped_lock(&a, 8).class("tests").all_of(["x", "y"]);
    for member in stripe.members().iter().chain(multi.members()) {
        assert!(format!("{member:?}").contains(r#"class: "tests""#), "{member:?}");
    }
}

pub(crate) async fn members_left_of_a_lost_group_are_free_once_its_guard_ends(world: World) {
    let (client, other) = (world.client().await, world.client().await);
    let (a, b) = (world.name("a"), world.name("b"));
    let multi = client.multi_lock([client.lock(&a), client.lock(&b)]);
    for dropped in [false, true] {
        let guard = multi.acquire().await.expect("all members");
        // A client looks at once for what it releases by force itself.
        client.lock(&a).force_release().await.expect("an answer").expect("a holder");
        until("the loss is known", || !guard.is_held()).await;
        assert!(other.lock(&b).try_acquire().await.expect("an answer").is_none(), "its work may still run");
        if dropped {
            drop(guard);
        } else {
            assert!(matches!(guard.release().await, Err(Error::Lost { .. })));
        }
        let left = other.lock(&b).acquire().wait(secs(5)).await.expect("a free member");
        left.release().await.expect("a release");
    }
    idle(&client).await;
}

pub(crate) async fn m3_members_in_another_order_do_not_deadlock(world: World) {
    let (client, other) = (world.client().await, world.client().await);
    let (a, b) = (world.name("a"), world.name("b"));
    let mut tasks = Vec::new();
    for number in 0..8 {
        let client = if number % 2 == 0 { &client } else { &other };
        let members = if number < 4 { [&a, &b] } else { [&b, &a] };
        let multi = client.multi_lock(members.map(|name| client.lock(name)));
        tasks.push(tokio::spawn(async move {
            for _ in 0..5 {
                multi.acquire().wait(secs(30)).await.expect("all members").release().await.expect("a release");
            }
        }));
    }
    for task in tasks {
        task.await.expect("a task");
    }
    idle(&client).await;
    idle(&other).await;
    assert!(!world.exists(&a) && !world.exists(&b));
}

pub(crate) async fn a_multi_lock_ends_with_its_first_member(_: World) {
    let stage = Stage::new();
    let (client, other) = (stage.client(), stage.client_with(|builder| builder.lease(secs(9))));
    // Members of two clients; the second one has the shorter lease.
    let multi = MultiLock::new([client.lock("a"), other.lock("b")]);
    let acquire = |multi: &MultiLock| {
        let multi = multi.clone();
        stage.now(async move { multi.acquire().await })
    };
    let guard: MultiGuard = acquire(&multi).expect("all members");
    assert_eq!(guard.remaining(), secs(9) - ms(92));
    stage.clock.advance(secs(60));
    assert!(guard.is_held(), "every member is renewed");
    let token = guard.cancellation_token();
    stage.command(&["DEL", "b"]);
    stage.clock.advance(secs(4));
    assert!(!guard.is_held() && guard.remaining() == Duration::ZERO && token.is_cancelled());
    drop(guard);
    stage.pass(ms(10), &mut Vec::<Actor<()>>::new());
    assert!(stage.keys().is_empty());
    for (members, same) in [(vec![], false), (vec![client.lock("a"), client.lock("a")], true)] {
        let multi = MultiLock::new(members);
        let error = acquire(&multi).expect_err("no members, or one twice");
        match error {
            Error::Invalid(InvalidInput::SameMember { .. }) => assert!(same),
            Error::Invalid(InvalidInput::NoMembers) => assert!(!same),
            error => panic!("{error}"),
        }
    }
    // Two clients of one server: it would wait for itself.
    let error = acquire(&MultiLock::new([client.lock("a"), other.lock("a")])).expect_err("one lock twice");
    assert!(matches!(error, Error::Invalid(InvalidInput::SameMember { .. })), "{error}");
}

/// Two members are busy. The multi lock acquires the one that becomes free first, and then meets the other.
pub(crate) async fn a_member_is_given_back_while_another_is_busy(_: World) {
    let stage = Stage::new();
    let (client, other) = (stage.client(), stage.client());
    let acquire = |name: &str| {
        let lock = other.lock(name);
        stage.now(async move { lock.acquire().await }).expect("a free lock")
    };
    let (first, second) = (acquire("a"), acquire("b"));
    let multi = client.multi_lock(["a", "b"].map(|name| client.lock(name)));
    let mut waits = [Actor::new(async move { multi.acquire().await })];
    stage.pass(ms(100), &mut waits);
    stage.now(first.release()).expect("a release");
    stage.pass(ms(200), &mut waits);
    assert_eq!(stage.keys(), ["b"], "the multi lock holds a member while it waits for another");
    stage.now(second.release()).expect("a release");
    stage.pass_until("all members", secs(1), &mut waits, |waits| waits[0].is_done());
    stage.now(waits[0].take().expect("all members").release()).expect("a release");
    assert!(stage.keys().is_empty());
}

/// Transfers between five accounts, a millisecond away from their server. Tells how many commands they need, and how long they take.
fn transfers(clients: usize, grouped: bool) -> (u64, Duration) {
    let stage = Stage::new();
    stage.server.set_round_trip(ms(1));
    let clients: Vec<_> = (0..clients).map(|_| stage.client()).collect();
    let transfer = |number: usize| {
        let (from, to) = (number % 5, (number % 5 + 1 + number / 5 % 4) % 5);
        let locks = [from, to].map(|account| clients[number % clients.len()].lock(format!("account:{account}")));
        async move {
            if grouped {
                let both = MultiLock::new(locks).acquire().await.expect("both");
                both.release().await.expect("a release");
                return;
            }
            let mut locks = locks;
            locks.sort_by(|one, other| one.name().cmp(other.name()));
            let [first, second] = locks;
            let first = first.acquire().await.expect("the first");
            let second = second.acquire().await.expect("the second");
            second.release().await.expect("a release");
            first.release().await.expect("a release");
        }
    };
    let mut transfers: Vec<_> = (0..60).map(|number| Actor::new(transfer(number))).collect();
    let took = stage.pass_until("all transfers", secs(60), &mut transfers, |all| all.iter().all(Actor::is_done));
    (stage.server.calls("lock/acquire") + stage.server.calls("lock/release"), took)
}

pub(crate) async fn contended_multi_lock_is_as_fast_as_two_locks_in_order(_: World) {
    for clients in [1, 3] {
        let ((grouped, took), (ordered, time)) = (transfers(clients, true), transfers(clients, false));
        eprintln!("{clients} clients: {grouped} commands in {took:?}, and {ordered} in {time:?} in order");
        // A few wait for so long that they let go of what they hold.
        assert!(grouped <= ordered + ordered / 10, "{clients} clients: {grouped} commands, and {ordered} in order");
        assert!(took <= time, "{clients} clients: {took:?}, and {time:?} in order");
    }
}

pub(crate) async fn try_for_several_is_no_grant_when_a_member_is_lost(_: World) {
    let stage = Stage::new();
    let (client, other) = (stage.client_with(|builder| builder.lease(ms(600))), stage.client());
    let multi = MultiLock::new([client.lock("a"), other.lock("b")]);
    // The second member is granted only after a while, and the first one is deleted before.
    stage.server.inject(
        Fault::Refuse(ServerError::new("LOADING the data")),
        FaultTarget::always().script("lock/acquire").after(1),
    );
    let mut tried = [Actor::new(async move { multi.try_acquire().await })];
    stage.act(&mut tried);
    assert_eq!(stage.keys(), ["a"]);
    stage.command(&["DEL", "a"]);
    stage.pass(ms(600), &mut tried);
    stage.server.clear_faults();
    stage.pass_until("an answer", secs(3), &mut tried, |tried| tried[0].is_done());
    let guard = tried[0].take().expect("the server answers");
    assert!(guard.is_none(), "it does not hold all: {guard:?}");
    assert!(stage.keys().is_empty(), "nothing is left of it");
}

pub(crate) async fn stripes_are_taken_together_in_any_order(world: World) {
    let client = world.client().await;
    let striped = client.striped_lock(world.name("striped"), 16);
    let things: Vec<String> = (0..40).map(|number| format!("thing {number}")).collect();
    let guard = striped.all_of(&things[..8]).acquire().await.expect("all stripes");
    for thing in &things[..8] {
        assert!(striped.of(thing).try_acquire().await.expect("an answer").is_none(), "the stripe of {thing} is free");
    }
    guard.release().await.expect("a release");
    let mut tasks = Vec::new();
    for number in 0..6 {
        let (striped, mut things) = (striped.clone(), things.clone());
        tasks.push(tokio::spawn(async move {
            things.rotate_left(number * 5);
            striped
                .all_of(&things[..6])
                .acquire()
                .wait(secs(30))
                .await
                .expect("them")
                .release()
                .await
                .expect("a release");
        }));
    }
    for task in tasks {
        task.await.expect("a task");
    }
    idle(&client).await;
}

/// Work that comes to its end in a poll which outlives the leases was not protected to its end.
pub(crate) async fn work_that_outlives_its_group_is_lost(_: World) {
    let stage = Stage::new();
    let client = stage.client();
    let multi = client.multi_lock(["a", "b"].map(|name| client.lock(name)));
    let guard = stage.now(async move { multi.acquire().lease(secs(1)).await }).expect("all members");
    let clock = stage.clock.clone();
    let work = async move {
        clock.advance(secs(2));
        7
    };
    assert!(stage.now(async move { guard.run(work).await }).is_err());
}

/// The second server answers, to a request that is settled and sent again, when the lease on the first one is over.
pub(crate) async fn members_that_ran_out_meanwhile_are_acquired_anew(_: World) {
    let stage = Stage::new();
    let servers: Vec<EmbeddedServer> = (0..3).map(|_| EmbeddedServer::with_clock(stage.clock.clone())).collect();
    let slow = || servers[1].inject(Fault::Swallow, FaultTarget::next().script("lock/acquire"));
    let clients = process(&stage, &servers);
    slow();
    // The same name on two servers is two locks.
    let multi = MultiLock::new(clients[..2].iter().map(|client| client.lock("leader")));
    let mut actors = [Actor::new(async move { multi.acquire().lease(ms(500)).await })];
    let took = stage.pass_until("all members", secs(20), &mut actors, |actors| actors[0].is_done());
    let guard = actors[0].take().expect("all members");
    assert!(took > ms(500) && guard.is_held(), "a multi lock that was lost before it was had, after {took:?}");
    stage.now(guard.release()).expect("a release");

    servers[2].set_down(true);
    slow();
    let lock = QuorumLock::new(clients, "leader");
    let again = lock.clone();
    let mut actors = [Actor::new(async move { lock.acquire().lease(ms(500)).await })];
    let took = stage.pass_until("a quorum", secs(20), &mut actors, |actors| actors[0].is_done());
    let guard = actors[0].take().expect("a quorum");
    assert!(took > ms(500) && guard.is_held(), "a quorum that was lost before it was had, after {took:?}");
    stage.now(guard.release()).expect("a release");

    // One server of three does not speak for a majority, when it comes to a release either.
    servers[2].set_down(false);
    stage.pass(secs(3), &mut Vec::<Actor<()>>::new());
    let mut actors = [acquire(&again)];
    stage.pass_until("a quorum", secs(5), &mut actors, |actors| actors[0].is_done());
    let guard = actors[0].take().expect("a quorum");
    servers[1..].iter().for_each(|server| server.set_down(true));
    let mut actors = [Actor::new(guard.release())];
    stage.pass_until("an answer", secs(40), &mut actors, |actors| actors[0].is_done());
    let error = actors[0].take().expect_err("two servers of three are down");
    assert!(matches!(error, Error::Unreachable { .. } | Error::OutcomeUnknown { .. }), "{error}");
}

/// A process of a quorum: a client of each server.
fn process(stage: &Stage, servers: &[EmbeddedServer]) -> Vec<Client> {
    process_with(stage, servers, |builder| builder)
}

fn process_with(
    stage: &Stage,
    servers: &[EmbeddedServer],
    settings: impl Fn(ClientBuilder) -> ClientBuilder,
) -> Vec<Client> {
    let builder = || settings(Client::builder()).manual_clock(&stage.clock);
    servers.iter().map(|server| builder().embedded(server).expect("a client")).collect()
}

fn acquire(lock: &QuorumLock) -> Actor<Result<QuorumGuard, Error>> {
    let lock = lock.clone();
    Actor::new(async move { lock.acquire().await })
}

pub(crate) async fn a_quorum_is_held_without_a_minority(_: World) {
    for count in [3, 5] {
        let stage = Stage::new();
        let servers: Vec<EmbeddedServer> =
            (0..count).map(|_| EmbeddedServer::with_clock(stage.clock.clone())).collect();
        let minority = (count - 1) / 2;
        let keys = || servers.iter().map(|server| server.keys().len()).sum::<usize>();
        let clients = process(&stage, &servers);
        let lock = QuorumLock::new(clients.clone(), "leader");
        let rival = QuorumLock::new(process(&stage, &servers), "leader");
        let tries = |lock: QuorumLock| stage.now(async move { lock.try_acquire().await }).expect("an answer");
        let mut actors = [acquire(&lock)];
        let took = stage.pass_until("the lock", secs(1), &mut actors, |actors| actors[0].is_done());
        assert!(took <= ms(5));
        let guard = actors[0].take().expect("the lock");
        assert_eq!((guard.servers(), keys()), (count, count));
        assert_eq!(guard.remaining(), secs(30) - ms(302));
        assert!(tries(rival.clone()).is_none());
        // A minority may forget it, and give it to another.
        for server in &servers[..minority] {
            server.restart_empty();
        }
        assert!(tries(rival.clone()).is_none());
        stage.clock.advance(secs(25));
        assert!(tries(rival).is_none());
        assert!(guard.is_held() && guard.servers() == count - minority);
        servers[minority].restart_empty();
        stage.clock.advance(secs(25));
        assert!(!guard.is_held(), "a majority was lost");
        drop(guard);
        stage.pass(ms(20), &mut Vec::<Actor<()>>::new());
        assert_eq!(keys(), 0);

        // A minority may be down, or frozen.
        for frozen in [false, true] {
            for server in &servers[..minority] {
                if frozen { server.inject(Fault::Swallow, FaultTarget::always()) } else { server.set_down(true) }
            }
            let mut actors = [acquire(&lock)];
            let took = stage.pass_until("the lock", secs(5), &mut actors, |actors| actors[0].is_done());
            assert!(took <= ms(100), "frozen: {frozen}: in after {took:?}");
            let guard = actors[0].take().expect("the lock");
            assert_eq!(guard.servers(), count - minority);
            let mut releasing = [Actor::new(guard.release())];
            let took = stage.pass_until("the release", secs(20), &mut releasing, |actors| actors[0].is_done());
            assert!(took <= ms(100), "frozen: {frozen}: released after {took:?}");
            releasing[0].take().expect("a release");
            servers.iter().for_each(EmbeddedServer::clear_faults);
            servers.iter().for_each(|server| server.set_down(false));
            stage.pass(secs(3), &mut Vec::<Actor<()>>::new());
            assert_eq!(keys(), 0, "frozen: {frozen}");
        }

        // A server that freezes while the lock is held does not hold up its release.
        let mut actors = [acquire(&lock)];
        stage.pass_until("the lock", secs(1), &mut actors, |actors| actors[0].is_done());
        let guard = actors[0].take().expect("the lock");
        servers[0].inject(Fault::Swallow, FaultTarget::always());
        let mut releasing = [Actor::new(guard.release())];
        let took = stage.pass_until("the release", secs(40), &mut releasing, |actors| actors[0].is_done());
        assert!(took <= ms(100), "released after {took:?}");
        releasing[0].take().expect("a majority has released it");
        servers[0].clear_faults();
        stage.pass(secs(40), &mut Vec::<Actor<()>>::new());
        assert_eq!(keys(), 0);

        // Without a majority there is an error, and nothing is left.
        servers[..=minority].iter().for_each(|server| server.set_down(true));
        let mut actors = [acquire(&lock)];
        let took = stage.pass_until("an error", secs(30), &mut actors, |actors| actors[0].is_done());
        let error = actors[0].take().expect_err("two servers are down");
        assert!(matches!(error, Error::Unreachable { .. } | Error::OutcomeUnknown { .. }), "{error}");
        assert!(took <= secs(13), "{took:?}");
        servers.iter().for_each(|server| server.set_down(false));
        stage.pass(secs(3), &mut Vec::<Actor<()>>::new());
        assert_eq!(keys(), 0);
        assert!(clients.iter().all(|client| client.stats() == leasehold::ClientStats::default()));
        // Two clients of one server are no two servers.
        let twice =
            QuorumLock::new(process(&stage, &[servers[0].clone(), servers[0].clone(), servers[1].clone()]), "x");
        let error = stage.now(async move { twice.acquire().await }).expect_err("one server twice");
        assert!(matches!(error, Error::Invalid(InvalidInput::SameServer { .. })), "{error}");
    }
}

pub(crate) async fn a_quorum_counts_the_servers_and_not_the_clients(_: World) {
    let stage = Stage::new();
    let servers: Vec<EmbeddedServer> = (0..5).map(|_| EmbeddedServer::with_clock(stage.clock.clone())).collect();
    let all = QuorumLock::new(process(&stage, &servers), "leader");
    let some = QuorumLock::of(5, process(&stage, &servers[..3]), "leader");
    assert_eq!((all.quorum(), some.quorum()), (3, 3));
    let tries = |lock: &QuorumLock| {
        let lock = lock.clone();
        stage.now(async move { lock.try_acquire().await }).expect("an answer")
    };
    // Two servers are down while the one gets its majority, and these two are of the three that the other knows.
    servers[..2].iter().for_each(|server| server.set_down(true));
    let mut actors = [acquire(&all)];
    stage.pass_until("the lock", secs(5), &mut actors, |actors| actors[0].is_done());
    let guard = actors[0].take().expect("the lock");
    assert_eq!(guard.servers(), 3);
    servers[..2].iter().for_each(|server| server.set_down(false));
    assert!(tries(&some).is_none(), "two holders at once");
    assert!(guard.is_held());
    stage.now(guard.release()).expect("a release");
    stage.pass(ms(20), &mut Vec::<Actor<()>>::new());
    // It needs each of its three.
    let guard = tries(&some).expect("a free lock");
    assert_eq!(guard.servers(), 3);
    assert!(tries(&all).is_none());
    servers[0].restart_empty();
    stage.pass(secs(20), &mut Vec::<Actor<()>>::new());
    assert!(!guard.is_held(), "two of five servers are no majority");
    drop(guard);
    stage.pass(ms(20), &mut Vec::<Actor<()>>::new());
    assert!(servers.iter().all(|server| server.keys().is_empty()));
    for (count, clients) in [(5, 2), (2, 3), (4, 2), (0, 1)] {
        let wrong = QuorumLock::of(count, process(&stage, &servers[..clients]), "leader");
        let error = stage.now(async move { wrong.acquire().await }).expect_err("no majority");
        let Error::Invalid(InvalidInput::NoMajority { servers, clients: given, .. }) = error else { panic!("{error}") };
        assert_eq!((servers, given), (count, clients));
    }
}

/// One server of three says at once that another has the lock; the other two grant it, a little later.
pub(crate) async fn a_quorum_waits_for_the_answers_that_can_make_it_whole(_: World) {
    let stage = Stage::new();
    let servers: Vec<EmbeddedServer> = (0..3).map(|_| EmbeddedServer::with_clock(stage.clock.clone())).collect();
    let rival = process(&stage, &servers[..1]).remove(0).lock("leader");
    let in_the_way = stage.now(async move { rival.acquire().await }).expect("the lock of one server");
    let lock = QuorumLock::new(process(&stage, &servers), "leader");
    // Settled and sent again, these two answer after the first one.
    servers[1..]
        .iter()
        .for_each(|server| server.inject(Fault::LoseRequest, FaultTarget::next().script("lock/acquire")));
    let mut tries = [Actor::new(async move { lock.try_acquire().await })];
    stage.pass_until("an answer", secs(5), &mut tries, |tries| tries[0].is_done());
    let guard = tries[0].take().expect("an answer").expect("two of three servers grant it");
    assert_eq!(guard.servers(), 2);
    stage.now(guard.release()).expect("a release");
    stage.now(in_the_way.release()).expect("a release");
    stage.pass(ms(20), &mut Vec::<Actor<()>>::new());
    assert!(servers.iter().all(|server| server.keys().is_empty()));
}

pub(crate) async fn quorum_holder_without_a_minority_sleeps_until_its_loss(_: World) {
    let stage = Stage::new();
    let servers: Vec<EmbeddedServer> = (0..3).map(|_| EmbeddedServer::with_clock(stage.clock.clone())).collect();
    let lock = QuorumLock::new(process(&stage, &servers), "leader");
    let guard = Arc::new(stage.now(async move { lock.acquire().await }).expect("the lock"));
    let (waits, works, token) = (guard.clone(), guard.clone(), guard.cancellation_token());
    let mut told: [Actor<()>; 3] = [
        Actor::new(async move { drop(waits.lost().await) }),
        Actor::new(async move { drop(works.run(pending::<()>()).await) }),
        Actor::new(async move { assert!(matches!(token.cancelled().await, HoldEnd::Lost(_))) }),
    ];
    stage.act(&mut told);
    servers[0].restart_empty();
    // A task that is woken again and again does not get through this.
    stage.pass(secs(1), &mut told);
    assert!(guard.is_held() && guard.servers() == 2 && told.iter().all(|told| !told.is_done()));
    servers[1].restart_empty();
    stage.pass(ms(10), &mut told);
    assert!(!guard.is_held() && told.iter().all(Actor::is_done), "all are told");
}

pub(crate) async fn rivals_for_a_quorum_all_get_it(_: World) {
    let stage = Stage::new();
    let servers: Vec<EmbeddedServer> = (0..3).map(|_| EmbeddedServer::with_clock(stage.clock.clone())).collect();
    let locks: Vec<QuorumLock> = (0..4).map(|_| QuorumLock::new(process(&stage, &servers), "leader")).collect();
    let mut times = [0; 4];
    let mut rivals: Vec<_> = locks.iter().map(acquire).collect();
    let mut rounds = 0;
    // A task that has waited for long pauses for longer, and all pauses are random: sooner or later each has luck.
    while rounds < 60 || times.contains(&0) && rounds < 1_000 {
        rounds += 1;
        stage.pass_until("a leader", secs(20), &mut rivals, |rivals| rivals.iter().any(Actor::is_done));
        let leaders: Vec<usize> = (0..4).filter(|index| rivals[*index].is_done()).collect();
        assert_eq!(leaders.len(), 1, "two holders at once");
        let guard = rivals[leaders[0]].take().expect("the lock");
        times[leaders[0]] += 1;
        stage.pass(ms(20), &mut rivals);
        assert!(guard.is_held() && rivals.iter().all(|rival| !rival.is_done()), "two holders");
        stage.now(guard.release()).expect("a release");
        // A task that has had it does something else for a while.
        stage.pass(ms(50), &mut rivals);
        rivals[leaders[0]] = acquire(&locks[leaders[0]]);
    }
    assert!(times.iter().all(|times| *times > 0), "nobody starves: {times:?}");
    drop(rivals);
    stage.pass(secs(1), &mut Vec::<Actor<()>>::new());
    assert!(servers.iter().all(|server| server.keys().is_empty()));
}

/// Requests and replies are lost, and futures and guards are dropped. No server loses data, so two rivals never hold the lock at once.
pub(crate) async fn rivals_exclude_each_other_whatever_is_lost(_: World) {
    let faults = [Fault::LoseRequest, Fault::LoseReply, Fault::Swallow, Fault::Duplicate];
    for seed in 0..30 {
        let kind = [Kind::Multi, Kind::Striped, Kind::Quorum][seed % 3];
        let mut rng = fastrand::Rng::with_seed(seed as u64);
        let stage = Stage::of(kind);
        let servers: Vec<EmbeddedServer> = stage.servers().cloned().collect();
        let locks: Vec<AnyLock> = (0..3).flat_map(|_| kind.locks(&stage.process(), "rivals")).collect();
        let mut rivals: Vec<Actor<Option<AnyGuard>>> = Vec::new();
        let mut held: Vec<AnyGuard> = Vec::new();
        let mut grants = 0;
        let mut rounds = 0;
        // The first rounds have faults. The rest end once every rival that is left has had the lock.
        while rounds < 150 || !rivals.is_empty() {
            rounds += 1;
            if rounds < 150 {
                if rng.u8(..3) == 0 {
                    servers[rng.usize(..servers.len())]
                        .inject(faults[rng.usize(..faults.len())].clone(), FaultTarget::next());
                }
                if rivals.len() < 6 {
                    let acquiring = locks[rng.usize(..locks.len())].acquire();
                    rivals.push(Actor::new(async move { acquiring.await.ok() }));
                }
                if rng.u8(..4) == 0 {
                    drop(rivals.swap_remove(rng.usize(..rivals.len())));
                }
            } else {
                servers.iter().for_each(EmbeddedServer::clear_faults);
                assert!(rounds < 3_000, "{kind:?}, seed {seed}: a rival waits for ever");
            }
            stage.pass(ms(rng.u64(1..60)), &mut rivals);
            let (done, waiting): (Vec<_>, Vec<_>) = rivals.into_iter().partition(Actor::is_done);
            rivals = waiting;
            held.extend(done.into_iter().filter_map(|mut rival| rival.take()));
            let holders = held.iter().filter(|guard| guard.is_held()).count();
            assert!(holders <= 1, "{kind:?}, seed {seed}: {holders} holders at once");
            if !held.is_empty() && (rounds >= 150 || rng.bool()) {
                grants += 1;
                let guard = held.remove(0);
                if rng.bool() {
                    rivals.push(Actor::new(async move {
                        drop(guard.release().await);
                        None
                    }));
                }
            }
        }
        assert!(grants > 10, "{kind:?}, seed {seed}: the lock was granted {grants} times");
        drop(held);
        stage.clock.advance(secs(60));
        let left = stage.leftovers(kind);
        assert!(left.is_empty(), "{kind:?}, seed {seed}: {left:?}");
    }
}

/// The settings of a client whose locks do without the server as soon as that is out of reach.
fn falls_back(fallback: Fallback) -> impl Fn(ClientBuilder) -> ClientBuilder {
    move |builder| builder.fallback(fallback).unreachable_after(ms(300)).command_timeout(ms(100))
}

/// Takes a plain lock, which falls back: from then on a try of the client does so at once.
fn falls_back_now(stage: &Stage, client: &Client) {
    let plain = client.lock("plain");
    let mut actors = [Actor::new(async move { plain.acquire().await })];
    stage.pass_until("a fallback", secs(5), &mut actors, |actors| actors[0].is_done());
    assert!(actors[0].take().expect("a guard").is_degraded());
}

pub(crate) async fn quorum_locks_count_granted_servers_only(_: World) {
    for fallback in [Fallback::Local, Fallback::PassThrough] {
        let stage = Stage::new();
        let servers: Vec<EmbeddedServer> = (0..3).map(|_| EmbeddedServer::with_clock(stage.clock.clone())).collect();
        let clients = process_with(&stage, &servers, falls_back(fallback));
        servers[1..].iter().for_each(|server| server.set_down(true));
        clients[1..].iter().for_each(|client| falls_back_now(&stage, client));
        let lock = QuorumLock::new(clients, "leader");
        let tried = lock.clone();
        let mut tries = [Actor::new(async move { tried.try_acquire().await })];
        stage.pass_until("an answer", secs(5), &mut tries, |tries| tries[0].is_done());
        let error = tries[0].take().expect_err("two of three servers are down");
        assert!(matches!(error, Error::Unreachable { .. }), "{fallback:?}: {error}");
        let mut waits = [acquire(&lock)];
        stage.pass_until("an answer", secs(5), &mut waits, |waits| waits[0].is_done());
        let error = waits[0].take().expect_err("two of three servers are down");
        assert!(matches!(error, Error::Unreachable { .. }), "{fallback:?}: {error}");
    }
}

pub(crate) async fn members_of_a_multi_lock_are_granted_by_their_servers(_: World) {
    for fallback in [Fallback::Local, Fallback::PassThrough] {
        let stage = Stage::new();
        let client = stage.client_with(falls_back(fallback));
        stage.server.set_down(true);
        falls_back_now(&stage, &client);
        let halves = client.read_write_lock("book");
        let of_one = |member: leasehold::AnyLock| MultiLock::new([member]);
        let groups = [
            client.multi_lock([client.lock("a"), client.lock("b")]),
            of_one(client.lock("a").into()),
            // A member that no conversion has seen.
            of_one(leasehold::AnyLock::from(client.lock("a").fallback(fallback))),
            of_one(leasehold::AnyLock::from(halves.read().fallback(fallback))),
            of_one(leasehold::AnyLock::from(halves.write().fallback(fallback))),
            client.striped_lock("striped", 4).all_of(["one", "other"]),
        ];
        for multi in groups {
            let mut tries = [Actor::new(async move { multi.try_acquire().await })];
            stage.pass_until("an answer", secs(5), &mut tries, |tries| tries[0].is_done());
            let error = tries[0].take().expect_err("the server is down");
            assert!(matches!(error, Error::Unreachable { .. }), "{fallback:?}: {error}");
        }
    }
}

pub(crate) async fn owner_that_holds_without_the_server_is_no_member(_: World) {
    for fallback in [Fallback::Local, Fallback::PassThrough] {
        let stage = Stage::new();
        let client = stage.client_with(falls_back(fallback));
        stage.server.set_down(true);
        falls_back_now(&stage, &client);
        let (owner, lock) = (client.new_owner(), client.lock("a"));
        let by_owner = lock.acquire().owner(&owner);
        let mut actors = [Actor::new(by_owner.into_future())];
        stage.pass_until("a fallback", secs(5), &mut actors, |actors| actors[0].is_done());
        let outer = actors[0].take().expect("a guard");
        assert!(outer.is_degraded());
        // The lock itself may be entered again, and says what it is.
        let reenters = lock.acquire().owner(&owner);
        let inner = stage.now(reenters.into_future()).expect("a re-entry");
        assert!(inner.is_degraded());
        let multi = client.multi_lock([lock.clone()]);
        let error = stage.now(async move { multi.acquire().owner(&owner).await }).expect_err("no server granted it");
        assert!(matches!(error, Error::Unreachable { .. }), "{fallback:?}: {error}");
        assert!(outer.is_held() && inner.is_held());
    }
}

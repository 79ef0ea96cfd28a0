//! What clients say of the locks that they hold and wait for, and the deadlocks that follow from it.

use crate::support::world::idle;
use crate::support::{World, ms, secs};
use leasehold::embedded::{EmbeddedServer, ManualClock};
use leasehold::inspect::{AnnouncedLock, Deadlock};
use leasehold::{Client, Error, Guard, Owner};
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;

/// How long a deadlock may take to be found.
const WITHIN: Duration = Duration::from_secs(5);

/// The deadlocks that have one of these locks in them: other tests use the same server.
async fn deadlocks(operator: &Client, locks: &[String]) -> Vec<Deadlock> {
    let all = operator.deadlocks().await.expect("an answer");
    assert_eq!(all.unseen, [], "every lock may be looked at");
    all.found.into_iter().filter(|deadlock| deadlock.waits.iter().any(|wait| locks.contains(&wait.key))).collect()
}

/// Asks until there is a deadlock. Gives how long that took.
async fn found(operator: &Client, locks: &[String]) -> (Deadlock, Duration) {
    let begun = Instant::now();
    loop {
        if let Some(found) = deadlocks(operator, locks).await.pop() {
            return (found, begun.elapsed());
        }
        assert!(begun.elapsed() < secs(20), "there is a deadlock of {locks:?}");
        tokio::time::sleep(ms(20)).await;
    }
}

/// An owner that holds a lock.
async fn holds(client: &Client, lock: &str) -> (Owner, Guard) {
    let (owner, lock) = (client.new_owner(), client.lock(lock));
    let guard = owner.scope(async { lock.acquire().await.expect("the lock") }).await;
    (owner, guard)
}

/// A task that waits for another lock beside the one that it holds, until it has both or is stopped.
fn waits((owner, guard): (Owner, Guard), client: &Client, wanted: &str) -> JoinHandle<()> {
    let wanted = client.lock(wanted);
    tokio::spawn(async move {
        let waited = owner.scope(async { wanted.acquire().wait(secs(60)).await }).await;
        drop((guard, waited));
    })
}

/// Waits until a client says something of its locks.
async fn says(operator: &Client, client: &Client, wanted: impl Fn(&[AnnouncedLock]) -> bool) -> Vec<AnnouncedLock> {
    let end = Instant::now() + secs(20);
    loop {
        let locks = operator.locks_of(client.id()).await.expect("an answer");
        if wanted(&locks) {
            return locks;
        }
        assert!(Instant::now() < end, "{locks:?}");
        tokio::time::sleep(ms(20)).await;
    }
}

pub(crate) async fn two_three_and_five_clients_in_a_circle_are_found(world: World) {
    let operator = world.client().await;
    for length in [2, 3, 5] {
        let locks: Vec<String> = (0..length).map(|at| world.name(&format!("circle:{length}:{at}"))).collect();
        let mut clients = Vec::new();
        for at in 0..length {
            clients.push(world.client_with(|builder| builder.announce(format!("app-{at}"))).await);
        }
        let mut holders = Vec::new();
        for (client, lock) in clients.iter().zip(&locks) {
            holders.push(holds(client, lock).await);
        }
        let wanted = locks.iter().cycle().skip(1);
        let tasks: Vec<_> = holders
            .into_iter()
            .zip(&clients)
            .zip(wanted)
            .map(|((held, client), lock)| waits(held, client, lock))
            .collect();
        let (deadlock, took) = found(&operator, &locks).await;
        assert!(took < WITHIN, "{length}: {took:?}");
        assert_eq!(deadlock.waits.len(), length, "{deadlock}");
        for (at, wait) in deadlock.waits.iter().enumerate() {
            let of = clients.iter().position(|client| client.id() == wait.client).expect("one of the clients");
            assert_eq!((wait.application.clone(), wait.pid), (format!("app-{of}"), std::process::id()));
            assert_eq!(wait.key, locks[(of + 1) % length]);
            let next = &deadlock.waits[(at + 1) % length];
            assert!(wait.holder.is_of(&next.client), "each waits for the next one: {deadlock}");
        }
        assert!(deadlock.to_string().contains("app-0"), "{deadlock}");
        tasks.iter().for_each(JoinHandle::abort);
        for (task, client) in tasks.into_iter().zip(clients) {
            let _ = task.await;
            client.shutdown(secs(10)).await.expect("nothing is left");
        }
        assert_eq!(deadlocks(&operator, &locks).await, []);
    }
}

pub(crate) async fn scope_that_waits_for_the_one_around_it_is_found(world: World) {
    let client = world.client_with(|builder| builder.announce("orders")).await;
    let name = world.name("stock");
    let (outer, inner): (Owner, Owner) = (client.new_owner(), client.new_owner());
    let task = tokio::spawn({
        let lock = client.lock(&name);
        async move {
            outer
                .scope(async {
                    let guard = lock.acquire().await.expect("the lock");
                    let waited = inner.scope(async { lock.acquire().wait(secs(60)).await }).await;
                    drop((guard, waited));
                })
                .await;
        }
    });
    let (deadlock, took) = found(&client, std::slice::from_ref(&name)).await;
    assert!(took < WITHIN, "{took:?}");
    assert_eq!((deadlock.waits.len(), deadlock.waits[0].key.as_str()), (1, name.as_str()));
    task.abort();
    let _ = task.await;
    idle(&client).await;
}

pub(crate) async fn waits_that_end_are_no_deadlock(world: World) {
    let (one, other) = (
        world.client_with(|builder| builder.announce("one")).await,
        world.client_with(|builder| builder.announce("other")).await,
    );
    let locks = [world.name("a"), world.name("b")];
    // Both take the locks in one order, so there is a way out.
    waits(holds(&one, &locks[0]).await, &one, &locks[1]).await.expect("a task");
    let guard = other.lock(&locks[1]).acquire().await.expect("the lock");
    let first = waits(holds(&one, &locks[0]).await, &one, &locks[1]);
    let second = tokio::spawn({
        let (owner, lock) = (other.new_owner(), other.lock(&locks[0]));
        async move { owner.scope(async { lock.acquire().wait(secs(60)).await }).await.map(drop) }
    });
    says(&one, &one, |locks| locks.len() == 2).await;
    says(&one, &other, |locks| locks.len() == 2).await;
    // The client waits, and another owner of it holds what is waited for.
    assert_eq!(deadlocks(&one, &locks).await, []);
    guard.release().await.expect("a release");
    first.await.expect("a task");
    assert_eq!(second.await.expect("a task"), Ok::<(), Error>(()));
    idle(&one).await;
    idle(&other).await;
}

pub(crate) async fn client_says_what_it_holds_and_waits_for(world: World) {
    let (quiet, named) = (world.client().await, world.client_with(|builder| builder.announce("orders")).await);
    let (held, wanted) = (world.name("held"), world.name("wanted"));
    let other = quiet.lock(&wanted).acquire().await.expect("the lock");
    let guard = named.lock(&held).acquire().await.expect("the lock");
    let waiting = tokio::spawn({
        let lock = named.lock(&wanted);
        async move { lock.acquire().await }
    });
    let locks = says(&quiet, &named, |locks| locks.len() == 2).await;
    let told: Vec<_> = locks.iter().map(|lock| (lock.key.as_str(), lock.holder.clone())).collect();
    assert_eq!(told, [(wanted.as_str(), None), (held.as_str(), Some(guard.holder_id()))], "waits come first");
    assert!(locks.iter().all(|lock| lock.lasted >= secs(1)), "{locks:?}");
    assert_eq!(quiet.locks_of(quiet.id()).await.expect("an answer"), [], "it announces nothing");
    other.release().await.expect("a release");
    let second = waiting.await.expect("a task").expect("the lock");
    says(&quiet, &named, |locks| locks.iter().all(|lock| lock.holder.is_some()) && locks.len() == 2).await;
    guard.release().await.expect("a release");
    second.release().await.expect("a release");
    says(&quiet, &named, <[_]>::is_empty).await;
    idle(&named).await;
}

pub(crate) async fn record_is_written_at_most_once_a_second(_: World) {
    let clock = ManualClock::new();
    let server = EmbeddedServer::with_clock(clock.clone());
    let client = Client::builder().announce("orders").manual_clock(&clock).embedded(&server).expect("a client");
    let written = || server.calls(leasehold_core::script::RECORD_PUT.name());
    clock.advance(secs(1));
    let before = written();
    // Short holds are not worth a word.
    for _ in 0..100 {
        let guard = client.lock("stock").acquire().await.expect("the lock");
        clock.advance(ms(90));
        guard.release().await.expect("a release");
    }
    assert_eq!(written(), before);
    // Locks that come and go one after the other for two seconds each.
    let mut guards = std::collections::VecDeque::new();
    for number in 0..100 {
        guards.push_back(client.lock(format!("stock:{number}")).acquire().await.expect("the lock"));
        clock.advance(ms(100));
        if guards.len() > 20 {
            guards.pop_front().expect("a guard").release().await.expect("a release");
        }
    }
    let often = written() - before;
    assert!((8..=11).contains(&often), "{often} in ten seconds");
    // A thousand locks are held, and the record is bounded.
    for number in 0..1_000 {
        guards.push_back(client.lock(format!("many:{number}")).acquire().await.expect("the lock"));
    }
    clock.advance(secs(3));
    assert_eq!(client.locks_of(client.id()).await.expect("an answer").len(), 64);
}

pub(crate) async fn deadlock_of_a_client_with_many_older_holds_is_found(world: World) {
    let operator = world.client().await;
    let [one, other] = [
        world.client_with(|builder| builder.announce("one")).await,
        world.client_with(|builder| builder.announce("other")).await,
    ];
    // More than a record has room for.
    let mut older = Vec::new();
    for number in 0..80 {
        older.push(one.lock(world.name(&format!("older:{number}"))).acquire().await.expect("the lock"));
    }
    let locks = [world.name("a"), world.name("b")];
    let (first, second) = (holds(&one, &locks[0]).await, holds(&other, &locks[1]).await);
    let (first, second) = (waits(first, &one, &locks[1]), waits(second, &other, &locks[0]));
    assert_eq!(found(&operator, &locks).await.0.waits.len(), 2);
    for task in [first, second] {
        task.abort();
        let _ = task.await;
    }
    drop(older);
    idle(&one).await;
    idle(&other).await;
}

pub(crate) async fn circle_over_a_reader_a_fair_and_a_fenced_lock_is_found(world: World) {
    let operator = world.client().await;
    let locks = ["book", "queue", "ledger"].map(|name| world.name(name));
    let [reader, queued, fenced] = [
        world.client_with(|builder| builder.announce("reader")).await,
        world.client_with(|builder| builder.announce("queued")).await,
        world.client_with(|builder| builder.announce("fenced")).await,
    ];
    let owners = [&reader, &queued, &fenced].map(Client::new_owner);
    let read =
        owners[0].scope(async { reader.read_write_lock(&locks[0]).read().acquire().await.expect("a lock") }).await;
    let place = owners[1].scope(async { queued.fair_lock(&locks[1]).acquire().await.expect("a lock") }).await;
    let token = owners[2].scope(async { fenced.fenced_lock(&locks[2]).acquire().await.expect("a lock") }).await;
    let [one, two, three] = owners;
    let wanted = reader.fair_lock(&locks[1]);
    let first = tokio::spawn(async move { one.scope(async { wanted.acquire().wait(secs(60)).await.map(drop) }).await });
    let wanted = queued.fenced_lock(&locks[2]);
    let second =
        tokio::spawn(async move { two.scope(async { wanted.acquire().wait(secs(60)).await.map(drop) }).await });
    let wanted = fenced.read_write_lock(&locks[0]).write();
    let third =
        tokio::spawn(async move { three.scope(async { wanted.acquire().wait(secs(60)).await.map(drop) }).await });
    let (deadlock, _) = found(&operator, &locks).await;
    assert_eq!(deadlock.waits.len(), 3, "{deadlock}");
    // One of them gives up what it holds, and all go on.
    read.release().await.expect("a release");
    third.await.expect("a task").expect("the write half");
    token.release().await.expect("a release");
    second.await.expect("a task").expect("the fenced lock");
    place.release().await.expect("a release");
    first.await.expect("a task").expect("the fair lock");
    assert_eq!(deadlocks(&operator, &locks).await, []);
}

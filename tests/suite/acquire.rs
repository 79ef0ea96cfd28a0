//! Locks that several may hold at once: what one client asks for at the same time, it gets at the same time.

use crate::support::{World, ms, secs};
use futures_util::future::join_all;
use leasehold::embedded::{EmbeddedServer, ServerClock};
use leasehold::kind::LockKind;
use leasehold::{Client, Lock};
use std::time::Duration;
use tokio::time::Instant;

/// How many.
const ALL: usize = 10;

/// As many tries as there is room for, at once.
async fn all_try<K: LockKind>(what: &str, lock: &Lock<K>) {
    let tries = join_all((0..ALL).map(|_| lock.try_acquire())).await;
    let guards: Vec<_> = tries.into_iter().filter_map(|guard| guard.expect("an answer")).collect();
    assert_eq!(guards.len(), ALL, "{what}: there is room for all");
    for released in join_all(guards.into_iter().map(|guard| guard.release())).await {
        released.expect("a release");
    }
}

pub(crate) async fn ten_tries_at_once_get_in_where_there_is_room_for_ten(world: World) {
    let client = world.client().await;
    let seats = client.bare_semaphore(world.name("seats"));
    seats.try_set_permits(u32::try_from(ALL).expect("a few")).await.expect("an answer");
    let permits = client.semaphore(world.name("permits"));
    permits.try_set_permits(u32::try_from(ALL).expect("a few")).await.expect("an answer");
    let readers = client.read_write_lock(world.name("book")).read();
    for _ in 0..3 {
        all_try("bare semaphore", &seats).await;
        all_try("semaphore", &permits).await;
        all_try("read half", &readers).await;
    }
}

pub(crate) async fn as_many_concurrent_tries_get_in_as_there_is_room_for(world: World) {
    let client = world.client().await;
    let seats = client.semaphore(world.name("permits"));
    seats.try_set_permits(3).await.expect("an answer");
    let tries = join_all((0..ALL).map(|_| seats.try_acquire())).await;
    let got = tries.iter().filter(|guard| guard.as_ref().expect("an answer").is_some()).count();
    assert_eq!(got, 3);
    drop(tries);
    // Waiters get in one behind the other, and the last of them leaves nothing.
    let all = join_all((0..2 * ALL).map(|_| async { seats.acquire().await?.release().await })).await;
    assert!(all.into_iter().all(|done| done.is_ok()));
    crate::support::world::idle(&client).await;
}

/// How long a reply takes where that is counted. tokio's clock knows whole milliseconds.
const ROUND_TRIP: Duration = ms(6);

/// On an engine whose replies take time, by tokio's paused clock: it goes on when nothing is left to do, however busy the machine is.
fn in_paused_time(test: impl AsyncFnOnce(Client)) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
    runtime.expect("a runtime").block_on(async {
        let zero = Instant::now();
        let server = EmbeddedServer::with_clock(ServerClock::tokio(zero));
        server.set_round_trip(ROUND_TRIP);
        let client = Client::builder().tokio_clock(zero).embedded(&server).expect("a client");
        test(client.clone()).await;
        client.shutdown(secs(5)).await.expect("nothing is left");
        assert_eq!(server.subscriptions(), 0);
    });
}

pub(crate) fn tries_of_shared_locks_take_one_round_trip_together() {
    in_paused_time(async |client| {
        let seats = client.bare_semaphore("seats");
        seats.try_set_permits(u32::try_from(ALL).expect("a few")).await.expect("an answer");
        let permits = client.semaphore("permits");
        permits.try_set_permits(u32::try_from(ALL).expect("a few")).await.expect("an answer");
        // The rest that the number left to be cleaned up is out of the way.
        let first = seats.try_acquire().await.expect("an answer").expect("a permit");
        first.release().await.expect("a release");
        let begun = Instant::now();
        let tries = join_all((0..ALL).map(|_| seats.try_acquire())).await;
        assert_eq!(begun.elapsed(), ROUND_TRIP);
        assert!(tries.iter().all(|guard| guard.as_ref().is_ok_and(Option::is_some)), "there is room for all");
        drop(tries);
        all_try("semaphore", &permits).await;
        all_try("read half", &client.read_write_lock("book").read()).await;
    });
}

/// As many readers as there are, all at once, each with so much time; how long all of them took.
async fn readers_get_in(client: &Client, wait: Duration) -> Duration {
    let book = client.read_write_lock("book").read();
    let begun = Instant::now();
    let guards = join_all((0..100).map(|_| book.acquire().wait(wait).into_future())).await;
    let took = begun.elapsed();
    let refused = guards.iter().filter(|guard| guard.is_err()).count();
    assert_eq!(refused, 0, "nobody has locked it");
    drop(guards);
    took
}

pub(crate) fn a_hundred_readers_get_in_within_a_few_round_trips() {
    in_paused_time(async |client| {
        let took = readers_get_in(&client, ms(100)).await;
        // The first asks, and each grant lets more ask beside it: 1, 2, 4 and so on.
        assert!(took <= 10 * ROUND_TRIP, "{took:?}");
    });
}

pub(crate) fn every_reader_whose_wait_ends_makes_a_last_attempt() {
    in_paused_time(async |client| {
        let took = readers_get_in(&client, ms(12)).await;
        assert!(took <= ms(12) + ROUND_TRIP, "{took:?}");
    });
}

/// The time of a grant where many tasks of one client take a fair lock in turn.
async fn time_of_a_grant(client: &Client) -> Duration {
    const ROUNDS: usize = 5;
    let lock = client.fair_lock("till");
    let held = lock.acquire().await.expect("the lock");
    let tasks = (0..ALL).map(|_| lock.clone()).map(|lock| async move {
        for _ in 0..ROUNDS {
            lock.acquire().await?.release().await?;
        }
        Ok::<_, leasehold::Error>(Instant::now())
    });
    let first_release = async {
        // Until then everybody stands in the queue, and listens.
        tokio::time::sleep(4 * ROUND_TRIP).await;
        let begun = Instant::now();
        held.release().await.expect("a release");
        begun
    };
    let (begun, ended) = tokio::join!(first_release, join_all(tasks));
    let last = ended.into_iter().map(|ended| ended.expect("each has it in turn")).max().expect("a task");
    last.duration_since(begun) / u32::try_from(ROUNDS * ALL).expect("a few")
}

pub(crate) fn next_in_a_fair_queue_has_the_lock_after_one_round_trip() {
    in_paused_time(async |client| {
        let took = time_of_a_grant(&client).await;
        assert!(took <= ROUND_TRIP * 11 / 10, "{took:?}");
    });
}

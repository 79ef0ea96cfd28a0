//! Locks that several may hold at once: what one client asks for at the same time, it gets at the same time.

use crate::support::World;
use futures_util::future::join_all;
use leasehold::Lock;
use leasehold::kind::LockKind;

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
    let seats = client.semaphore(world.name("seats"));
    seats.try_set_permits(u32::try_from(ALL).expect("a few")).await.expect("an answer");
    let permits = client.permit_semaphore(world.name("permits"));
    permits.try_set_permits(u32::try_from(ALL).expect("a few")).await.expect("an answer");
    let readers = client.read_write_lock(world.name("book")).read();
    for _ in 0..3 {
        all_try("semaphore", &seats).await;
        all_try("permit semaphore", &permits).await;
        all_try("read half", &readers).await;
    }
}

pub(crate) async fn of_more_tries_at_once_than_there_is_room_for_as_many_get_in_as_fit(world: World) {
    let client = world.client().await;
    let seats = client.permit_semaphore(world.name("permits"));
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

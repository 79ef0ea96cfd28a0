//! Many guards that are dropped at once.

use crate::support::{connect, on_one_of_each, runtime, until};
use leasehold_test_support::Server;

/// How many guards are dropped at once.
const MANY: usize = 4_000;

#[test]
fn guard_dropped_behind_thousands_is_released_early() {
    on_one_of_each(|binary| {
        let server = Server::builder().binary(binary).start();
        runtime().block_on(async {
            let client = connect(&server.url()).await;
            let left = || server.command(&["DBSIZE"]).as_int().expect("a number");
            let mut guards = Vec::with_capacity(MANY);
            for first in (0..MANY).step_by(200) {
                let locks: Vec<_> = (first..first + 200).map(|number| client.lock(format!("stock:{number}"))).collect();
                let acquires = locks.iter().map(|lock| lock.acquire().into_future());
                guards.extend(futures_util::future::try_join_all(acquires).await.expect("locks that are free"));
            }
            let late = client.lock("late").acquire().await.expect("a lock that is free");
            drop(guards);
            drop(late);
            until("it is released", || server.command(&["EXISTS", "late"]).as_int() == Some(0)).await;
            let behind = left();
            assert!(behind > MANY as i64 / 2, "{behind} of {MANY} were left");
            until("all are released", || left() == 0).await;
        });
    });
}

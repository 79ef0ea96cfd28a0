//! Many guards that are dropped at once.

use crate::support::{on_one_of_each, runtime, settings, until};
use leasehold::Tuning;
use leasehold_core::script::RELEASE;
use leasehold_test_support::{Proxy, Server};

/// How many guards are dropped at once.
const MANY: usize = 4_000;

#[test]
fn guard_dropped_behind_thousands_is_released_early() {
    on_one_of_each(|binary| {
        let server = Server::builder().binary(binary).start();
        let proxy = Proxy::to(&server);
        runtime().block_on(async {
            // The test counts commands, so each release must be one.
            let client =
                settings().tuning(Tuning::new().batch_calls(false)).connect(&proxy.url()).await.expect("a client");
            let left = || server.command(&["DBSIZE"]).as_int().expect("a number");
            let mut guards = Vec::with_capacity(MANY);
            for first in (0..MANY).step_by(200) {
                let locks: Vec<_> = (first..first + 200).map(|number| client.lock(format!("stock:{number}"))).collect();
                let acquires = locks.iter().map(|lock| lock.acquire().into_future());
                guards.extend(futures_util::future::try_join_all(acquires).await.expect("locks that are free"));
            }
            let late = client.lock("late").acquire().await.expect("a lock that is free");
            proxy.clear_requests();
            drop(guards);
            drop(late);
            until("all are released", || left() == 0).await;
            let sent = proxy.requests();
            let releases =
                || sent.iter().filter(|sent| sent.contains(RELEASE.sha1()) || sent.contains(RELEASE.source()));
            let before = releases().position(|release| release.contains("late")).expect("its release");
            assert!(releases().count() >= MANY && before < MANY / 2, "{before} of {MANY} were released before it");
        });
    });
}

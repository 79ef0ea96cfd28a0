//! Slow links: what is free is had within its wait, by all who may have it at the same time.

use crate::support::{SLACK, connect, on_one_of_each, runtime};
use futures_util::future::join_all;
use leasehold_test_support::{Proxy, Server, Way};
use std::time::{Duration, Instant};

const READERS: usize = 100;

#[test]
fn hundred_impatient_readers_all_read_over_a_slow_link() {
    on_one_of_each(|binary| {
        let server = Server::builder().binary(binary).start();
        let proxy = Proxy::to(&server);
        runtime().block_on(async {
            let client = connect(&proxy.url()).await;
            client.read_write_lock("book").read().acquire().await.expect("a lock").release().await.expect("a release");
            for round_trip in [5, 100].map(Duration::from_millis) {
                for way in [Way::ToServer, Way::ToClient] {
                    proxy.delay(way, round_trip / 2);
                }
                let book = client.read_write_lock("book").read();
                let begun = Instant::now();
                let wait = Duration::from_millis(100);
                let read = join_all((0..READERS).map(|_| book.acquire().wait(wait).into_future())).await;
                let short = begun.elapsed();
                let got = read.iter().filter(|guard| guard.is_ok()).count();
                assert_eq!(got, READERS, "of those who wait for {wait:?}, round trip {round_trip:?}");
                for guard in read.into_iter().flatten() {
                    guard.detach();
                }
                let again = client.read_write_lock("another").read();
                let begun = Instant::now();
                let read = join_all((0..READERS).map(|_| again.acquire().into_future())).await;
                let took = begun.elapsed();
                eprintln!("round trip {round_trip:?}: {short:?} with a short wait, {took:?} without a limit");
                assert!(read.iter().all(|guard| guard.is_ok()));
                // One behind the other it is a hundred round trips.
                assert!(took < round_trip * 12 + SLACK, "{took:?}");
            }
        });
    });
}

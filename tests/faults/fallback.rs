//! The lock within a client while its server comes and goes: tasks of one client never hold at once, on a slow link and a busy thread too.

use crate::support::{TIMEOUT, on_one_of_each, settings, until};
use leasehold::kind::{LockKind, Owned, SupportsFallback};
use leasehold::{Client, Fallback, Guard, Lock};
use leasehold_test_support::{Proxy, Server, Way};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

/// How long the tasks go on, and how long each outage is and each time between two.
const GOING: Duration = Duration::from_secs(4);
const PHASE: Duration = Duration::from_millis(700);
const UNREACHABLE: Duration = Duration::from_millis(300);

/// The guards that tasks have now: whether each may share the lock, and whether it is still held.
#[derive(Clone, Default)]
struct Inside(Arc<Mutex<Vec<Entry>>>);

struct Entry {
    shares: bool,
    is_held: Box<dyn Fn() -> bool + Send>,
}

impl Inside {
    /// Notes a guard, beside which no other may be held but those that share the lock.
    fn enter<K: LockKind>(&self, guard: &Arc<Guard<K>>, shares: bool) {
        let mut inside = self.0.lock().expect("no task panics with it");
        inside.retain(|entry| (entry.is_held)());
        let others = inside.iter().filter(|entry| !(shares && entry.shares)).count();
        // A guard that was lost while it waited for its task excludes no other.
        assert!(others == 0 || !guard.is_held(), "{others} other tasks of the client hold the lock");
        let guard = Arc::downgrade(guard);
        inside.push(Entry { shares, is_held: Box::new(move || guard.upgrade().is_some_and(|guard| guard.is_held())) });
    }
}

/// Takes the lock again and again, by tries and by waiting. Returns how often it was granted with the server, and without it.
async fn work<K: SupportsFallback + Owned>(lock: Lock<K>, shares: bool, inside: Inside, number: u32) -> [u32; 2] {
    let (mut granted, end) = ([0; 2], Instant::now() + GOING);
    for round in number.. {
        if Instant::now() > end {
            break;
        }
        let got = match round % 3 {
            0 => lock.try_acquire().await,
            1 => lock.acquire().wait(UNREACHABLE / 2).await.map(Some),
            _ => lock.acquire().wait(UNREACHABLE * 4).await.map(Some),
        };
        if let Ok(Some(guard)) = got {
            granted[usize::from(guard.is_degraded())] += 1;
            let guard = Arc::new(guard);
            inside.enter(&guard, shares);
            tokio::time::sleep(Duration::from_millis(u64::from(round % 7))).await;
        }
        tokio::task::yield_now().await;
    }
    granted
}

/// Has tasks of one client contend for locks while the server is there and is not, in turn.
async fn storm(proxy: &Proxy, server: &Server) {
    let settings = settings().fallback(Fallback::Local).unreachable_after(UNREACHABLE);
    let client = settings.connect(&proxy.url()).await.expect("a client");
    let [plain, halves] = [(); 2].map(|()| Inside::default());
    let mut tasks = JoinSet::new();
    for number in 0..6 {
        tasks.spawn(work(client.lock("stock"), false, plain.clone(), number));
        let book = client.read_write_lock("book");
        if number % 3 == 0 {
            tasks.spawn(work(book.write(), false, halves.clone(), number));
        } else {
            tasks.spawn(work(book.read(), true, halves.clone(), number));
        }
    }
    let end = Instant::now() + GOING;
    while Instant::now() < end {
        tokio::time::sleep(PHASE).await;
        proxy.refuse(true);
        proxy.cut();
        tokio::time::sleep(PHASE).await;
        proxy.refuse(false);
    }
    let mut granted = [0; 2];
    while let Some(done) = tasks.join_next().await {
        let [with, without] = done.expect("no two tasks hold at once");
        granted = [granted[0] + with, granted[1] + without];
    }
    eprintln!("granted with the server and without it: {granted:?}");
    assert!(granted.iter().all(|times| *times > 0), "{granted:?}");
    until("nothing is left", || is_idle(&client) && server.command(&["DBSIZE"]).as_int() == Some(0)).await;
    client.shutdown(TIMEOUT).await.expect("a shutdown");
}

fn is_idle(client: &Client) -> bool {
    let stats = client.stats();
    stats.held + stats.cleaning_up + stats.requests == 0
}

#[test]
fn tasks_of_one_client_never_both_hold_in_outages() {
    on_one_of_each(|binary| {
        for (millis, is_busy) in [(0, false), (5, true), (100, false)] {
            let round_trip = Duration::from_millis(millis);
            let server = Server::builder().binary(binary).start();
            let proxy = Proxy::to(&server);
            proxy.delay(Way::Both, round_trip / 2);
            eprintln!("round trip {round_trip:?}, on a busy thread: {is_busy}");
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(async {
                let busy = tokio::spawn(async move {
                    if is_busy {
                        loop {
                            std::thread::sleep(Duration::from_millis(20));
                            tokio::task::yield_now().await;
                        }
                    }
                });
                storm(&proxy, &server).await;
                busy.abort();
            });
        }
    });
}

//! Wake-up: from the release in one client to the grant in another.

use crate::floor::Floor;
use crate::measure::{Ratio, quantile};
use bytes::Bytes;
use fred::prelude::{Builder, ClientLike, Config, EventInterface, PubsubInterface};
use leasehold::kind::LockKind;
use leasehold::{Client, Lock};
use leasehold_core::name::LockName;
use leasehold_test_support::Server;
use rlock::async_lock::RLock;
use rslock::LockManager;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

const ROUNDS: usize = 7;
const HANDOVERS: usize = 300;
/// Peers poll, and are slow: a few hand-overs say enough.
const PEER_HANDOVERS: usize = 20;

pub(crate) async fn run(server: &Server) {
    let (mut floors, mut ours) = (Vec::new(), Vec::new());
    let (mut floor_tails, mut our_tails) = (Vec::new(), Vec::new());
    for round in 0..=ROUNDS {
        let mut floor = floor(server).await;
        let mut leasehold = hand_overs(server, |client| client.lock("bench:wake:leasehold")).await;
        if round > 0 {
            floors.push(quantile(&mut floor, 0.5).as_secs_f64());
            ours.push(quantile(&mut leasehold, 0.5).as_secs_f64());
            floor_tails.push(quantile(&mut floor, 0.99).as_secs_f64());
            our_tails.push(quantile(&mut leasehold, 0.99).as_secs_f64());
        }
    }
    println!("wake-up p50, leasehold : floor = {}", Ratio::of(&ours, &floors));
    println!("wake-up p99, leasehold : floor = {}", Ratio::of(&our_tails, &floor_tails));
    let mut middle: Vec<Duration> = ours.iter().map(|secs| Duration::from_secs_f64(*secs)).collect();
    let ours = quantile(&mut middle, 0.5).as_secs_f64();
    for (name, mut times) in [("rslock", rslock(server).await), ("rlock", rlock(server).await)] {
        println!("wake-up p50, {name} : leasehold = {:.0}", quantile(&mut times, 0.5).as_secs_f64() / ours);
    }
}

/// One release script, its message at another connection, and one acquire script there.
async fn floor(server: &Server) -> Vec<Duration> {
    let (holder, waiter) = (Floor::connect(&server.url()).await, Floor::connect(&server.url()).await);
    let name = LockName::new("", "bench:wake:floor").expect("a name");
    let config = Config::from_url(&server.url()).expect("a valid URL");
    let listener = Builder::from_config(config).build_subscriber_client().expect("a client");
    listener.init().await.expect("a connection");
    let mut messages = listener.message_rx();
    listener.subscribe(std::str::from_utf8(name.channel()).expect("text")).await.expect("subscribed");
    let _: fred::types::Value = listener.ping(None).await.expect("confirmed");
    let mut times = Vec::with_capacity(HANDOVERS);
    for number in 0..HANDOVERS {
        let (first, second) = (Bytes::from(format!("floor:{number}:a")), Bytes::from(format!("floor:{number}:b")));
        holder.acquire(&name, &first).await;
        // As in the other: a waiter that is woken has slept for a while.
        tokio::time::sleep(Duration::from_millis(6)).await;
        let begun = Instant::now();
        let released = async { holder.release(&name, &first).await };
        let woken = async {
            let _ = messages.recv().await.expect("a message");
            waiter.acquire(&name, &second).await;
            begun.elapsed()
        };
        let ((), time) = tokio::join!(released, woken);
        times.push(time);
        waiter.release(&name, &second).await;
        let _ = messages.recv().await.expect("a message");
    }
    times
}

/// From the release in one client to the grant in another, of whatever lock.
pub(crate) async fn hand_overs<K: LockKind>(server: &Server, lock: impl Fn(&Client) -> Lock<K>) -> Vec<Duration> {
    let (a, b) = (
        Client::connect(&server.url()).await.expect("a client"),
        Client::connect(&server.url()).await.expect("a client"),
    );
    let (lock, other) = (lock(&a), lock(&b));
    let (ask, mut asked) = mpsc::channel::<()>(1);
    let (tell, mut told) = mpsc::channel::<Instant>(1);
    let waiter = tokio::spawn(async move {
        while asked.recv().await.is_some() {
            let guard = other.acquire().await.expect("the lock");
            tell.send(Instant::now()).await.expect("somebody listens");
            guard.release().await.expect("released");
        }
    });
    let mut times = Vec::with_capacity(HANDOVERS);
    for _ in 0..HANDOVERS {
        let guard = lock.acquire().await.expect("the lock");
        ask.send(()).await.expect("the waiter");
        until_waiting(&b).await;
        let begun = Instant::now();
        guard.release().await.expect("released");
        times.push(told.recv().await.expect("the waiter").saturating_duration_since(begun));
    }
    drop(ask);
    waiter.await.expect("the waiter");
    times
}

/// Until the waiter's subscription is confirmed and it sleeps.
async fn until_waiting(client: &Client) {
    while client.stats().subscriptions == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    tokio::time::sleep(Duration::from_millis(5)).await;
}

async fn rslock(server: &Server) -> Vec<Duration> {
    let lease = Duration::from_secs(30);
    let (a, b) = (LockManager::new(vec![server.url()]), LockManager::new(vec![server.url()]));
    let b = Arc::new(b);
    let mut times = Vec::new();
    for _ in 0..PEER_HANDOVERS {
        let held = a.lock("bench:wake:rslock".as_bytes(), lease).await.expect("the lock");
        let waiter = tokio::spawn({
            let b = b.clone();
            async move {
                let lock = b.acquire_no_guard("bench:wake:rslock".as_bytes(), lease).await.expect("the lock");
                let at = Instant::now();
                b.unlock(&lock).await;
                at
            }
        });
        tokio::time::sleep(Duration::from_millis(137)).await;
        let begun = Instant::now();
        a.unlock(&held).await;
        times.push(waiter.await.expect("the waiter").saturating_duration_since(begun));
    }
    times
}

async fn rlock(server: &Server) -> Vec<Duration> {
    let (a, b) = (RLock::new(server.url()).await.expect("a client"), RLock::new(server.url()).await.expect("a client"));
    let mut times = Vec::new();
    for _ in 0..PEER_HANDOVERS {
        let mut held = a.acquire_mutex("bench:wake:rlock").await.expect("the lock");
        let waiter = tokio::spawn({
            let b = b.clone();
            async move {
                let mut guard = b.acquire_mutex("bench:wake:rlock").await.expect("the lock");
                let at = Instant::now();
                guard.release().await.expect("released");
                at
            }
        });
        tokio::time::sleep(Duration::from_millis(137)).await;
        let begun = Instant::now();
        held.release().await.expect("released");
        times.push(waiter.await.expect("the waiter").saturating_duration_since(begun));
    }
    times
}

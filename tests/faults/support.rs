//! The common part of the tests: a test on each server, runtimes, clients, and bounded waiting.

use leasehold::{Client, ClientBuilder, Guard, Tuning};
use leasehold_test_support::{Binary, Server, Version, binaries};
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Runtime};

/// The command timeout of the clients: short enough to wait for, long enough for a busy machine.
pub(crate) const TIMEOUT: Duration = Duration::from_millis(500);

/// How long a step may take before it counts as hung.
pub(crate) const HUNG: Duration = Duration::from_secs(30);

/// Longer than a hung step takes. Clients have leases, re-checks and patience for so long, and whoever waits for the end of one by mistake
/// hangs. So no test measures time.
pub(crate) const NEVER: Duration = Duration::from_secs(600);

/// A renewed lease: short enough to wait for its end, and long enough for a machine on which no thread of a client runs for a second.
pub(crate) const RENEWED: Duration = Duration::from_secs(2);

/// Runs a test on every server program.
pub(crate) fn on_each(test: impl Fn(&Binary)) {
    let all = binaries();
    assert!(!all.is_empty(), "no server program; run `cargo xtask servers`");
    for binary in &all {
        eprintln!("on {binary}");
        test(binary);
    }
}

/// Runs a test on the newest Redis and the newest Valkey that know sharded notices, as far as they are there.
pub(crate) fn on_one_of_each(test: impl Fn(&Binary)) {
    let floor = Version { major: 7, minor: 0, patch: 0 };
    let newest = [Binary::redis(), Binary::valkey()].into_iter().flatten();
    let all: Vec<_> = newest.filter(|binary| binary.version >= floor).collect();
    assert!(!all.is_empty(), "no server program; run `cargo xtask servers`");
    for binary in &all {
        eprintln!("on {binary}");
        test(binary);
    }
}

/// A runtime whose workers go on while the test's own thread blocks.
pub(crate) fn runtime() -> Runtime {
    Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime")
}

/// The settings that most tests use.
pub(crate) fn settings() -> ClientBuilder {
    Client::builder()
        .command_timeout(TIMEOUT)
        .lease(NEVER)
        .tuning(Tuning::new().recheck(NEVER))
        .unreachable_after(NEVER)
}

/// A client with these settings.
pub(crate) async fn connect(url: &str) -> Client {
    settings().connect(url).await.expect("a client")
}

/// A lock without contention.
pub(crate) async fn held(client: &Client, name: &str) -> Guard {
    client.lock(name).try_acquire().await.expect("an answer").expect("a lock that is free")
}

/// The result of `work`, which does not hang.
pub(crate) async fn soon<T>(what: &str, work: impl IntoFuture<Output = T>) -> T {
    let result = tokio::time::timeout(HUNG, work).await;
    result.unwrap_or_else(|_| panic!("{what} hangs"))
}

/// Waits until `holds` returns true, without blocking the runtime.
pub(crate) async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + HUNG;
    while !holds() {
        assert!(Instant::now() < end, "waited {HUNG:?} in vain until {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Lets that much time pass, which is the condition under test.
pub(crate) async fn pass(time: Duration) {
    tokio::time::sleep(time).await;
}

/// The fields of a lock's hash on the server, with their values; none if it is free.
pub(crate) fn counts(server: &Server, key: &str) -> Vec<u32> {
    let reply = server.command(&["HVALS", key]);
    reply.elements().iter().map(|value| value.as_str().and_then(|text| text.parse().ok()).expect("a count")).collect()
}

/// The rest of a key's life, as its server has it.
pub(crate) fn lease_left(server: &Server, key: &str) -> Duration {
    let left = server.command(&["PTTL", key]).as_int().expect("a number");
    Duration::from_millis(left.try_into().unwrap_or_default())
}

/// How often scripts were called, whatever they answered.
pub(crate) fn scripts(server: &Server) -> u64 {
    server.commandstats("evalsha") + server.commandstats("eval")
}

/// How many connections of clients there are, this program's own look at the server left out.
pub(crate) fn connections(server: &Server) -> usize {
    let own = server.command(&["CLIENT", "ID"]).as_int().expect("a number").to_string();
    server.client_list().iter().filter(|client| client.get("id") != Some(&own)).count()
}

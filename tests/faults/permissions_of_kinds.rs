//! The published permissions of each kind of lock are enough, and each pattern of them is needed. That their commands are those of the
//! scripts, no more and no fewer, is what `tests/contract` says.

use crate::permissions::{PATIENCE, builder, refused, rule, set_user, step, succeeds, walker};
use crate::support::{on_each, runtime, until};
use leasehold::kind::LockKind;
use leasehold::{Client, Error, Lock, Replicas};
use leasehold_test_support::{Binary, Flavor, Server};
use std::time::{Duration, Instant};

/// The purpose of a walk: the blocks of `docs/security.md` that it needs beside the first.
const WALKS: [&[&str]; 12] = [
    &["fair"],
    &["fair", "fenced"],
    &["fenced"],
    &["fenced", "fence"],
    &["simple"],
    &["read_write"],
    &["semaphore"],
    &["permits"],
    &["latch"],
    &["record"],
    &["locks"],
    &["restarts"],
];

/// One client holds, another waits and is woken, and both release.
async fn contend<K: LockKind, L: LockKind>(
    server: &Server,
    lock: &Lock<K>,
    other: &Lock<L>,
    client: &Client,
) -> Result<(), String> {
    let guard = step("an acquire", lock.acquire().wait(PATIENCE)).await?;
    let waiting = other.clone();
    let waiter = tokio::spawn(async move { waiting.acquire().wait(PATIENCE).await });
    listens(server, client).await;
    step("a release", guard.release()).await?;
    let woken = step("a wake-up", async { waiter.await.expect("a task") }).await?;
    step("a release", woken.release()).await
}

/// Waits until the client has a subscription, the server has refused something, or the waiter has given up.
async fn listens(server: &Server, client: &Client) {
    let mut asked = false;
    until("the waiter listens, or may not", || {
        let stats = client.stats();
        asked |= stats.requests > 0;
        stats.subscriptions > 0 || asked && stats.requests == 0 || refused(server).is_some()
    })
    .await;
}

async fn walk(server: &Server, blocks: &[&str], name: &str, client: &Client, other: &Client) -> Result<(), String> {
    match blocks {
        ["fair"] => {
            contend(server, &client.fair_lock(name), &other.fair_lock(name), other).await?;
            step("a look", client.fair_lock(name).inspect()).await?;
        }
        ["fair", "fenced"] => {
            contend(server, &client.fair_lock(name).fenced(), &other.fair_lock(name).fenced(), other).await?;
        }
        ["fenced"] => contend(server, &client.fenced_lock(name), &other.fenced_lock(name), other).await?,
        ["fenced", "fence"] => {
            let guard = step("an acquire", client.fenced_lock(name).acquire().wait(PATIENCE)).await?;
            let value = client.fenced_value(format!("{name}:value"));
            step("a write", value.write(&guard, "1")).await?;
            step("a read", value.read(&guard)).await?;
            step("a check", value.check(&guard)).await?;
            step("a release", guard.release()).await?;
        }
        ["simple"] => {
            // Its waiters ask again and again, and do not listen.
            let lease = Duration::from_secs(30);
            let (lock, same) = (client.simple_lock(name, lease), other.simple_lock(name, lease));
            let guard = step("an acquire", lock.acquire().wait(PATIENCE)).await?;
            let waiter = tokio::spawn(async move { same.acquire().wait(PATIENCE).await });
            until("the waiter asks", || other.stats().requests > 0 || waiter.is_finished()).await;
            step("a release", guard.release()).await?;
            let woken = step("a wake-up", async { waiter.await.expect("a task") }).await?;
            step("a release", woken.release()).await?;
        }
        ["read_write"] => {
            let (lock, rival) = (client.read_write_lock(name), other.read_write_lock(name).prefer_writers());
            contend(server, &lock.write(), &rival.write(), other).await?;
            contend(server, &lock.write(), &rival.read(), other).await?;
            let reader = step("a read", lock.read().acquire().wait(PATIENCE)).await?;
            let waiting = rival.write();
            let writer = tokio::spawn(async move { waiting.acquire().wait(PATIENCE).await });
            listens(server, other).await;
            step("a release", reader.release()).await?;
            let writer = step("a wake-up", async { writer.await.expect("a task") }).await?;
            step("a downgrade", writer.downgrade()).await?.release().await.map_err(|error| error.to_string())?;
            step("a look", lock.inspect()).await?;
        }
        ["semaphore"] => {
            let (seats, same) = (client.bare_semaphore(name), other.bare_semaphore(name));
            step("setting", seats.try_set_permits(1)).await?;
            let guard = step("an acquire", seats.acquire().wait(PATIENCE)).await?;
            let waiter = tokio::spawn(async move { same.acquire().wait(PATIENCE).await });
            listens(server, other).await;
            step("a release", guard.release()).await?;
            step("a wake-up", async { waiter.await.expect("a task") })
                .await?
                .release()
                .await
                .map_err(|e| e.to_string())?;
            step("adding", seats.add_permits(2)).await?;
            step("draining", seats.drain_permits()).await?;
            step("a look", seats.available_permits()).await?;
        }
        ["permits"] => {
            let (jobs, same) = (client.semaphore(name), other.semaphore(name));
            step("setting", jobs.try_set_permits(1)).await?;
            let guard = step("an acquire", jobs.acquire().wait(PATIENCE)).await?;
            step("a look", jobs.lease_of(guard.ids()[0])).await?;
            let waiter = tokio::spawn(async move { same.acquire().wait(PATIENCE).await });
            listens(server, other).await;
            step("a release", jobs.release_ids(&guard.ids())).await?;
            drop(guard);
            step("a wake-up", async { waiter.await.expect("a task") })
                .await?
                .release()
                .await
                .map_err(|e| e.to_string())?;
            step("resizing", jobs.resize(3)).await?;
            step("a look", jobs.inspect()).await?;
        }
        ["latch"] => {
            let (parts, same) = (client.count_down_latch(name), other.count_down_latch(name));
            step("setting", parts.try_set_count(1)).await?;
            let waiter = tokio::spawn(async move { same.opened().wait(PATIENCE).await });
            listens(server, other).await;
            step("counting", parts.count_down()).await?;
            step("a wake-up", async { waiter.await.expect("a task") }).await?;
            step("a look", parts.count()).await?;
            step("a deletion", parts.delete()).await?;
        }
        ["locks"] => {
            let guard = step("an acquire", client.lock(name).acquire().wait(PATIENCE)).await?;
            let seen = step("a look", other.inspect(name)).await?.ok_or("nothing is seen")?;
            let mut search = other.locks(name);
            let found =
                step("a search", async { search.next().await.unwrap_or_else(|| panic!("no lock is found")) }).await?;
            if found.name != name || seen.waiters != Some(0) {
                return Err(format!("{found:?} and {seen:?}"));
            }
            step("a release", guard.release()).await?;
        }
        ["restarts"] => {
            let lock = client.lock(name);
            step("a release", step("an acquire", lock.acquire().wait(PATIENCE)).await?.release()).await?;
            server.command(&["SCRIPT", "FLUSH"]);
            server.command(&["CLIENT", "KILL", "USER", "app"]);
            let is_given = || server.info("number_of_cached_scripts").is_some_and(|count| count != "0");
            until("the scripts are given or refused", || is_given() || refused(server).is_some()).await;
        }
        ["record"] => {
            let end = Instant::now() + PATIENCE;
            while step("a question", client.who_is(&other.id())).await?.is_none() {
                if Instant::now() > end {
                    return Err("no record".to_owned());
                }
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        }
        other => panic!("{other:?} has no walk"),
    }
    Ok(())
}

/// The password of a walk. No other walk has it: the client of a walk that failed would connect again, and be refused in the log of the next.
fn password(number: usize) -> String {
    format!("open{number}")
}

/// One walk, with names that no other walk has, and what the server refused.
fn try_rule(server: &Server, blocks: &[&str], number: usize) -> Result<(), String> {
    let url = format!("redis://app:{}@{}", password(number), server.addr());
    let walked = runtime().block_on(async {
        let lease = Duration::from_secs(1);
        let settings = || walker().lease(lease).unreachable_after(Duration::from_millis(300));
        let client = settings().connect(&url).await.map_err(|error| error.to_string())?;
        let announced = if blocks == ["record"] { settings().announce("orders") } else { settings() };
        let other = announced.connect(&url).await.map_err(|error| error.to_string())?;
        for name in [format!("stock:{number}"), format!("{{stock}}:{number}")] {
            walk(server, blocks, &name, &client, &other).await?;
        }
        step("a shutdown", client.shutdown(PATIENCE)).await?;
        step("a shutdown", other.shutdown(PATIENCE)).await
    });
    walked.and_then(|()| refused(server).map_or(Ok(()), Err))
}

/// Whether a server is a Valkey with the command `DELIFEQ`.
fn has_delifeq(binary: &Binary) -> bool {
    binary.flavor == Flavor::Valkey && binary.version.major >= 9
}

#[test]
fn published_rule_of_each_kind_is_enough_and_minimal() {
    on_each(|binary| {
        let server = Server::builder().binary(binary).start();
        let mut number = 0;
        let mut walk = |blocks: &[&str], rule: &[&str]| {
            number += 1;
            let password = format!(">{}", password(number));
            set_user(&server, &[rule, &["resetpass", &password]].concat());
            try_rule(&server, blocks, number)
        };
        for blocks in WALKS {
            let mut more: Vec<_> = blocks.iter().flat_map(|block| rule(block)).collect();
            if blocks == ["simple"] && has_delifeq(binary) {
                // Without this right the server refuses the first release, and the client goes on with the script.
                more.push("+delifeq");
            }
            let all = [rule("server"), rule("restarts"), more.clone()].concat();
            eprintln!("{blocks:?}");
            succeeds(|_| walk(blocks, &all));
            // Each newer server is asked about every pattern and command of its own; the oldest, which tells keys and channels apart as they do,
            // about none. The commands of scripts are held to them by `tests/contract`.
            let is_asked = |part: &&&str| part.starts_with(['~', '&']) || part.contains('|');
            for left_out in more.iter().filter(|part| is_asked(part) && binary.version.major > 6) {
                let rest: Vec<_> = all.iter().copied().filter(|part| part != left_out).collect();
                let missed = walk(blocks, &rest).expect_err(left_out);
                eprintln!("{blocks:?} without {left_out}: {missed}");
            }
        }
    });
}

#[test]
fn replicas_are_asked_by_those_who_may() {
    on_each(|binary| {
        let server = Server::builder().binary(binary).start();
        let url = format!("redis://app:open@{}", server.addr());
        let replicas = Replicas { at_least: 1, within: Duration::from_millis(20) };
        for (rule, allowed) in [(rule("server"), false), ([rule("server"), rule("durable")].concat(), true)] {
            set_user(&server, &rule);
            let error = runtime().block_on(async {
                let client = builder("shop:").connect(&url).await.expect("a client");
                client
                    .lock("ledger")
                    .acquire()
                    .wait(PATIENCE)
                    .durable(replicas)
                    .await
                    .expect_err("there are no replicas")
            });
            assert_eq!(matches!(error, Error::NotReplicated { .. }), allowed, "{error:?}");
        }
    });
}

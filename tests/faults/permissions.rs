//! The published permissions are enough, and each of them is needed.
//!
//! "Enough" means that a walk through everything that a client does succeeds, and that the server has refused nothing: its
//! ACL log stays empty.

use crate::support::{HUNG, RENEWED, counts, on_each, on_one_of_each, runtime, soon, until};
use leasehold::{Client, ClientBuilder, ConnectError, Error, Guard, LossReason, Tuning};
use leasehold_test_support::{After, Cluster, Proxy, Rounds, Server};
use std::time::{Duration, Instant};

const DOCUMENT: &str = include_str!("../../docs/security.md");
const TIMEOUT: Duration = Duration::from_millis(300);

/// How long a walk waits for what a missing right keeps away.
pub(crate) const PATIENCE: Duration = Duration::from_secs(3);

/// The parts of a published rule.
pub(crate) fn rule(name: &str) -> Vec<&'static str> {
    let fence = format!("```acl {name}\n");
    let (_, rest) = DOCUMENT.split_once(&fence).expect("a rule in the document");
    let (rule, _) = rest.split_once("```").expect("the end of the rule");
    rule.split_whitespace().collect()
}

/// Makes the user anew. To delete it first ends its connections: the server drops what a walk that failed has sent and nobody has read
/// yet. Otherwise it would read this under the next rule, and refuse it in the next walk's log.
pub(crate) fn set_user(server: &Server, rule: &[&str]) {
    server.command(&["ACL", "DELUSER", "app"]);
    let head = ["ACL", "SETUSER", "app", "reset", "on", ">open"];
    let reply = server.command(&[&head[..], rule].concat());
    assert!(!reply.is_error(), "{reply:?}");
    server.command(&["ACL", "LOG", "RESET"]);
}

/// The server's refusal to the user, if there was one. A client that an earlier walk has left behind may have had a wrong password.
pub(crate) fn refused(server: &Server) -> Option<String> {
    let log = server.command(&["ACL", "LOG"]);
    log.elements().iter().map(|entry| format!("{entry:?}")).find(|entry| !entry.contains("\"reason\", \"auth\""))
}

/// A client that waits for answers as long as they may take.
pub(crate) fn builder(prefix: &str) -> ClientBuilder {
    Client::builder().prefix(prefix).command_timeout(Duration::from_secs(10)).unreachable_after(HUNG)
}

/// The client of a walk, to which a right may be missing: it gives up soon.
pub(crate) fn walker() -> ClientBuilder {
    let builder = Client::builder().prefix("shop:").command_timeout(TIMEOUT);
    builder.unreachable_after(Duration::from_secs(1)).connect_deadline(Duration::from_secs(2))
}

/// Does one thing, which may be refused, and must not take for ever.
pub(crate) async fn step<T, E: std::fmt::Display>(
    what: &str,
    work: impl IntoFuture<Output = Result<T, E>>,
) -> Result<T, String> {
    soon(what, work).await.map_err(|error| format!("{what}: {error}"))
}

/// Does what clients do, with names that no other walk has; `admin` changes things behind the client's back.
async fn walk(url: &str, number: usize, admin: &(impl Fn(&[&str]) + Sync)) -> Result<(), String> {
    let lease = Duration::from_secs(1);
    let connected = walker().lease(lease).connect(url).await;
    let client = connected.map_err(|error| error.to_string())?;
    let careful = walker()
        .tuning(Tuning::new().server_side_expiry(true))
        .connect(url)
        .await
        .map_err(|error| error.to_string())?;
    if client.server().eviction_policy.is_none() || client.server().version.is_empty() {
        return Err("the server is not known".to_owned());
    }
    for name in [format!("stock:{number}"), format!("{{stock}}:{number}")] {
        admin(&["SCRIPT", "FLUSH"]);
        let lock = client.lock(&name);
        let guard = step("an acquire", lock.acquire().wait(PATIENCE)).await?;
        let inner = step("a re-entry", guard.reenter()).await?;
        step("a lowering", inner.release()).await?;
        // One task waits, listens, and is woken.
        let waiting = careful.lock(&name);
        let waiter = tokio::spawn(async move { waiting.acquire().wait(PATIENCE).await });
        let end = Instant::now() + PATIENCE;
        while careful.stats().subscriptions == 0 && !waiter.is_finished() && Instant::now() < end {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        tokio::time::sleep(Duration::from_millis(30)).await;
        step("a release", guard.release()).await?;
        let woken = step("a wake-up", async { waiter.await.expect("a task") }).await?;
        // Seen and ended from outside.
        step("a look", lock.inspect()).await?.ok_or("nobody holds it")?;
        step("the end of a hold", lock.force_release()).await?.ok_or("nobody held it")?;
        drop(woken);
        // Renewed.
        let guard = step("an acquire", lock.acquire().wait(PATIENCE)).await?;
        let (mut left, end) = (guard.remaining(), Instant::now() + PATIENCE);
        while guard.remaining() <= left && guard.is_held() && Instant::now() < end {
            left = guard.remaining();
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        if guard.remaining() <= left {
            return Err("it was not renewed".to_owned());
        }
        step("a release", guard.release()).await?;
        // Busy for a while after its release.
        let guard = step("an acquire", lock.acquire().wait(PATIENCE).keep_busy_for(lease)).await?;
        step("a release", guard.release()).await?;
        // Something else in its place.
        admin(&["SET", &format!("shop:{name}"), "1"]);
        let conflict = soon("a try", lock.try_acquire()).await.err();
        admin(&["DEL", &format!("shop:{name}")]);
        if !matches!(&conflict, Some(Error::KeyConflict { kind, .. }) if kind == "string") {
            return Err(format!("{conflict:?}"));
        }
    }
    for client in [client, careful] {
        step("a shutdown", client.shutdown(PATIENCE)).await?;
    }
    Ok(())
}

/// An acquire whose reply is lost with its connection: it is settled before anything else is done.
async fn lost_reply(proxy: &Proxy, url: &str, number: usize) -> Result<(), String> {
    let client = walker().connect(url).await.map_err(|error| error.to_string())?;
    let lock = client.lock(format!("settled:{number}"));
    lock.acquire().await.map_err(|error| error.to_string())?.release().await.map_err(|error| error.to_string())?;
    let trap = proxy.swallow_reply_to("shop:settled", After::Close);
    let guard = lock.acquire().wait(PATIENCE).await.map_err(|error| error.to_string())?;
    assert!(trap.worked());
    guard.release().await.map_err(|error| error.to_string())?;
    client.shutdown(PATIENCE).await.map_err(|error| error.to_string())
}

/// Does a walk that succeeds. A machine that is held up for longer than a client waits spoils one; a right that is missing spoils each.
#[track_caller]
pub(crate) fn succeeds(mut walk: impl FnMut(usize) -> Result<(), String>) {
    let mut rounds = Rounds::default();
    for round in 0.. {
        let walked = walk(round);
        if rounds.end_with(walked.is_ok(), walked) {
            return;
        }
    }
}

/// Both walks on one server, and what it refused.
fn walks(server: &Server, proxy: &Proxy, number: usize) -> Result<(), String> {
    let url = format!("redis://app:open@{}", proxy.addr());
    let admin = |command: &[&str]| drop(server.command(command));
    let walked = runtime().block_on(async {
        walk(&url, number, &admin).await?;
        lost_reply(proxy, &url, number).await
    });
    for key in server.command(&["KEYS", "*"]).elements() {
        let key = key.as_str().expect("a name");
        assert_ne!(server.command(&["PTTL", key]).as_int(), Some(-1), "{key} would stay for ever");
    }
    match (walked, refused(server)) {
        (Ok(()), None) => Ok(()),
        (Err(error), _) => Err(error),
        (Ok(()), Some(refusal)) => Err(refusal),
    }
}

#[test]
fn published_rule_is_enough_and_minimal() {
    on_each(|binary| {
        let server = Server::builder().binary(binary).start();
        let proxy = Proxy::to(&server);
        let rule = [rule("server"), rule("restarts")].concat();
        let is_enough = |first: usize| {
            succeeds(|round| {
                set_user(&server, &rule);
                walks(&server, &proxy, first + round)
            });
        };
        is_enough(1_000);
        // A connection is made again here only where the machine is slow: the rights for that have a walk of their own.
        let parts =
            rule.iter().filter(|part| !matches!(**part, "resetchannels" | "-@all") && !part.contains("script|"));
        // Each newer server is asked about every part; the oldest only about keys and channels, where it differs.
        let parts = parts.filter(|part| binary.version.major > 6 || part.starts_with(['~', '&']));
        for (number, left_out) in parts.enumerate() {
            let rest: Vec<_> = rule.iter().copied().filter(|part| part != left_out).collect();
            set_user(&server, &rest);
            let missed = walks(&server, &proxy, number + 1).expect_err(left_out);
            eprintln!("without {left_out}: {missed}");
        }
        is_enough(2_000);
    });
}

/// Changes the user on every node.
fn set_user_everywhere(cluster: &Cluster, rule: &[&str]) {
    cluster.nodes().iter().for_each(|node| set_user(node, rule));
}

fn walk_cluster(cluster: &Cluster, number: usize) -> Result<(), String> {
    let url = cluster.url().replace("redis-cluster://", "redis-cluster://app:open@");
    let node = cluster.node_of("{stock}");
    let other = cluster.nodes().iter().find(|other| other.port() != node.port()).expect("another node");
    let walked = runtime().block_on(async {
        let admin = |command: &[&str]| {
            let reply = cluster.node_of(command.get(1).copied().unwrap_or_default()).command(command);
            assert!(command.first() == Some(&"SCRIPT") || !reply.is_error(), "{reply:?}");
        };
        walk(&url, number, &admin).await?;
        let client = walker().connect(&url).await.map_err(|error| error.to_string())?;
        let warm = client
            .lock(format!("{{stock}}:warm:{number}"))
            .acquire()
            .wait(PATIENCE)
            .await
            .map_err(|error| error.to_string())?;
        // A key that is not there yet is asked for at the node to which its slot is on its way.
        let slot = cluster.slot_of("{stock}");
        cluster.begin_migration(slot, other);
        let asked = client.lock(format!("{{stock}}:asked:{number}")).try_acquire().await;
        cluster.move_keys(slot, other);
        cluster.finish_migration(slot, other);
        cluster.migrate_slot(slot, node);
        let asked = asked.map_err(|error| error.to_string())?.ok_or("it is busy")?;
        asked.release().await.map_err(|error| error.to_string())?;
        warm.release().await.map_err(|error| error.to_string())?;
        client.shutdown(PATIENCE).await.map_err(|error| error.to_string())
    });
    match (walked, cluster.nodes().iter().find_map(refused)) {
        (Ok(()), None) => Ok(()),
        (Err(error), _) => Err(error),
        (Ok(()), Some(refusal)) => Err(refusal),
    }
}

#[test]
fn the_published_rule_is_enough_on_a_cluster() {
    on_one_of_each(|binary| {
        let cluster = Cluster::builder().binary(binary).start();
        let more = rule("cluster");
        let all = [rule("server"), rule("restarts"), more.clone()].concat();
        let is_enough = |first: usize| {
            succeeds(|round| {
                set_user_everywhere(&cluster, &all);
                walk_cluster(&cluster, first + round)
            });
        };
        is_enough(1_000);
        for (number, left_out) in more.iter().enumerate() {
            let rest: Vec<_> = all.iter().copied().filter(|part| part != left_out).collect();
            set_user_everywhere(&cluster, &rest);
            let missed = walk_cluster(&cluster, number + 1).expect_err(left_out);
            eprintln!("without {left_out}: {missed}");
        }
        is_enough(2_000);
    });
}

#[test]
fn a_user_of_one_prefix_cannot_touch_the_names_of_another() {
    on_each(|binary| {
        let server = Server::builder().binary(binary).start();
        set_user(&server, &rule("server"));
        let url = format!("redis://app:open@{}", server.addr());
        runtime().block_on(async {
            let theirs = builder("bank:").connect(&server.url()).await.expect("a client of the administrator");
            let guard: Guard = theirs.lock("stock").acquire().await.expect("the lock");
            let intruder = builder("bank:").connect(&url).await.expect("a client");
            for error in [
                intruder.lock("stock").try_acquire().await.expect_err("no permission"),
                intruder.lock("free").acquire().await.expect_err("no permission"),
                intruder.lock("stock").inspect().await.expect_err("no permission"),
                intruder.lock("stock").force_release().await.expect_err("no permission"),
            ] {
                assert!(
                    matches!(&error, Error::Refused { refusal, .. } if refusal.text().contains("NOPERM")),
                    "{error:?}"
                );
            }
            assert!(guard.is_held());
            assert_eq!(counts(&server, "bank:stock"), [1]);
            assert_eq!(server.command(&["EXISTS", "bank:free"]).as_int(), Some(0));
            guard.release().await.expect("a release");
            let own = builder("shop:").connect(&url).await.expect("a client");
            own.lock("stock").acquire().await.expect("the lock").release().await.expect("a release");
        });
    });
}

#[test]
fn a_release_that_may_not_be_announced_releases_nothing() {
    on_each(|binary| {
        let server = Server::builder().binary(binary).start();
        set_user(&server, &rule("server"));
        let url = format!("redis://app:open@{}", server.addr());
        runtime().block_on(async {
            let client = builder("shop:").connect(&url).await.expect("a client");
            let guard = client.lock("stock").acquire().await.expect("the lock");
            server.command(&["ACL", "SETUSER", "app", "-publish"]);
            let error = guard.release().await.expect_err("no permission");
            assert!(matches!(error, Error::Refused { .. }), "{error:?}");
            assert_eq!(counts(&server, "shop:stock"), [1], "what was refused was not done");
            server.command(&["ACL", "SETUSER", "app", "+publish"]);
            until("the release is repeated", || counts(&server, "shop:stock").is_empty()).await;
            until("the client is at rest", || client.stats().cleaning_up == 0).await;
        });
    });
}

#[test]
fn a_permission_that_is_taken_away_loses_the_guard_and_says_why() {
    on_each(|binary| {
        let server = Server::builder().binary(binary).start();
        set_user(&server, &rule("server"));
        let url = format!("redis://app:open@{}", server.addr());
        runtime().block_on(async {
            let client = builder("shop:").lease(RENEWED).connect(&url).await.expect("a client");
            let guard = client.lock("stock").acquire().await.expect("the lock");
            server.command(&["ACL", "SETUSER", "app", "-evalsha", "-eval"]);
            let lost = guard.lost().await;
            assert_eq!(lost.reason(), LossReason::NotRenewed);
            let error = client.lock("other").try_acquire().await.expect_err("no permission");
            assert!(matches!(&error, Error::Refused { refusal, .. } if refusal.text().contains("NOPERM")), "{error:?}");
            server.command(&["ACL", "SETUSER", "app", "+evalsha", "+eval"]);
            drop(guard);
            client.lock("stock").acquire().await.expect("the lock").release().await.expect("a release");
            // A user that is gone cannot come back.
            server.command(&["ACL", "DELUSER", "app"]);
            let error = builder("shop:").connect(&url).await.expect_err("no user");
            assert!(matches!(error, ConnectError::Denied { .. }), "{error:?}");
        });
    });
}

//! Users that lack the right to one command of a script: what an acquire that is refused leaves behind, seen by an administrator.

use crate::permissions::{builder, rule, set_user};
use crate::support::{HUNG, connect, on_each, runtime, until};
use leasehold::{Client, Error, Replicas};
use leasehold_test_support::Server;
use std::time::Duration;

/// The kinds that give holds, each with the blocks of `docs/security.md` that it needs beside the first.
const KINDS: [(&str, &[&str]); 8] = [
    ("lock", &[]),
    ("fair", &["fair"]),
    ("fenced", &["fenced"]),
    ("simple", &["simple"]),
    ("read", &["read_write"]),
    ("write", &["read_write"]),
    ("semaphore", &["semaphore"]),
    ("permits", &["permits"]),
];

/// Far longer than this test takes: what is left behind is left for as long.
const LEASE: Duration = Duration::from_secs(60);

/// Tries to take all that there is of a lock, and gives it back where it was granted.
async fn take(client: &Client, kind: &str, name: &str) -> Result<bool, Error> {
    macro_rules! tried {
        ($lock:expr) => {
            match $lock.try_acquire().await? {
                // A release may be refused too; what is about an acquire has been said.
                Some(guard) => guard.release().await.is_ok(),
                None => false,
            }
        };
    }
    Ok(match kind {
        "lock" => tried!(client.lock(name)),
        "fair" => tried!(client.fair_lock(name)),
        "fenced" => tried!(client.fenced_lock(name)),
        "simple" => tried!(client.simple_lock(name, LEASE)),
        "read" => tried!(client.read_write_lock(name).read()),
        "write" => tried!(client.read_write_lock(name).write()),
        "semaphore" => tried!(client.bare_semaphore(name)),
        "permits" => tried!(client.semaphore(name)),
        other => panic!("{other}"),
    })
}

/// Sets the number of permits, where the kind has one.
async fn set_up(admin: &Client, kind: &str, name: &str) {
    match kind {
        "semaphore" => drop(admin.bare_semaphore(name).try_set_permits(1).await.expect("a number")),
        "permits" => drop(admin.semaphore(name).try_set_permits(1).await.expect("a number")),
        _ => {}
    }
}

/// The keys that would stay for ever, counters and tokens aside, which are to.
fn without_end(server: &Server, name: &str) -> Vec<String> {
    let keys = server.command(&["KEYS", "*"]);
    let keys = keys.elements().iter().filter_map(|key| key.as_str().map(str::to_owned));
    let stays = |key: &String| {
        key.contains(name)
            && !key.starts_with("redisson_lock_token:")
            && server.command(&["TYPE", key]).as_str() != Some("string")
            && server.command(&["PTTL", key]).as_int() == Some(-1)
    };
    keys.filter(stays).collect()
}

#[test]
fn command_that_a_server_lacks_is_refused_by_its_name() {
    on_each(|binary| {
        let server = Server::builder().binary(binary).arg("rename-command", "EVALSHA hidden").start();
        runtime().block_on(async {
            let client = connect(&server.url()).await;
            let error = client.lock("stock").acquire().await.expect_err("no scripts");
            assert!(matches!(error, Error::Refused { .. }) && error.to_string().contains("EVALSHA"), "{error}");
            assert!(!error.is_retryable(), "an operator has to act");
        });
        let server = Server::builder().binary(binary).arg("rename-command", "EXISTS hidden").start();
        runtime().block_on(async {
            let client = connect(&server.url()).await;
            let error = client.lock("stock").acquire().await.expect_err("no EXISTS");
            assert!(matches!(error, Error::Refused { .. }) && !error.is_retryable(), "{error}");
            assert!(error.to_string().contains("needs EXISTS, which the server does not have"), "{error}");
        });
        let server = Server::builder().binary(binary).arg("rename-command", "WAIT hidden").start();
        runtime().block_on(async {
            let client = connect(&server.url()).await;
            let replicas = Replicas { at_least: 1, within: Duration::from_millis(100) };
            let refused = client.lock("stock").acquire().wait(HUNG).durable(replicas).await;
            let error = refused.expect_err("no WAIT");
            assert!(matches!(error, Error::Refused { .. }) && error.to_string().contains("WAIT"), "{error}");
            assert!(!error.is_retryable(), "an operator has to act");
            drop(client.lock("stock").try_acquire().await.expect("an answer").expect("nothing was begun"));
        });
    });
}

#[test]
fn wait_that_a_user_may_not_run_is_refused_by_its_name() {
    on_each(|binary| {
        let server = Server::builder().binary(binary).start();
        set_user(&server, &["~*", "&*", "+@all", "-wait"]);
        runtime().block_on(async {
            let client = connect(&format!("redis://app:open@{}", server.addr())).await;
            let replicas = Replicas { at_least: 1, within: Duration::from_millis(100) };
            let refused = client.lock("stock").acquire().wait(HUNG).durable(replicas).await;
            let error = refused.expect_err("no WAIT");
            assert!(
                matches!(error, Error::Refused { .. }) && error.to_string().to_ascii_uppercase().contains("WAIT"),
                "{error}"
            );
            assert!(!error.is_retryable(), "an operator has to act");
            let other = connect(&server.url()).await.lock("stock");
            other.acquire().wait(HUNG).await.expect("it was taken back").release().await.expect("a release");
        });
    });
}

#[test]
fn command_that_a_user_may_not_run_is_named_to_each_of_many_callers() {
    on_each(|binary| {
        let server = Server::builder().binary(binary).start();
        set_user(&server, &["~*", "&*", "+@all", "-exists"]);
        runtime().block_on(async {
            let client = connect(&format!("redis://app:open@{}", server.addr())).await;
            // So many that most go in batches.
            let tries = (0..200).map(|number| {
                let lock = client.lock(format!("stock:{number}"));
                tokio::spawn(async move { lock.try_acquire().await.map(drop) })
            });
            for tried in tries.collect::<Vec<_>>() {
                let error = tried.await.expect("a task").expect_err("no EXISTS");
                assert!(matches!(error, Error::Refused { .. }) && !error.is_retryable(), "{error}");
                let text = error.to_string();
                // In a batch some servers do not name the command, but it is among those that are told.
                assert!(text.contains("the script lock/acquire needs ") && text.contains("EXISTS"), "{text}");
                assert!(text.contains("the user lacks the right +") && text.contains("+exists"), "{text}");
            }
        });
    });
}

/// Takes away one command after the other from users of a kind, and gives what was refused: the words of the command, and whether the
/// taking back was refused too. Either way nothing is held, the error names the right, and no retry is worth its while.
async fn walk(server: &Server, kind: &str, blocks: &[&str]) -> Vec<(String, bool)> {
    let all: Vec<_> = ["server"].iter().chain(blocks).flat_map(|block| rule(block)).collect();
    let commands = all.iter().filter(|part| {
        let of_connections = ["+eval", "+evalsha", "+subscribe", "+unsubscribe", "+ping", "+info"];
        part.starts_with('+') && !part.contains('|') && !of_connections.contains(part)
    });
    let admin = builder("shop:").lease(LEASE).connect(&server.url()).await.expect("a client of the administrator");
    let url = format!("redis://app:open@{}", server.addr());
    set_user(server, &all);
    let user = builder("shop:").lease(LEASE).connect(&url).await.expect("a client");
    let mut refused = Vec::new();
    for command in commands {
        let name = format!("{kind}:{}", &command[1..]);
        set_up(&admin, kind, &name).await;
        server.command(&["ACL", "SETUSER", "app", &command.replace('+', "-")]);
        let taken = take(&user, kind, &name).await;
        let stuck = match &taken {
            Ok(_) => false,
            Err(error @ Error::Refused { refusal, .. }) => {
                let text = refusal.text();
                assert!(
                    text.contains(&format!("lacks the right {command}")) || text.contains(&format!("or {command}")),
                    "{text}"
                );
                assert!(text.contains(&command[1..].to_uppercase()), "{text}");
                assert!(!error.is_retryable() && error.http_status() == 500, "{text}");
                // Another client gets it at once: nothing was granted.
                let other = take(&admin, kind, &name).await;
                assert!(matches!(other, Ok(true)), "{kind} without {command}: {taken:?}, and then {other:?}");
                text.contains("failed")
            }
            Err(other) => panic!("{kind} without {command}: {other:?}"),
        };
        if taken.is_err() {
            refused.push((command[1..].to_owned(), stuck));
            let left = without_end(server, &name);
            assert!(left.is_empty(), "{kind} without {command}: {left:?} would stay for ever");
        }
        server.command(&["ACL", "SETUSER", "app", command]);
        until("the client is at rest", || user.stats().cleaning_up == 0).await;
        let other = take(&admin, kind, &name).await;
        assert!(matches!(other, Ok(true)), "{kind} after {command} was given back: {other:?}");
    }
    user.shutdown(HUNG).await.expect("a shutdown");
    admin.shutdown(HUNG).await.expect("a shutdown");
    refused
}

#[test]
fn acquire_refused_a_command_leaves_nothing_behind() {
    on_each(|binary| {
        let server = Server::builder().binary(binary).start();
        for (kind, blocks) in KINDS {
            let refused = runtime().block_on(walk(&server, kind, blocks));
            eprintln!("{kind}: {refused:?}");
            // A single `SET` acquires a free simple lock.
            let least = if kind == "simple" { 1 } else { 2 };
            assert!(refused.len() >= least, "{kind}: {refused:?}");
            let stuck = |wanted: &str| refused.iter().find(|(command, _)| command == wanted).map(|(_, stuck)| *stuck);
            match kind {
                // These come before the first write, so that there is nothing to be taken back.
                "write" => assert!(stuck("zrem").is_some() && stuck("del").is_some(), "{refused:?}"),
                "permits" => assert_eq!(stuck("pttl"), Some(false), "{refused:?}"),
                "read" => assert_eq!(stuck("pexpire"), Some(false), "{refused:?}"),
                _ => {}
            }
        }
    });
}

#[test]
fn a_right_that_is_missing_keeps_nobody_else_from_the_lock() {
    on_each(|binary| {
        let server = Server::builder().binary(binary).start();
        for (kind, block, lacking) in [
            ("write", "read_write", "-zrem"),
            ("write", "read_write", "-del"),
            ("read", "read_write", "-pexpire"),
            ("permits", "permits", "-pttl"),
        ] {
            set_user(&server, &[rule("server"), rule(block), vec![lacking]].concat());
            let url = format!("redis://app:open@{}", server.addr());
            runtime().block_on(async {
                let admin = builder("shop:").lease(LEASE).connect(&server.url()).await.expect("a client");
                let user = builder("shop:").lease(LEASE).connect(&url).await.expect("a client");
                let name = format!("named:{kind}:{lacking}");
                set_up(&admin, kind, &name).await;
                let error = take(&user, kind, &name).await.expect_err("no permission");
                assert!(error.to_string().contains(&format!("+{}", &lacking[1..])), "{error}");
                let other = take(&admin, kind, &name).await;
                assert!(matches!(other, Ok(true)), "{kind} {lacking}: {error:?}, and then {other:?}");
                assert!(without_end(&server, &name).is_empty(), "{kind} {lacking}");
            });
        }
    });
}

//! Faults of one server: it restarts, forgets scripts, pauses, and kills connections.

use crate::support::{RENEWED, connect, counts, held, on_each, on_one_of_each, runtime, settings, soon, until};
use leasehold::{Error, LossReason};
use leasehold_test_support::{After, Proxy, Server};
use std::time::{Duration, Instant};

#[test]
fn inspection_fails_in_a_known_outage_and_is_answered_after_it() {
    on_each(|binary| {
        let server = Server::builder().binary(binary).start();
        let proxy = Proxy::to(&server);
        runtime().block_on(async {
            let client =
                settings().command_timeout(Duration::from_secs(10)).connect(&proxy.url()).await.expect("a client");
            let lock = client.lock("stock");
            let _guard = held(&client, "stock").await;
            proxy.refuse(true);
            proxy.cut();
            loop {
                match soon("a look", lock.inspect()).await {
                    // The loss of the connection has not been noticed yet.
                    Ok(_) | Err(Error::OutcomeUnknown { .. }) => {}
                    Err(Error::Unreachable { .. }) => break,
                    Err(error) => panic!("the server is out of reach: {error}"),
                }
            }
            proxy.refuse(false);
            while let Err(error) = soon("a look", lock.inspect()).await {
                assert!(matches!(error, Error::Unreachable { .. }), "{error}");
                tokio::task::yield_now().await;
            }
            assert!(lock.inspect().await.expect("an answer").is_some());
        });
    });
}

#[test]
fn a_server_that_restarts_empty_loses_every_guard_early() {
    on_each(|binary| {
        let server = Server::builder().binary(binary).start();
        runtime().block_on(async {
            let client = connect(&server.url()).await;
            let mut guards = Vec::new();
            for number in 0..100 {
                guards.push(held(&client, &format!("stock:{number}")).await);
            }
            let tokens: Vec<_> = guards.iter().map(leasehold::Guard::cancellation_token).collect();
            server.restart();
            for (guard, token) in guards.iter().zip(&tokens) {
                // No lease ends, and no renewal is due, for as long as the test takes.
                let lost = soon("the news of the loss", guard.lost()).await;
                assert_eq!(lost.reason(), LossReason::Removed);
                assert!(token.is_cancelled() && !guard.is_held());
            }
            for guard in guards {
                let released = guard.release().await;
                let expected = |reason: &LossReason| *reason == LossReason::Removed;
                assert!(matches!(&released, Err(Error::Lost { reason, .. }) if expected(reason)), "{released:?}");
            }
            let guard = soon("an acquire", client.lock("stock:0").acquire()).await.expect("the lock");
            assert_eq!(counts(&server, "stock:0"), [1]);
            soon("a release", guard.release()).await.expect("a release");
            until("the client is at rest", || client.stats().cleaning_up == 0).await;
        });
    });
}

#[test]
fn one_key_of_another_type_harms_no_other_renewal() {
    on_each(|binary| {
        let server = Server::builder().binary(binary).start();
        runtime().block_on(async {
            let client = settings().lease(RENEWED).connect(&server.url()).await.expect("a client");
            let mut guards = Vec::new();
            for number in 0..20 {
                guards.push(held(&client, &format!("stock:{number}")).await);
            }
            server.command(&["SET", "stock:7", "somebody else's"]);
            let spoilt = guards.remove(7);
            let lost = soon("the news of the loss", spoilt.lost()).await;
            assert_eq!(lost.reason(), LossReason::Removed);
            crate::support::pass(RENEWED).await;
            for guard in guards {
                assert!(guard.is_held(), "{guard:?}");
                guard.release().await.expect("a release");
            }
            drop(spoilt);
            until("the client is at rest", || client.stats().cleaning_up == 0).await;
            assert_eq!(server.command(&["GET", "stock:7"]).as_str(), Some("somebody else's"));
        });
    });
}

#[test]
fn a_server_that_forgets_its_scripts_is_told_them_again() {
    on_each(|binary| {
        let server = Server::builder().binary(binary).start();
        runtime().block_on(async {
            let client = settings().lease(RENEWED).connect(&server.url()).await.expect("a client");
            let kept = held(&client, "kept").await;
            let end = Instant::now() + RENEWED * 5 / 4;
            while Instant::now() < end {
                server.command(&["SCRIPT", "FLUSH"]);
                let guard = held(&client, "stock").await;
                server.command(&["SCRIPT", "FLUSH"]);
                let inner = guard.reenter().await.expect("a re-entry");
                assert_eq!((inner.hold_count(), counts(&server, "stock")), (2, vec![2]));
                server.command(&["SCRIPT", "FLUSH"]);
                inner.release().await.expect("a release");
                guard.release().await.expect("a release");
                assert_eq!(server.command(&["EXISTS", "stock"]).as_int(), Some(0));
            }
            assert!(kept.is_held());
            kept.release().await.expect("a release");
        });
    });
}

#[test]
fn paused_server_costs_each_call_a_timeout_and_no_count() {
    on_one_of_each(|binary| {
        // A server whose process is stopped pauses for whatever is sent, and needs no connection to go on.
        for pauses_all in [false, true] {
            let server = Server::builder().binary(binary).start();
            runtime().block_on(async {
                let client = connect(&server.url()).await;
                let (kept, outer, done) =
                    (held(&client, "kept").await, held(&client, "outer").await, held(&client, "done").await);
                let (tried, bounded, name) = (client.lock("tried"), client.lock("bounded"), client.lock("kept"));
                if pauses_all {
                    server.stop();
                } else {
                    server.command(&["CLIENT", "PAUSE", "600000", "WRITE"]);
                }
                let wait = Duration::from_millis(700);
                let ends = async {
                    let answers = tokio::join!(
                        soon("a try", tried.try_acquire()),
                        soon("a bounded acquire", bounded.acquire().wait(wait)),
                        soon("a look", name.inspect()),
                    );
                    if pauses_all {
                        server.resume();
                    } else {
                        server.command(&["CLIENT", "UNPAUSE"]);
                    }
                    answers
                };
                let ((tried, bounded, seen), entered, released) =
                    tokio::join!(ends, soon("a re-entry", outer.reenter()), soon("a release", done.release()));
                // A script that writes waits in both modes; one that only reads counts as one that may write.
                for error in [tried.expect_err("no answer"), bounded.expect_err("no answer"), seen.expect_err("none")] {
                    let honest = matches!(error, Error::OutcomeUnknown { .. } | Error::Unreachable { .. });
                    assert!(honest, "pauses all: {pauses_all}: {error:?}");
                    let text = error.to_string();
                    let says = ["no reply came", "no reply within", "was lost", "does not answer"];
                    assert!(says.iter().any(|words| text.contains(words)), "{text}");
                }
                released.unwrap_or_else(|error| assert!(matches!(error, Error::OutcomeUnknown { .. }), "{error:?}"));
                let inner =
                    entered.inspect_err(|error| assert!(matches!(error, Error::OutcomeUnknown { .. }), "{error:?}"));
                let expected = 1 + u32::from(inner.is_ok());
                assert_eq!(outer.hold_count(), expected);
                until("what was begun has been taken back", || {
                    server.command(&["EXISTS", "tried", "bounded", "done"]).as_int() == Some(0)
                        && counts(&server, "outer") == [expected]
                })
                .await;
                assert!(kept.is_held() && outer.is_held());
                until("the client is at rest", || client.stats().cleaning_up == 0).await;
                assert_eq!(counts(&server, "outer"), [expected]);
            });
        }
    });
}

#[test]
fn killed_connections_cost_a_moment_and_count_nothing_twice() {
    on_each(|binary| {
        let server = Server::builder().binary(binary).start();
        runtime().block_on(async {
            let client = connect(&server.url()).await;
            let outer = held(&client, "outer").await;
            for kind in ["normal", "pubsub", "normal", "normal", "pubsub", "normal"] {
                let kill = async { server.command(&["CLIENT", "KILL", "TYPE", kind]) };
                let (entered, _) = tokio::join!(soon("a re-entry", outer.reenter()), kill);
                match entered {
                    Ok(inner) => {
                        assert_eq!((outer.hold_count(), counts(&server, "outer")), (2, vec![2]));
                        soon("a release", inner.release()).await.expect("a release");
                    }
                    Err(error) => {
                        assert!(matches!(error, Error::OutcomeUnknown { .. }), "{error:?}");
                    }
                }
                until("the count is one again", || counts(&server, "outer") == [1]).await;
                let next = soon("an acquire", client.lock("next").acquire()).await.expect("the lock");
                assert_eq!(counts(&server, "next"), [1]);
                server.command(&["CLIENT", "KILL", "TYPE", kind]);
                soon("a release", next.release()).await.expect("a release");
                assert_eq!(server.command(&["EXISTS", "next"]).as_int(), Some(0));
            }
            assert!(outer.is_held());
            outer.release().await.expect("a release");
            until("the client is at rest", || client.stats().cleaning_up == 0).await;
        });
    });
}

#[test]
fn missing_reply_costs_a_timeout_and_counts_once() {
    on_each(|binary| {
        let server = Server::builder().binary(binary).start();
        let proxy = Proxy::to(&server);
        runtime().block_on(async {
            let client = connect(&proxy.url()).await;
            let lock = client.lock("stock");
            held(&client, "stock").await.release().await.expect("a release");
            for after in [After::Hang, After::Close] {
                // The server carries each of these out, and does not say so.
                let trap = proxy.swallow_reply_to("stock", after);
                let guard = soon("an acquire", lock.acquire()).await.expect("the lock");
                assert!(trap.worked());
                assert_eq!(counts(&server, "stock"), [1]);
                let trap = proxy.swallow_reply_to("stock", after);
                let inner = soon("a re-entry", guard.reenter()).await.expect("a re-entry");
                assert!(trap.worked());
                assert_eq!((guard.hold_count(), counts(&server, "stock")), (2, vec![2]));
                let trap = proxy.swallow_reply_to("stock", after);
                soon("a release", inner.release()).await.expect("a release");
                assert!(trap.worked());
                assert_eq!(counts(&server, "stock"), [1]);
                let trap = proxy.swallow_reply_to("stock", after);
                soon("a release", guard.release()).await.expect("a release");
                assert!(trap.worked());
                assert_eq!(server.command(&["EXISTS", "stock"]).as_int(), Some(0));
                until("the client is at rest", || client.stats().cleaning_up == 0).await;
            }
        });
    });
}

#[test]
fn waiter_of_a_busy_simple_lock_costs_one_command_a_try() {
    on_one_of_each(|binary| {
        let server = Server::builder().binary(binary).start();
        runtime().block_on(async {
            let (holder, waiter) = (connect(&server.url()).await, connect(&server.url()).await);
            let _guard = holder.simple_lock("stock", Duration::from_secs(600)).acquire().await.expect("the lock");
            let before = server.commandstats("set");
            let lock = waiter.simple_lock("stock", Duration::from_secs(600));
            let waiting = tokio::spawn(lock.acquire().into_future());
            until("it has tried again and again", || server.commandstats("evalsha") >= 5).await;
            assert_eq!(server.commandstats("set") - before, 1, "only the first try begins with SET");
            waiting.abort();
        });
    });
}

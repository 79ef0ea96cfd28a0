//! Imitations of managed services, proxies and other implementations. `cargo xtask services` runs the behaviour suite on them.

use crate::support::{RENEWED, held, pass, runtime, settings, soon, until};
use leasehold::{Client, Error, Replicas};
use leasehold_test_support::{Binary, Keys, Outcome, Profile, Refusal, Service};
use std::time::Duration;

/// Starts an imitation of every service that `chosen` accepts, and runs the test on all of them at the same time.
fn on_services(chosen: impl Fn(&Profile) -> bool, test: impl AsyncFn(&Service) + Sync) {
    let binary = Binary::any().expect("a server");
    std::thread::scope(|scope| {
        for profile in Profile::ALL.iter().filter(|profile| chosen(profile)) {
            let (binary, test) = (&binary, &test);
            scope.spawn(move || {
                eprintln!("as {} on {binary}", profile.name);
                runtime().block_on(test(&Service::start(profile, binary)));
            });
        }
    });
}

fn works(profile: &Profile) -> bool {
    profile.outcome == Outcome::Works
}

#[test]
fn locks_of_every_kind_work_on_services() {
    on_services(works, async |service| {
        let client = settings().lease(RENEWED).connect(&service.url()).await.expect("a client");
        let other = settings().connect(&service.url()).await.expect("a client");
        let plain = held(&client, "plain").await;
        let fair = soon("a fair lock", client.fair_lock("fair").acquire()).await.expect("a fair lock");
        let fenced = soon("a token", client.fenced_lock("fenced").acquire()).await.expect("a token");
        let reader = soon("a reader", client.read_write_lock("shared").read().acquire()).await.expect("a reader");
        let waiting = other.lock("plain");
        let waiting = tokio::spawn(async move { waiting.acquire().await });
        until("the other client listens", || other.stats().subscriptions == 1).await;
        pass(RENEWED * 2).await;
        assert!(plain.is_held() && fair.is_held() && fenced.is_held() && reader.is_held(), "every hold is renewed");
        plain.release().await.expect("a release");
        let woken = soon("the waiter", waiting).await.expect("a task").expect("the lock");
        woken.release().await.expect("a release");
        fair.release().await.expect("a release");
        fenced.release().await.expect("a release");
        reader.release().await.expect("a release");
    });
}

#[test]
fn acquire_that_waits_for_replicas_names_the_command_that_the_service_lacks() {
    let lacks_wait = |profile: &Profile| works(profile) && profile.refused.contains(&"WAIT");
    on_services(lacks_wait, async |service| {
        let client = settings().connect(&service.url()).await.expect("a client");
        let acquire =
            client.lock("kept").acquire().durable(Replicas { at_least: 1, within: Duration::from_millis(100) });
        let error = soon("a refusal", acquire).await.expect_err("there is no WAIT");
        let named = match service.profile().refusal {
            Refusal::NoPermission => "'wait'",
            Refusal::Unknown | Refusal::HangsUp => "needs WAIT: acquire without it",
        };
        assert!(matches!(error, Error::Refused { .. }) && error.to_string().contains(named), "{error}");
        until("the lock is free", || service.server().command(&["EXISTS", "kept"]).as_int() == Some(0)).await;
    });
}

#[test]
fn service_without_a_needed_command_is_named_by_the_error() {
    on_services(
        |profile| matches!(profile.outcome, Outcome::Fails(_)),
        async |service| {
            let Outcome::Fails(words) = service.profile().outcome else { unreachable!("it works") };
            let text = match soon("a connect", Client::builder().connect(&service.url())).await {
                Err(error) => error.to_string(),
                Ok(client) => {
                    let held = soon("a lock", client.lock("stock").acquire()).await;
                    match held {
                        Err(error) => error.to_string(),
                        Ok(_guard) => panic!("{} has locks", service.profile().name),
                    }
                }
            };
            assert!(text.contains(words), "{}: {text}", service.profile().name);
        },
    );
}

#[test]
fn reader_that_expired_hinders_nobody_where_scripts_may_use_declared_keys_only() {
    on_services(
        |profile| profile.keys == Keys::Declared,
        async |service| {
            let server = service.server();
            for words in [
                &["HSET", "shared", "mode", "read", "6f0c0000-0000-0000-0000-000000000000:7", "1"][..],
                &["PEXPIRE", "shared", "600000"],
                &["ZADD", "leasehold:1:rw_readers:{shared}", "1", "6f0c0000-0000-0000-0000-000000000000:7"],
            ] {
                assert!(!server.command(words).is_error());
            }
            let client = settings().connect(&service.url()).await.expect("a client");
            let writer = soon("a writer", client.read_write_lock("shared").write().acquire()).await.expect("the lock");
            writer.release().await.expect("a release");
        },
    );
}

#[test]
fn wait_without_subscriptions_is_refused_and_a_spin_lock_can_be_waited_for() {
    on_services(
        |profile| profile.outcome == Outcome::Polls,
        async |service| {
            let client = settings().connect(&service.url()).await.expect("a client");
            let other = settings().connect(&service.url()).await.expect("a client");
            let plain = held(&client, "plain").await;
            let error = soon("a refusal", other.lock("plain").acquire()).await.expect_err("nobody can subscribe");
            assert!(error.to_string().contains("use a spin lock"), "{error}");
            plain.release().await.expect("a release");
            let spin = soon("a spin lock", client.spin_lock("spin").acquire()).await.expect("a spin lock");
            let spinner = other.spin_lock("spin");
            let spinning = tokio::spawn(async move { spinner.acquire().await });
            until("the other client waits", || other.stats().requests == 1).await;
            spin.release().await.expect("a release");
            let got = soon("the waiter", spinning).await.expect("a task").expect("the lock");
            got.release().await.expect("a release");
        },
    );
}

//! The input that is refused before anything is sent, and the data that the server refuses.

use crate::support::{World, ms, secs};
use leasehold::embedded::{EmbeddedServer, ManualClock};
use leasehold::error::NameError;
use leasehold::once::Period;
use leasehold::{Client, ConnectError, Error, FairSettings, InvalidInput, Tuning};
use std::time::Duration;

pub(crate) async fn names_are_checked_before_anything_is_sent(world: World) {
    let world = world.own();
    let client = world.client_with(|builder| builder.prefix("shop:")).await;
    let before = world.calls();
    let refused = async |name: &str| {
        let error = client.lock(name).acquire().await.expect_err("a name that cannot be used");
        let tried = client.lock(name).try_acquire().await.expect_err("a name that cannot be used");
        let seen = client.lock(name).inspect().await.expect_err("a name that cannot be used");
        let forced = client.lock(name).force_release().await.expect_err("a name that cannot be used");
        assert!(error == tried && tried == seen && seen == forced, "{error} {tried} {seen} {forced}");
        error
    };
    assert_eq!(refused("").await, Error::Invalid(InvalidInput::Name(NameError::Empty)));
    let long = "x".repeat(1020);
    assert_eq!(refused(&long).await, Error::Invalid(InvalidInput::Name(NameError::TooLong { bytes: 1025 })));
    for unseen in [" ", "stock\n", " stock", "stock\r\n", "\u{feff}stock", "stock\u{a0}"] {
        let error = Error::Invalid(InvalidInput::Name(NameError::UnseenEnd { name: unseen.to_owned() }));
        assert_eq!(refused(unseen).await, error);
        let of_parts = [
            client.striped_lock(unseen, 4).of("x").acquire().await.expect_err("a name that cannot be used"),
            client.fair_lock(unseen).acquire().await.expect_err("a name that cannot be used"),
            client.count_down_latch(unseen).count().await.expect_err("a name that cannot be used"),
            client.read_write_lock(unseen).read().acquire().await.expect_err("a name that cannot be used"),
            client
                .once(unseen, Period::key("1"))
                .run(async |_| ())
                .await
                .expect_err("a name that cannot be used")
                .into(),
            client
                .once("job", Period::key(unseen))
                .run(async |_| ())
                .await
                .expect_err("a name that cannot be used")
                .into(),
        ];
        assert!(of_parts.iter().all(|part| *part == error), "{unseen:?}: {of_parts:?}");
        let prefixed = Client::builder().prefix(unseen).embedded(&EmbeddedServer::new());
        assert!(matches!(prefixed, Err(ConnectError::Invalid { .. })), "{unseen:?}");
    }
    let unplaceable = "a{}b{c}";
    if world.backend.is_cluster() {
        let error = refused(unplaceable).await;
        assert!(matches!(&error, Error::Invalid(InvalidInput::Name(NameError::Unplaceable { .. }))), "{error}");
        assert!(error.to_string().contains("balanced braces"), "{error}");
    } else {
        client.lock(unplaceable).acquire().await.expect("only a cluster has slots").release().await.expect("a release");
    }
    let sent = if world.backend.is_cluster() { 0 } else { 2 };
    assert!(world.calls() - before <= sent * 2, "refused names are not sent");
    let longest = "x".repeat(1019);
    client.lock(&longest).acquire().await.expect("the longest name").release().await.expect("a release");
}

pub(crate) async fn settings_that_a_server_ignores_are_refused(_: World) {
    let (clock, url) = (ManualClock::new(), "redis://127.0.0.1:1");
    let now = tokio::time::Instant::now();
    for builder in
        [Client::builder().manual_clock(&clock), Client::builder().tokio_clock(now), Client::builder().seed(7)]
    {
        for refused in [builder.clone().connect_lazy(url), builder.connect(url).await] {
            let error = refused.expect_err("a setting of embedded engines");
            assert!(
                matches!(&error, ConnectError::Invalid { message, .. } if message.contains("embedded")),
                "{error:?}"
            );
        }
    }
}

pub(crate) async fn durations_are_checked_before_anything_is_sent(world: World) {
    let world = world.own();
    let client = world.client().await;
    let lock = client.lock(world.name("durations"));
    let before = world.calls();
    for lease in [Duration::ZERO, ms(1), ms(49), leasehold::MAX_LEASE + ms(1), Duration::MAX] {
        let error = lock.acquire().lease(lease).await.expect_err("a lease that cannot be used");
        assert!(
            matches!(&error, Error::Invalid(InvalidInput::Duration { what: "lease", given, .. }) if *given == lease)
        );
        assert!(error.to_string().contains("lease"), "{error}");
        let error = lock.acquire().max_hold(lease).await.expect_err("a longest hold that cannot be used");
        assert!(matches!(error, Error::Invalid(InvalidInput::Duration { what: "longest hold", .. })), "{error}");
    }
    assert_eq!(world.calls(), before, "nothing was sent");
    for lease in [leasehold::MIN_LEASE, leasehold::MAX_LEASE] {
        match lock.acquire().lease(lease).await {
            Ok(guard) => {
                assert!(guard.remaining() <= lease);
                let _ = guard.release().await;
            }
            // The machine was too slow for the shortest lease.
            Err(error) => {
                assert!(lease == leasehold::MIN_LEASE && matches!(error, Error::Unreachable { .. }), "{error}")
            }
        }
    }
}

pub(crate) async fn settings_are_checked_before_anything_is_sent(world: World) {
    let refused = async |builder: leasehold::ClientBuilder| match world
        .try_connect(|_| builder)
        .await
        .expect_err("settings that cannot be used")
    {
        ConnectError::Invalid { message: why, .. } => why,
        other => panic!("{other}"),
    };
    assert!(refused(Client::builder().lease(Duration::ZERO)).await.contains("lease"));
    assert!(refused(Client::builder().lease(Duration::MAX)).await.contains("lease"));
    assert!(refused(Client::builder().tuning(Tuning::new().recheck(Duration::ZERO))).await.contains("re-check"));
    assert!(refused(Client::builder().default_wait(Duration::ZERO)).await.contains("wait"));
    assert!(refused(Client::builder().command_timeout(Duration::ZERO)).await.contains("command"));
    assert!(refused(Client::builder().unreachable_after(Duration::ZERO)).await.contains("unreachable"));
    assert!(refused(Client::builder().connect_deadline(Duration::ZERO)).await.contains("connect"));
    let fair = |fair| Client::builder().fair(fair);
    assert!(refused(fair(FairSettings::new().liveness_timeout(ms(1)))).await.contains("liveness"));
    assert!(
        refused(fair(FairSettings::new().liveness_timeout(secs(1)).heartbeat_interval(ms(300))))
            .await
            .contains("heartbeat")
    );
    assert!(refused(fair(FairSettings::new().offer_timeout(Duration::ZERO))).await.contains("offer"));
    assert!(refused(fair(FairSettings::new().redisson(Duration::ZERO, ms(0)))).await.contains("JVM"));
    assert!(refused(Client::builder().prefix("x".repeat(1024))).await.contains("1024"));
}

pub(crate) async fn an_owner_of_another_client_is_refused(world: World) {
    let (one, other) = (world.client().await, world.client().await);
    let lock = one.lock(world.name("stock"));
    let stranger = other.new_owner();
    let error = lock.acquire().owner(&stranger).await.expect_err("an owner of another client");
    assert_eq!(error, Error::Invalid(InvalidInput::ForeignOwner));
    assert!(!world.exists(lock.name()), "nothing was sent");
    // A stranger's scope is no owner of ours: an acquire in it is on its own.
    let guard = stranger.scope(async { lock.acquire().await }).await.expect("the lock, by an owner of its own");
    assert!(lock.try_acquire().await.expect("an answer").is_none());
    guard.release().await.expect("a release");
}

pub(crate) async fn a_name_that_holds_something_else_is_a_conflict(world: World) {
    let client = world.client().await;
    let name = world.name("taken");
    let lock = client.lock(&name);
    let scenes: [(&[&str], &str); 6] = [
        (&["SET", &name, "value"], "string"),
        (&["RPUSH", &name, "value"], "list"),
        (&["ZADD", &name, "1", "value"], "zset"),
        (&["HSET", &name, "mode", "read"], "read-write lock"),
        (&["SADD", &name, "value"], "set"),
        (&["XADD", &name, "*", "field", "value"], "stream"),
    ];
    for (words, kind) in scenes {
        if world.command(&name, words).is_error() {
            // The embedded engine has only what the scripts use.
            assert!(world.engine.is_inside(), "{kind}");
            continue;
        }
        let is_conflict =
            |error: &Error| matches!(error, Error::KeyConflict { kind: found, .. } if found.contains(kind));
        let error = lock.acquire().wait(secs(5)).await.expect_err("a key of another kind");
        assert!(is_conflict(&error), "{error}");
        let error = lock.try_acquire().await.expect_err("a key of another kind");
        assert!(is_conflict(&error), "{error}");
        let error = lock.inspect().await.expect_err("a key of another kind");
        assert!(is_conflict(&error), "{error}");
        let error = lock.force_release().await.expect_err("a key of another kind");
        assert!(is_conflict(&error), "{error}");
        assert!(world.exists(&name), "what is there is not touched");
        world.delete(&name);
    }
    lock.acquire().await.expect("the lock, since the name is free").release().await.expect("a release");
}

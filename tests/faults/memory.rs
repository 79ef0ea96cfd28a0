//! Servers that are full, or that may evict what they hold.

use crate::support::{RENEWED, counts, held, lease_left, on_each, runtime, settings, soon, until};
use leasehold::{Client, ConnectError, Error};
use leasehold_test_support::Server;
use metrics_util::debugging::{DebugValue, DebuggingRecorder};
use std::time::Duration;

#[test]
fn a_full_server_still_renews_and_releases() {
    on_each(|binary| {
        let server = Server::builder().binary(binary).start();
        runtime().block_on(async {
            let client = settings().lease(RENEWED).connect(&server.url()).await.expect("a client");
            let (whole, outer) = (held(&client, "whole").await, held(&client, "outer").await);
            let inner = outer.reenter().await.expect("a re-entry");
            server.command(&["CONFIG", "SET", "maxmemory", "1"]);
            // The guards live on beyond their leases.
            crate::support::pass(RENEWED * 5 / 4).await;
            assert!(whole.is_held() && outer.is_held());
            assert!(lease_left(&server, "whole") > Duration::ZERO);
            soon("a release", whole.release()).await.expect("a release");
            assert_eq!(server.command(&["EXISTS", "whole"]).as_int(), Some(0));
            // Nothing new goes in, and the error says why.
            let refused = soon("an acquire", client.lock("new").acquire()).await;
            assert!(refused.is_err_and(|error| is_out_of_memory(&error)));
            // To lower a count writes a field, which a full server refuses. It is reported, and done later.
            let refused = soon("a release", inner.release()).await;
            assert!(refused.is_err_and(|error| is_out_of_memory(&error)));
            assert_eq!((counts(&server, "outer"), outer.is_held()), (vec![2], true));
            server.command(&["CONFIG", "SET", "maxmemory", "0"]);
            until("the count is lowered", || counts(&server, "outer") == [1]).await;
            until("the guard knows", || outer.hold_count() == 1).await;
            soon("a release", outer.release()).await.expect("a release");
            until("the client is at rest", || client.stats().cleaning_up == 0).await;
        });
    });
}

#[test]
fn refused_partial_release_does_not_block_the_last_one() {
    on_each(|binary| {
        let server = Server::builder().binary(binary).start();
        runtime().block_on(async {
            let client = crate::support::connect(&server.url()).await;
            let outer = held(&client, "outer").await;
            let inner = outer.reenter().await.expect("a re-entry");
            server.command(&["CONFIG", "SET", "maxmemory", "1"]);
            let refused = soon("a release", inner.release()).await;
            assert!(refused.is_err_and(|error| is_out_of_memory(&error)));
            soon("a release", outer.release()).await.expect("a release");
            assert_eq!(server.command(&["EXISTS", "outer"]).as_int(), Some(0));
        });
    });
}

#[test]
fn last_release_behind_a_dropped_entry_is_not_refused() {
    on_each(|binary| {
        let server = Server::builder().binary(binary).start();
        runtime().block_on(async {
            let client = crate::support::connect(&server.url()).await;
            for round in 0..20 {
                let name = format!("outer:{round}");
                let outer = held(&client, &name).await;
                let inner = outer.reenter().await.expect("a re-entry");
                server.command(&["CONFIG", "SET", "maxmemory", "1"]);
                // The background lowers the count, which a full server refuses; ending the hold it allows.
                drop(inner);
                soon("a release", outer.release()).await.expect("a release");
                assert_eq!(server.command(&["EXISTS", &name]).as_int(), Some(0));
                server.command(&["CONFIG", "SET", "maxmemory", "0"]);
            }
        });
    });
}

#[test]
fn a_server_that_may_evict_locks_is_warned_of_or_refused() {
    on_each(|binary| {
        for policy in ["allkeys-lru", "volatile-lru", "volatile-ttl"] {
            let server = Server::builder().binary(binary).arg("maxmemory-policy", policy).start();
            let runtime = runtime();
            let recorder = DebuggingRecorder::new();
            let counted = recorder.snapshotter();
            let log = crate::secrets::Log::default();
            let client = tracing::subscriber::with_default(log.subscriber(), || {
                metrics::with_local_recorder(&recorder, || runtime.block_on(Client::connect(&server.url())))
            });
            let client = client.expect("a client, which is only warned");
            assert_eq!(client.server().eviction_policy.as_deref(), Some(policy));
            let counted = counted.snapshot().into_vec();
            let counter = |(key, _, _, value): &(metrics_util::CompositeKey, _, _, DebugValue)| {
                key.key().name() == leasehold::telemetry::EVICTION_TOTAL && matches!(value, DebugValue::Counter(1))
            };
            assert!(counted.iter().any(counter), "the warning is counted");
            let text = log.text();
            assert!(text.contains("WARN") && text.contains(policy) && text.contains("noeviction"), "{text}");
            let strict = Client::builder().require_noeviction(true);
            let error = runtime.block_on(strict.connect(&server.url())).expect_err("a server that is refused");
            assert!(
                matches!(error, ConnectError::Unsuitable { .. }) && error.to_string().contains(policy),
                "{error:?}"
            );
        }
        let server = Server::builder().binary(binary).start();
        let strict = Client::builder().require_noeviction(true);
        runtime().block_on(strict.connect(&server.url())).expect("a server that evicts nothing");
    });
}

fn is_out_of_memory(error: &Error) -> bool {
    matches!(error, Error::Refused { refusal, .. } if refusal.text().contains("OOM") || refusal.text().contains("maxmemory"))
}

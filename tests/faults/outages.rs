//! Outages: how soon those who wait learn of one, how it is told, and what becomes of the renewals.

use crate::child::{Child, say};
use crate::support::{held, on_each, on_one_of_each, pass, runtime, scripts, settings, soon, until};
use leasehold::{ClientBuilder, Error, telemetry};
use leasehold_test_support::Server;
use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};
use std::collections::HashMap;
use std::time::Duration;

/// How many locks are held in an outage: more than one batch of renewals has room for.
const HELD: usize = 300;

#[test]
fn sleeping_waiter_learns_of_a_killed_server_in_time() {
    on_each(|binary| {
        let server = Server::builder().binary(binary).start();
        runtime().block_on(async {
            let holder = settings().connect(&server.url()).await.expect("a client");
            let _guard = held(&holder, "stock").await;
            let patience = Duration::from_secs(2);
            let client = settings().unreachable_after(patience).connect(&server.url()).await.expect("a client");
            let lock = client.lock("stock");
            let before = scripts(&server);
            let waiter = tokio::spawn(async move { lock.acquire().await });
            // It tries, subscribes, tries once more, and sleeps.
            until("the waiter sleeps", || {
                server.command(&["PUBSUB", "NUMSUB", "redisson_lock__channel:{stock}"]).elements()[1].as_int()
                    == Some(1)
                    && scripts(&server) >= before + 2
            })
            .await;
            server.kill();
            let told = soon("the waiter's end", waiter).await.expect("a task that ends");
            let error = told.expect_err("no lock");
            assert!(matches!(error, Error::Unreachable { .. }), "{error:?}");
            assert!(error.to_string().contains(&server.addr().to_string()), "{error}");
        });
    });
}

#[test]
fn an_outage_is_told_once_and_renewals_stay_in_batches() {
    on_one_of_each(|binary| {
        let server = Server::builder().binary(binary).start();
        let mut process = Child::start("outage", &server.url(), Duration::from_secs(15));
        process.hear("holds");
        server.stop();
        runtime().block_on(pass(Duration::from_secs(7)));
        server.resume();
        process.order("what was told");
        let text = process.everything();
        let count = |what: &str| {
            let said = text.lines().find_map(|line| line.split_once(&format!("says: {what} ")));
            said.and_then(|(_, number)| number.parse::<usize>().ok()).unwrap_or_else(|| panic!("no {what} in {text}"))
        };
        let [failed, renewed, reconnects, connected, lost, ended] =
            ["failed", "renewed", "reconnects", "connected", "lost", "ended"].map(count);
        let told = |words: &str| text.lines().filter(|line| line.contains(words)).count();
        let lines = told("INFO") + told("WARN") + told("ERROR");
        eprintln!("{lines} lines; batches: {failed} failed, {renewed} renewed");
        assert!(lines <= 20, "{lines} lines: {text}");
        assert_eq!((told("is unreachable"), told("is reachable again")), (1, 1), "{text}");
        assert!(text.contains(&format!("holds={HELD}")), "{text}");
        assert_eq!((reconnects, connected, lost), (1, 1, 0), "{text}");
        assert_eq!(ended, 0, "a client that is shut down is not connected: {text}");
        // In batches there are 30 to 60. Hold for hold, each hold alone would fail several times.
        assert!(failed > 0 && failed < HELD, "{failed} batches failed");
        assert!(renewed <= 40, "{HELD} holds were renewed in {renewed} batches when the server was back");
    });
}

/// The other process: it holds locks while the server is away, and tells what it was told of that.
pub(crate) fn child(builder: ClientBuilder, url: &str) {
    let recorder = DebuggingRecorder::new();
    let metrics = recorder.snapshotter();
    recorder.install().expect("the only recorder");
    let subscriber = tracing_subscriber::fmt().with_max_level(tracing::Level::INFO).with_writer(std::io::stdout);
    subscriber.with_ansi(false).init();
    runtime().block_on(async {
        let client = builder.connect(url).await.expect("a client");
        let names: Vec<_> = (0..HELD).map(|number| format!("lock:{number}")).collect();
        let mut guards = Vec::new();
        for name in &names {
            guards.push(held(&client, name).await);
        }
        let mut counts = HashMap::new();
        add(&mut counts, &metrics);
        // The gauge goes on from what it is.
        counts.retain(|name, _| *name == telemetry::CONNECTED);
        say(format_args!("holds"));
        let mut order = String::new();
        std::io::stdin().read_line(&mut order).expect("an order");
        until("every hold is renewed", || {
            add(&mut counts, &metrics);
            counts.get(telemetry::RENEWED_HOLDS_TOTAL).is_some_and(|holds| *holds >= HELD as f64)
        })
        .await;
        for (word, name) in [
            ("failed", format!("{}=failed", telemetry::RENEW_TOTAL)),
            ("renewed", format!("{}=renewed", telemetry::RENEW_TOTAL)),
            ("reconnects", telemetry::RECONNECTS_TOTAL.to_owned()),
            ("connected", telemetry::CONNECTED.to_owned()),
        ] {
            say(format_args!("{word} {}", counts.get(&name).copied().unwrap_or_default()));
        }
        say(format_args!("lost {}", guards.iter().filter(|guard| !guard.is_held()).count()));
        drop(guards);
        client.shutdown(Duration::from_secs(10)).await.expect("a shutdown");
        add(&mut counts, &metrics);
        say(format_args!("ended {}", counts.get(telemetry::CONNECTED).copied().unwrap_or_default()));
    });
    std::process::exit(0);
}

/// Adds what was recorded since the last look, under the names of the metrics, and of renewals with their outcomes.
fn add(counts: &mut HashMap<String, f64>, metrics: &Snapshotter) {
    for (key, _, _, value) in metrics.snapshot().into_vec() {
        let mut name = key.key().name().to_owned();
        if name == telemetry::RENEW_TOTAL {
            key.key().labels().for_each(|label| name += &format!("={}", label.value()));
        }
        let more = match value {
            DebugValue::Counter(count) => count as f64,
            DebugValue::Gauge(change) => change.0,
            DebugValue::Histogram(_) => continue,
        };
        *counts.entry(name).or_default() += more;
    }
}

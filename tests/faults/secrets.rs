//! Passwords appear nowhere.

use crate::child::Child;
use crate::support::settings;
use leasehold::ClientBuilder;
use leasehold_test_support::{Binary, Cluster, Server};
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tracing_subscriber::fmt::format::FmtSpan;

/// Keeps what is traced.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    /// A subscriber that writes every event and span here.
    pub(crate) fn subscriber(&self) -> impl tracing::Subscriber + Send + Sync + use<> {
        let log = self.clone();
        tracing_subscriber::fmt()
            .with_max_level(tracing::Level::TRACE)
            .with_span_events(FmtSpan::FULL)
            .with_ansi(false)
            .with_writer(move || log.clone())
            .finish()
    }

    /// The text written so far.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
    }
}

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Every password of this test contains this.
const SECRET: &str = "hunter2";

/// Nothing that a process writes, at the most talkative level, and nothing public that can be formatted, shows a password or
/// a private key; and what is written is enough to be read.
#[test]
fn no_password_is_shown_anywhere() {
    // Said here, because the other process says it to itself.
    Binary::with_tls().expect("a server program");
    let mut process = Child::start("secrets", "none", Duration::from_secs(30));
    let text = process.everything();
    for told in ["DEBUG", "leasehold.acquire", "leasehold.hold", "leasehold.release", "connected"] {
        assert!(text.contains(told), "{told:?} is not in what the process wrote");
    }
    for shown in ["Denied", "Unreachable", "Invalid", "Guard {", "Client {", "Lock {", "ClientBuilder {"] {
        assert!(text.contains(shown), "{shown:?} is not in what the process wrote");
    }
    for (number, line) in text.lines().enumerate() {
        assert!(!line.contains(SECRET), "line {number} shows a password: {line}");
        assert!(!line.contains("PRIVATE KEY"), "line {number} shows a private key: {line}");
    }
}

/// The other process: everything that could show a password, with all that it traces on its output.
pub(crate) fn child() {
    let subscriber = tracing_subscriber::fmt().with_max_level(tracing::Level::TRACE).with_writer(io::stdout);
    subscriber.with_span_events(FmtSpan::FULL).with_ansi(false).init();
    crate::support::runtime().block_on(async {
        let user = "app on >hunter2app ~* &* +@all";
        let plain = Server::builder().password("hunter2top").user(user).start();
        let addr = plain.addr();
        let tls = Server::builder().tls().password("hunter2tls").arg("tls-auth-clients", "yes").start();
        let cluster = Cluster::builder().password("hunter2cluster").start();
        let secure = secure(&tls);
        works(&settings(), &plain.url(), &plain).await;
        // RESP2 authenticates by another command.
        let url = format!("redis://:hunter2top@{addr}?protocol=2");
        show(&settings().connect(&url).await.expect("a client"));
        show(&settings().connect(&url.replace("top", "wrong")).await.expect_err("no client"));
        works(&settings(), &format!("redis://app:hunter2app@{addr}"), &plain).await;
        if cfg!(feature = "tls") {
            works(&secure, &tls.url(), &tls).await;
        }
        works(&settings(), &cluster.url(), cluster.node_of("stock")).await;
        let wrong = [
            format!("redis://:hunter2wrong@{addr}"),
            format!("redis://app:hunter2wrong@{addr}"),
            format!("redis-cluster://:hunter2wrong@{}", cluster.nodes().first().expect("a node").addr()),
            format!("redis-sentinel://:hunter2a@{addr}?sentinelServiceName=stock&sentinelPassword=hunter2b"),
            "redis://:hunter2@127.0.0.1:1".to_owned(),
            "redis://app:hunter2@no-such-host.invalid".to_owned(),
            "redis+unix://:hunter2@localhost/no/such/socket".to_owned(),
            "redis://:hunter2/x@localhost".to_owned(),
            "redis://:hunter2@localhost:99999".to_owned(),
            "hunter2://localhost".to_owned(),
            "redis://hunter2@localhost".to_owned(),
            "redis-hunter2://localhost".to_owned(),
            "redis://localhost/hunter2".to_owned(),
            "redis-cluster://localhost?node=hunter2".to_owned(),
            format!("rediss://:hunter2@{addr}"),
            tls.url().replace("hunter2tls", "hunter2wrong"),
        ];
        for url in wrong {
            for builder in [&settings(), &secure] {
                let connected = builder.clone().connect_deadline(Duration::from_millis(800)).connect(&url).await;
                show(&connected.expect_err("no client"));
            }
        }
    });
}

/// The settings for a server that asks for a certificate.
#[cfg(feature = "tls")]
fn secure(server: &Server) -> ClientBuilder {
    let issued = server.ca().issue(&["client"]);
    settings().tls_ca(server.ca_pem()).tls_identity(issued.cert_pem, issued.key_pem)
}

/// Without TLS, a client refuses the server's URL.
#[cfg(not(feature = "tls"))]
fn secure(_: &Server) -> ClientBuilder {
    settings()
}

/// Does what there is to do, with a server that goes away in the middle, and shows everything that there is.
async fn works(builder: &ClientBuilder, url: &str, server: &Server) {
    show(builder);
    let connecting = builder.clone().connect(url);
    let client = connecting.await.expect("a client");
    let lock = client.lock("stock");
    let owner = client.new_owner();
    let acquire = lock.acquire().owner(&owner);
    show(&(&client, client.server(), client.stats(), client.id()));
    show(&(&lock, &owner, &acquire));
    let guard = acquire.await.expect("the lock");
    show(&(&guard, guard.cancellation_token(), guard.reenter().await));
    guard.run(async {}).await.expect("work under the lock");
    show(&lock.inspect().await);
    server.command(&["CLIENT", "KILL", "TYPE", "normal"]);
    show(&lock.try_acquire().await);
    server.command(&["CLIENT", "PAUSE", "700", "ALL"]);
    show(&client.lock("order").try_acquire().await);
    show(&guard.release().await);
    show(&client.shutdown(Duration::from_secs(5)).await);
}

fn show(what: &impl std::fmt::Debug) {
    writeln!(io::stdout(), "{what:?}").expect("an output");
}

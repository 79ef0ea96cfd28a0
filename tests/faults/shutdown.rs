//! A shutdown while the background of its client is held up.

use crate::child::{Child, say};
use crate::support::{held, on_one_of_each, runtime};
use futures_util::FutureExt as _;
use leasehold::{ClientBuilder, Error};
use leasehold_test_support::Server;
use std::io::{self, Write};
use std::pin::pin;
use std::sync::{Condvar, Mutex};
use std::time::Duration;

#[test]
fn lock_dropped_while_the_background_of_a_shutdown_is_held_up_is_released() {
    on_one_of_each(|binary| {
        let server = Server::builder().binary(binary).start();
        let mut process = Child::start("held up", &server.url(), Duration::from_secs(30));
        process.hear("released");
        process.wait();
        assert_eq!(server.command(&["EXISTS", "stock"]).as_int(), Some(0), "it is free");
    });
}

/// Whether the background may go on from where it warns of a semaphore that is not set.
#[derive(Default, PartialEq, Eq)]
enum Gate {
    #[default]
    Ahead,
    Waits,
    Open,
}

static GATE: Mutex<Gate> = Mutex::new(Gate::Ahead);
static MOVED: Condvar = Condvar::new();

/// Takes what is logged, on the thread that logs it.
struct Log;

impl Write for Log {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if String::from_utf8_lossy(line).contains("a semaphore that does not exist") {
            let mut gate = GATE.lock().expect("the gate");
            *gate = Gate::Waits;
            MOVED.notify_all();
            drop(MOVED.wait_while(gate, |gate| *gate != Gate::Open).expect("the gate"));
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The other process: it acquires and shuts down while the background is held up between two of its steps.
pub(crate) fn child(builder: ClientBuilder, url: &str) {
    tracing_subscriber::fmt().with_max_level(tracing::Level::INFO).with_ansi(false).with_writer(|| Log).init();
    runtime().block_on(async {
        let client = builder.connect(url).await.expect("a client");
        let seats = client.bare_semaphore("seats");
        let waiter = tokio::spawn(async move { seats.acquire().await });
        drop(MOVED.wait_while(GATE.lock().expect("the gate"), |gate| *gate != Gate::Waits).expect("the gate"));
        let guard = held(&client, "stock").await;
        let mut shutdown = pin!(client.shutdown(Duration::from_secs(30)));
        assert!(shutdown.as_mut().now_or_never().is_none(), "the background has not ended");
        assert!(guard.is_held());
        drop(guard);
        *GATE.lock().expect("the gate") = Gate::Open;
        MOVED.notify_all();
        shutdown.await.expect("nothing is left");
        assert!(matches!(waiter.await.expect("a task"), Err(Error::ShutDown { .. })));
        say(format_args!("released"));
    });
    std::process::exit(0);
}

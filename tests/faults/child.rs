//! Another process that uses the library: this program, started again to run one test that does nothing otherwise.
//!
//! It is told what to do by lines on its standard input, and says what came of it by lines on its standard output, each
//! behind a mark, because the test harness writes there too. It ends with its input.

use leasehold::Guard;
use leasehold::blocking::wait;
use std::collections::HashMap;
use std::future::poll_fn;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child as Process, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, OnceLock};
use std::task::Poll;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const ROLE: &str = "LEASEHOLD_FAULTS_ROLE";
const URL: &str = "LEASEHOLD_FAULTS_URL";
const LEASE: &str = "LEASEHOLD_FAULTS_LEASE_MS";
const MARK: &str = "child says: ";

/// A process that uses the library. Dropping it kills it.
pub(crate) struct Child {
    process: Process,
    orders: Option<ChildStdin>,
    lines: Receiver<String>,
}

impl Child {
    /// Starts one that obeys: see [`obey`] for the orders.
    pub(crate) fn obedient(url: &str, lease: Duration) -> Self {
        Self::start("obey", url, lease)
    }

    /// Starts one in a role of its own.
    pub(crate) fn start(role: &str, url: &str, lease: Duration) -> Self {
        let this = std::env::current_exe().expect("this program");
        let mut process = Command::new(this)
            .args(["child::the_other_process", "--exact", "--nocapture", "--test-threads=1"])
            .env(ROLE, role)
            .env(URL, url)
            .env(LEASE, lease.as_millis().to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("this program, once more");
        let output = BufReader::new(process.stdout.take().expect("its output"));
        let (heard, lines) = channel();
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                if heard.send(line).is_err() {
                    return;
                }
            }
        });
        Self { orders: process.stdin.take(), process, lines }
    }

    /// Gives an order.
    pub(crate) fn order(&mut self, order: &str) {
        let orders = self.orders.as_mut().expect("its input");
        writeln!(orders, "{order}").and_then(|()| orders.flush()).expect("a process that listens");
    }

    /// The next thing that it says, which must begin with this word; what follows the word.
    #[track_caller]
    pub(crate) fn hear(&self, word: &str) -> String {
        let Some(said) = self.next() else { panic!("the other process did not say {word:?}") };
        let (first, rest) = said.split_once(' ').unwrap_or((&said, ""));
        assert_eq!(first, word, "the other process said {said:?}");
        rest.to_owned()
    }

    /// The next thing that it says.
    #[track_caller]
    pub(crate) fn said(&self) -> String {
        self.next().expect("the other process says something")
    }

    fn next(&self) -> Option<String> {
        loop {
            let line = self.lines.recv_timeout(Duration::from_secs(30)).ok()?;
            if let Some((_, said)) = line.split_once(MARK) {
                return Some(said.to_owned());
            }
        }
    }

    /// Everything that it says, on its own or through the test harness, until it ends.
    pub(crate) fn everything(&mut self) -> String {
        drop(self.orders.take());
        let lines: Vec<_> = self.lines.iter().collect();
        self.wait();
        lines.join("\n")
    }

    /// Waits for its end, which must be a good one.
    #[track_caller]
    pub(crate) fn wait(&mut self) {
        let status = self.process.wait().expect("its end");
        assert!(status.success(), "the other process ended with {status}");
    }

    /// Kills it (SIGKILL).
    pub(crate) fn kill(&mut self) {
        self.process.kill().expect("a process that runs");
    }

    /// Stops it (SIGSTOP), and returns when no thread of it runs any more.
    pub(crate) fn stop(&self) {
        self.signal(rustix::process::Signal::STOP);
        let tasks = format!("/proc/{}/task", self.process.id());
        leasehold_test_support::until("every thread of the other process has stopped", || {
            let threads = std::fs::read_dir(&tasks).expect("its threads");
            threads.flatten().all(|thread| {
                let stat = std::fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
                stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with('T'))
            })
        });
    }

    /// Lets it go on (SIGCONT).
    pub(crate) fn resume(&self) {
        self.signal(rustix::process::Signal::CONT);
    }

    fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.process);
        rustix::process::kill_process(pid, signal).expect("a signal to a process of ours");
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Microseconds of the machine's clock, which two processes can compare.
pub(crate) fn clock() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a time after 1970");
    now.as_micros().try_into().expect("a time before the year 586 000")
}

/// Does nothing, except in a process that [`Child`] started.
#[test]
fn the_other_process() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let url = std::env::var(URL).expect("a URL");
    let lease = std::env::var(LEASE).ok().and_then(|lease| lease.parse().ok()).map(Duration::from_millis);
    let builder = crate::support::settings().lease(lease.expect("a lease"));
    match role.as_str() {
        "obey" => obey(builder, &url),
        "drop blocking" => {
            let client = wait(builder.connect(&url)).expect("a client");
            let guard = wait(client.lock("stock").acquire()).expect("the lock");
            say(format_args!("held"));
            drop(guard);
            drop(client);
            std::process::exit(0);
        }
        "drop outside" => {
            let runtime = crate::support::runtime();
            let client = runtime.block_on(builder.connect(&url)).expect("a client");
            let guard = runtime.block_on(client.lock("stock").acquire().into_future()).expect("the lock");
            say(format_args!("held"));
            drop(client);
            // The guard is the last handle, and the runtime that its client was built on is gone.
            drop(runtime);
            drop(guard);
            std::process::exit(0);
        }
        "static" => keeps_its_client(builder, &url),
        "shut down" => shuts_down(builder, url),
        "secrets" => crate::secrets::child(),
        "outage" => crate::outages::child(builder, &url),
        "held up" => crate::shutdown::child(builder, &url),
        "fork" => crate::forks::child(builder, &url),
        "tickets" => crate::tickets::child(builder, &url),
        role => panic!("no role {role:?}"),
    }
}

/// A client that nothing drops, and its lock that lingers after the release.
fn keeps_its_client(builder: leasehold::ClientBuilder, url: &str) {
    static CLIENT: OnceLock<leasehold::Client> = OnceLock::new();
    let client = CLIENT.get_or_init(|| wait(builder.connect(url)).expect("a client"));
    let lock = client.lock("stock").linger(Duration::from_secs(60));
    loop {
        let guard = wait(lock.acquire()).expect("the lock");
        let lingers = guard.holder_id().to_string().ends_with('~');
        wait(guard.release()).expect("a release");
        if lingers {
            break;
        }
    }
    say(format_args!("held"));
    wait(client.shutdown(Duration::from_secs(10))).expect("a shutdown that releases everything");
    std::process::exit(0);
}

#[tokio::main]
async fn shuts_down(builder: leasehold::ClientBuilder, url: String) {
    let client = builder.connect(&url).await.expect("a client");
    let guard = client.lock("stock").acquire().await.expect("the lock");
    say(format_args!("held"));
    drop(guard);
    let order = client.lock("order").acquire().await.expect("the lock");
    let closed = client.clone();
    let work = tokio::spawn(async move {
        // It ends when it hears of the shutdown, as work behind an HTTP server does.
        while closed.lock("paper").try_acquire().await.is_ok() {
            tokio::task::yield_now().await;
        }
        order.release().await
    });
    client.shutdown(Duration::from_secs(10)).await.expect("a shutdown that releases everything");
    work.await.expect("a task").expect("a release");
    std::process::exit(0);
}

/// Obeys orders until there are no more: `acquire name`, `release name`, and `work name`, which works under the lock that
/// it holds until that is lost.
fn obey(builder: leasehold::ClientBuilder, url: &str) {
    let runtime = crate::support::runtime();
    let client = runtime.block_on(builder.connect(url)).expect("a client");
    let mut guards: HashMap<String, Guard> = HashMap::new();
    say(format_args!("ready"));
    for line in std::io::stdin().lines() {
        let line = line.expect("an order");
        let (verb, name) = line.split_once(' ').expect("an order of two words");
        match verb {
            "acquire" => {
                let guard = runtime.block_on(client.lock(name).acquire().into_future()).expect("the lock");
                say(format_args!("held"));
                guards.insert(name.to_owned(), guard);
            }
            "release" => {
                let guard = guards.remove(name).expect("a lock that it holds");
                runtime.block_on(guard.release()).expect("a release");
                say(format_args!("released"));
            }
            "work" => drop(runtime.spawn(work(guards.remove(name).expect("a lock that it holds")))),
            verb => panic!("no order {verb:?}"),
        }
    }
}

/// Works every few milliseconds, for ever. Reports the start of the last poll but one, because the process may be stopped during the last.
async fn work(guard: Guard) {
    let polled = Arc::new(AtomicU64::new(0));
    let (note, mut last) = (polled.clone(), 0);
    let mut ticks = tokio::time::interval(Duration::from_millis(5));
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut first = true;
    let work = poll_fn(|cx| {
        note.store(std::mem::replace(&mut last, clock()), Ordering::Relaxed);
        if std::mem::take(&mut first) {
            say(format_args!("works"));
        }
        while ticks.poll_tick(cx).is_ready() {}
        Poll::<()>::Pending
    });
    let lost = guard.run(work).await.expect_err("work that is never done");
    say(format_args!("lost {} {}", lost.reason().as_str(), polled.load(Ordering::Relaxed)));
    let released = guard.release().await;
    assert!(matches!(released, Err(leasehold::Error::Lost { .. })), "{released:?}");
    say(format_args!("told"));
}

/// Says something to the process that started this one.
pub(crate) fn say(what: std::fmt::Arguments<'_>) {
    // Not by `println!`, which the test harness may keep back.
    let mut out = std::io::stdout().lock();
    writeln!(out, "{MARK}{what}").and_then(|()| out.flush()).expect("somebody who listens");
}

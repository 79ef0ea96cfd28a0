//! The other side: a process with a real Redisson, and the threads in it that act.

use leasehold_test_support::Server;
use std::collections::HashMap;
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// The folder of the classes of the agent and its libraries; `cargo xtask interop` sets it.
const CLASSES: &str = "LEASEHOLD_INTEROP_CLASSES";

/// How long a lock of Redisson is leased for by its watchdog, which renews it after a third of that.
pub(crate) const WATCHDOG: Duration = Duration::from_secs(3);

/// How long a waiter in a fair queue of Redisson may be silent.
pub(crate) const FAIR_WAIT: Duration = Duration::from_secs(5);

/// The longest that a command of an actor may take. A step that blocks for longer is a failure.
const PATIENCE: Duration = Duration::from_secs(45);

/// A process of the agent. It ends with its handle, and with this process.
pub(crate) struct Jvm {
    process: Mutex<Child>,
    input: tokio::sync::Mutex<ChildStdin>,
    waiting: Arc<Mutex<HashMap<u64, oneshot::Sender<Said>>>>,
    next: AtomicU64,
}

/// The value that an actor returned. The times are microseconds of the machine's clock.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) value: String,
    pub(crate) began: u64,
    pub(crate) ended: u64,
}

/// The exception that an actor threw.
#[derive(Debug)]
pub(crate) struct Thrown {
    /// The simple name of the exception's class.
    pub(crate) class: String,
    pub(crate) message: String,
}

type Said = Result<Answer, Thrown>;

/// A thread of the agent, which is an owner of locks in an instance of Redisson.
#[derive(Clone)]
pub(crate) struct Actor {
    jvm: Arc<Jvm>,
    client: String,
    thread: String,
}

impl Jvm {
    /// Starts a process.
    pub(crate) fn start() -> Arc<Self> {
        let classes = std::env::var(CLASSES).unwrap_or_else(|_| panic!("run this by `cargo xtask interop`"));
        let mut process = Command::new("java")
            // Quick to start, and small: many of them run at once.
            .args(["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto", "-Xmx192m", "-Dfile.encoding=UTF-8"])
            .arg("-cp")
            .arg(format!("{classes}/classes:{classes}/lib/*"))
            .arg("leasehold.interop.Agent")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("java");
        let input = process.stdin.take().expect("its input");
        let output = process.stdout.take().expect("its output");
        let waiting = Arc::new(Mutex::new(HashMap::<u64, oneshot::Sender<Said>>::new()));
        let heard = waiting.clone();
        drop(tokio::spawn(async move {
            let mut lines = BufReader::new(output).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                let (number, said) = parse(&line);
                let waiter = heard.lock().unwrap_or_else(PoisonError::into_inner).remove(&number);
                // One who does not wait any more is a case that has failed already.
                let _ = waiter.map(|waiter| waiter.send(said));
            }
            // Tasks that still wait are told by the end of their channel.
            heard.lock().unwrap_or_else(PoisonError::into_inner).clear();
        }));
        Arc::new(Self {
            process: Mutex::new(process),
            input: tokio::sync::Mutex::new(input),
            waiting,
            next: AtomicU64::new(0),
        })
    }

    /// Kills it (SIGKILL).
    pub(crate) fn kill(&self) {
        self.process.lock().unwrap_or_else(PoisonError::into_inner).start_kill().expect("a process that runs");
    }

    /// Makes an instance of Redisson in it, and returns the instance's UUID.
    pub(crate) async fn connect(self: &Arc<Self>, client: &str, target: &[&str], settings: &[&str]) -> String {
        let watchdog = format!("watchdog={}", WATCHDOG.as_millis());
        let fair_wait = format!("fairWait={}", FAIR_WAIT.as_millis());
        let arguments = [target, &[&watchdog, &fair_wait], settings].concat();
        self.actor(client, "connector").tell("connect", &arguments).await.value
    }

    /// A thread in it that uses this instance.
    pub(crate) fn actor(self: &Arc<Self>, client: &str, thread: &str) -> Actor {
        Actor { jvm: self.clone(), client: client.to_owned(), thread: thread.to_owned() }
    }

    async fn order(&self, fields: &[&str]) -> oneshot::Receiver<Said> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let (tell, told) = oneshot::channel();
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).insert(number, tell);
        assert!(fields.iter().all(|field| !field.contains(['\t', '\n'])), "{fields:?}");
        let line = format!("{number}\t{}\n", fields.join("\t"));
        self.input.lock().await.write_all(line.as_bytes()).await.expect("an agent that listens");
        told
    }
}

/// How Redisson writes addresses.
pub(crate) fn address(server: &Server) -> String {
    format!("redis://{}", server.addr())
}

impl Actor {
    /// Gives an order, and hands out what comes of it. The order has been given when this returns.
    pub(crate) async fn begin(&self, verb: &str, arguments: &[&str]) -> JoinHandle<Said> {
        let head = [self.thread.as_str(), &self.client, verb];
        let said = self.jvm.order(&[&head, arguments].concat()).await;
        let what = format!("{}: {verb} {}", self.thread, arguments.join(" "));
        tokio::spawn(async move {
            let said = tokio::time::timeout(PATIENCE, said).await;
            let Ok(said) = said else { panic!("no answer in {PATIENCE:?} to {what}") };
            said.unwrap_or_else(|_| Err(Thrown { class: "Killed".to_owned(), message: what }))
        })
    }

    /// Gives an order, and waits until it is carried out or has failed.
    pub(crate) async fn attempt(&self, verb: &str, arguments: &[&str]) -> Said {
        self.begin(verb, arguments).await.await.expect("an answer")
    }

    /// Gives an order that must be carried out.
    pub(crate) async fn tell(&self, verb: &str, arguments: &[&str]) -> Answer {
        match self.attempt(verb, arguments).await {
            Ok(answer) => answer,
            Err(thrown) => panic!("{}: {verb} {arguments:?} threw {}: {}", self.thread, thrown.class, thrown.message),
        }
    }

    /// The answer to a question.
    pub(crate) async fn ask(&self, verb: &str, arguments: &[&str]) -> String {
        self.tell(verb, arguments).await.value
    }

    /// Whether the answer to a question is yes.
    pub(crate) async fn yes(&self, verb: &str, arguments: &[&str]) -> bool {
        let answer = self.ask(verb, arguments).await;
        answer.parse().unwrap_or_else(|_| panic!("{verb} answered {answer:?}"))
    }

    /// Gives an order that must fail with this exception.
    pub(crate) async fn refuses(&self, exception: &str, verb: &str, arguments: &[&str]) {
        match self.attempt(verb, arguments).await {
            Ok(answer) => panic!("{verb} {arguments:?} must throw {exception}, and returned {:?}", answer.value),
            Err(thrown) => assert_eq!(thrown.class, exception, "{}", thrown.message),
        }
    }
}

/// Takes a line of the agent apart.
fn parse(line: &str) -> (u64, Said) {
    let fields: Vec<_> = line.split('\t').collect();
    let time = |at: usize| fields[at].parse().expect("a time");
    let number = fields[0].parse().unwrap_or_else(|_| panic!("the agent said {line:?}"));
    let said = match fields[1] {
        "ok" => Ok(Answer { value: fields[2].to_owned(), began: time(3), ended: time(4) }),
        _ => Err(Thrown { class: fields[2].to_owned(), message: fields[3].to_owned() }),
    };
    (number, said)
}
